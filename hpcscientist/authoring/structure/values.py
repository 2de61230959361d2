"""Values that the text fixes: constants, arithmetic on them, arguments that all calls agree on."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from hpcscientist.authoring.structure.calls import CallGraph
from hpcscientist.authoring.structure.code.scopes import Path, Scope, Site
from hpcscientist.authoring.structure.code.statements import start_of
from hpcscientist.authoring.structure.code.units import Unit

Value = object  # a number, text, None, or a tuple of such
_DEPTH = 12
_STEPS = 500  # for one question
_LARGEST = 10**12
_LONGEST = 16
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


class Unknown(Exception):
    """The text does not fix the value."""


class Values:
    """Computes what expressions are worth, where names are bound once."""

    def __init__(self, graph: CallGraph) -> None:
        self._graph, self._project = graph, graph.project
        self._inference = graph.inference
        self._depth = self._steps = 0

    def fold(self, node: ast.expr, unit: Unit, path: Path = ()) -> Value:
        """Return an expression's value. Raises Unknown."""
        if self._depth == 0:
            self._steps = _STEPS
        self._steps -= 1
        if self._depth >= _DEPTH or self._steps < 0:
            raise Unknown
        self._depth += 1
        try:
            return self._fold(node, unit, path)
        finally:
            self._depth -= 1

    def _fold(self, node: ast.expr, unit: Unit, path: Path) -> Value:
        value: Value
        match node:
            case ast.Constant() if not isinstance(node.value, bytes | complex):
                value = node.value
            case ast.Name():
                value = self._site(self._project.see(node.id, unit, start_of(node), path))
            case ast.Attribute():
                value = self._attribute(node, unit, path)
            case ast.Tuple() | ast.List() if len(node.elts) <= _LONGEST:
                value = tuple(self.fold(item, unit, path) for item in node.elts)
            case ast.UnaryOp(op=ast.USub()):
                value = -_number(self.fold(node.operand, unit, path))
            case ast.BinOp():
                value = self._computed(node, unit, path)
            case ast.Subscript():
                value = self._item(node, unit, path)
            case _:
                raise Unknown
        return value

    def _computed(self, node: ast.BinOp, unit: Unit, path: Path) -> Value:
        compute = _OPERATORS.get(type(node.op))
        if compute is None:
            raise Unknown
        left = _number(self.fold(node.left, unit, path))
        right = _number(self.fold(node.right, unit, path))
        if isinstance(node.op, ast.Pow) and not (abs(left) <= 1000 and 0 <= right <= 12):
            raise Unknown
        try:
            value: Value = _number(compute(left, right))
        except ArithmeticError:
            raise Unknown from None
        return value

    def _item(self, node: ast.Subscript, unit: Unit, path: Path) -> Value:
        index = self.fold(node.slice, unit, path)
        whole = self.fold(node.value, unit, path)
        if isinstance(whole, tuple) and isinstance(index, int) and abs(index) < len(whole):
            item: Value = whole[index]
            return item
        raise Unknown

    def _attribute(self, node: ast.Attribute, unit: Unit, path: Path) -> Value:
        """Return a constant of a module or class, or an attribute that is set once."""
        found: set[Value] = set()
        for ref in self._inference.infer(node.value, unit, path):
            if ref.kind == "module" and ref.unit is not None:
                member = self._project.member(ref.unit, node.attr)
                found.add(self._site(member if isinstance(member, Site) else None))
            elif ref.kind in ("instance", "class"):
                found.add(self._site(self._inference.objects.attribute_site(ref, node.attr)))
        return _only(found)

    def _site(self, site: Site | None) -> Value:
        if site is None or site.element or site.kind not in ("assign", "parameter", "import"):
            raise Unknown
        if site.kind == "import":
            return self._site(self._inference.imported(site))
        if site.kind == "parameter":
            return self._parameter(site)
        scope = self._project.scope(site.unit)
        listed = scope.attributes if _of_object(site, scope) else scope.sites
        if len(listed.get(site.name, ())) != 1 or site.value is None or self._rebound(site):
            raise Unknown
        return self.fold(site.value, site.unit, site.path)

    def _rebound(self, site: Site) -> bool:
        """Whether other functions bind the name, too: as a global, or as an attribute."""
        owner = site.unit.owner
        if owner is not None and _of_object(site, self._project.scope(site.unit)):
            others = [child for child in owner.children if child is not site.unit]
            return any(site.name in self._project.scope(other).attributes for other in others)
        if site.unit.kind == "class":
            scopes = [self._project.scope(child) for child in site.unit.children]
            return any(site.name in s.attributes for s in scopes) or _is_record(site.unit)
        inner = site.unit.walk()
        return any(site.name in self._project.scope(u).outer for u in inner)

    def _parameter(self, site: Site) -> Value:
        """Return what all known calls give for a parameter, the default where they give none."""
        calls = [s for s in self._graph.sites if s.callee is site.unit]
        if not calls:
            raise Unknown
        found: set[Value] = set()
        for call in calls:
            if (given := call.given.get(site.name)) is not None:
                found.add(self.fold(given, call.caller, call.path))
            elif _spread(call.node) or site.value is None or site.unit.parent is None:
                raise Unknown
            else:
                found.add(self.fold(site.value, site.unit.parent))
        return _only(found)


def _of_object(site: Site, scope: Scope) -> bool:
    """Whether a site binds an attribute of a method's object."""
    return site in scope.attributes.get(site.name, ())


def _only(found: set[Value]) -> Value:
    if len(found) != 1:
        raise Unknown
    return found.pop()


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > _LARGEST:
        raise Unknown
    return value


def _is_record(owner: Unit) -> bool:
    """Whether a class gets its values where it is made (a dataclass, a named tuple)."""
    made = any(child.short == "__init__" for child in owner.children)
    bases = getattr(owner.node, "bases", ())
    return bool(getattr(owner.node, "decorator_list", ())) or bool(bases and not made)


def _spread(node: ast.AST) -> bool:
    """Whether a call gives arguments that the text does not show."""
    if not isinstance(node, ast.Call):
        return True
    starred = any(isinstance(argument, ast.Starred) for argument in node.args)
    return starred or any(keyword.arg is None for keyword in node.keywords)
