"""Shapes and sizes that the source determines: arguments of layers, arrays and reshapes.

Each is shown as written, with names replaced by their values if the source determines them:
`Linear(784, 10)`, `zeros((3, 4))`, `reshape(-1, 28)`. Other names stay.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

from hpcscientist.authoring.structure.calls import CallGraph
from hpcscientist.authoring.structure.project import last_name
from hpcscientist.authoring.structure.records import Shape
from hpcscientist.authoring.structure.scopes import BindingSite, Path, UnitScope
from hpcscientist.authoring.structure.units import Unit, end_of, header_parts, start_of
from hpcscientist.files.text import one_line

# Values that the source determines: constants, arithmetic, arguments that all calls agree on.

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


class UnknownValue(Exception):
    """The source does not determine the value."""


class Values:
    """An evaluator of expressions whose names are bound once."""

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
            raise UnknownValue
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
                raise UnknownValue
        return value

    def _computed(self, node: ast.BinOp, unit: Unit, path: Path) -> Value:
        compute = _OPERATORS.get(type(node.op))
        if compute is None:
            raise UnknownValue
        left = _number(self.fold(node.left, unit, path))
        right = _number(self.fold(node.right, unit, path))
        if isinstance(node.op, ast.Pow) and not (abs(left) <= 1000 and 0 <= right <= 12):
            raise UnknownValue
        try:
            value: Value = _number(compute(left, right))
        except ArithmeticError:
            raise UnknownValue from None
        return value

    def _item(self, node: ast.Subscript, unit: Unit, path: Path) -> Value:
        index = self.fold(node.slice, unit, path)
        whole = self.fold(node.value, unit, path)
        if isinstance(whole, tuple) and isinstance(index, int) and abs(index) < len(whole):
            item: Value = whole[index]
            return item
        raise UnknownValue

    def _attribute(self, node: ast.Attribute, unit: Unit, path: Path) -> Value:
        """Return a constant of a module or class, or an attribute that is set once."""
        found: set[Value] = set()
        for ref in self._inference.infer(node.value, unit, path):
            if ref.kind == "module" and ref.unit is not None:
                member = self._project.member(ref.unit, node.attr)
                found.add(self._site(member if isinstance(member, BindingSite) else None))
            elif ref.kind in ("instance", "class"):
                found.add(self._site(self._inference.objects.attribute_site(ref, node.attr)))
        return _only(found)

    def _site(self, site: BindingSite | None) -> Value:
        if site is None or site.element or site.kind not in ("assign", "parameter", "import"):
            raise UnknownValue
        if site.kind == "import":
            return self._site(self._inference.imported(site))
        if site.kind == "parameter":
            return self._parameter(site)
        scope = self._project.scope(site.unit)
        listed = scope.attributes if _of_object(site, scope) else scope.sites
        if len(listed.get(site.name, ())) != 1 or site.value is None or self._rebound(site):
            raise UnknownValue
        return self.fold(site.value, site.unit, site.path)

    def _rebound(self, site: BindingSite) -> bool:
        """Return whether other functions bind the name too, as a global or as an attribute."""
        owner = site.unit.owner
        if owner is not None and _of_object(site, self._project.scope(site.unit)):
            others = [child for child in owner.children if child is not site.unit]
            return any(site.name in self._project.scope(other).attributes for other in others)
        if site.unit.kind == "class":
            scopes = [self._project.scope(child) for child in site.unit.children]
            return any(site.name in s.attributes for s in scopes) or _is_record(site.unit)
        inner = site.unit.walk()
        return any(site.name in self._project.scope(u).outer for u in inner)

    def _parameter(self, site: BindingSite) -> Value:
        """Return the value that all known calls pass for a parameter, by default if need be."""
        calls = [s for s in self._graph.sites if s.callee is site.unit]
        if not calls:
            raise UnknownValue
        found: set[Value] = set()
        for call in calls:
            if (given := call.given.get(site.name)) is not None:
                found.add(self.fold(given, call.caller, call.path))
            elif _spread(call.node) or site.value is None or site.unit.parent is None:
                raise UnknownValue
            else:
                found.add(self.fold(site.value, site.unit.parent))
        return _only(found)


def _of_object(site: BindingSite, scope: UnitScope) -> bool:
    """Return whether a site binds an attribute of a method's object."""
    return site in scope.attributes.get(site.name, ())


def _only(found: set[Value]) -> Value:
    if len(found) != 1:
        raise UnknownValue
    return found.pop()


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > _LARGEST:
        raise UnknownValue
    return value


def _is_record(owner: Unit) -> bool:
    """Return whether a class gets its values on construction (a dataclass, a named tuple)."""
    made = any(child.short == "__init__" for child in owner.children)
    bases = getattr(owner.node, "bases", ())
    return bool(getattr(owner.node, "decorator_list", ())) or bool(bases and not made)


def _spread(node: ast.AST) -> bool:
    """Return whether a call passes arguments that the source does not show."""
    if not isinstance(node, ast.Call):
        return True
    starred = any(isinstance(argument, ast.Starred) for argument in node.args)
    return starred or any(keyword.arg is None for keyword in node.keywords)


_TEXT = 120
_ITEMS = 16
_LAYERS = re.compile(
    r"(Lazy)?(Linear|Bilinear|Conv(Transpose)?[123]d|BatchNorm[123]d|Embedding(Bag)?)|Dense|"
    r"(Layer|RMS|Group|Instance)Norm|RNN|(LSTM|GRU|RNN)(Cell)?|MultiheadAttention|"
    r"Transformer(En|De)coderLayer|(Un)?[Ff]latten|(Adaptive)?(Avg|Max)Pool[123]d|Upsample"
)
_ARRAYS = re.compile(r"(new_)?(zeros|ones|empty|full)|rand|randn|eye|broadcast_to|tile")
_SIZED = re.compile(  # calls with arguments of other kinds too: shown only if one is a size
    r"randint|integers|arange|linspace|(standard_)?normal|uniform|random|choice|repeat|unsqueeze|"
    r"squeeze|expand_dims|stack|concatenate|cat|hstack|vstack|chunk|narrow|movedim|unfold"
)
_FORMS = re.compile(r"reshape|view|permute|transpose|swapaxes|moveaxis|expand")
_LITERALS = {"array", "tensor", "asarray"}
_NO_SIZES = {"dtype", "device", "requires_grad", "bias", "generator", "inplace", "copy"}


class Shapes:
    """A reader of the shapes in the statements of definitions."""

    def __init__(self, graph: CallGraph) -> None:
        self._graph, self._values = graph, Values(graph)

    def of(self, unit: Unit, first: int = 1, last: int = 10**9) -> Iterator[Shape]:
        """Yield the shapes in a unit's own statements between two lines, in source order."""
        found = []
        for statement, path in self._graph.project.scope(unit).statements:
            for part in header_parts(statement):
                named = _target(statement)
                for node in ast.walk(part):
                    if isinstance(node, ast.Call) and first <= node.lineno <= last:
                        found.append((node.lineno, end_of(node), node, named, path))
        for line, _, node, named, path in sorted(found, key=lambda f: f[:2]):
            if text := self._text(node, unit, path):
                whole = named is not None and named[1] is node
                name = named[0] if named is not None and whole else last_name(node.func)
                yield Shape(name=name, file=unit.file, line=line, shape=one_line(text, _TEXT))

    def _text(self, node: ast.Call, unit: Unit, path: Path) -> str:
        """Return a call with its values; "" if it shows no shape."""
        name = last_name(node.func)
        refs = self._graph.inference.infer(node.func, unit, path)
        if any(ref.kind == "class" for ref in refs):
            return self._shown(name, node, unit, path)
        if refs:
            return ""
        if name in _LITERALS and node.args:
            shape = _nested(node.args[0])
            return f"{name} of shape {shape}" if shape else ""
        if _FORMS.fullmatch(name) or _LAYERS.fullmatch(name) or _ARRAYS.fullmatch(name):
            return self._shown(name, node, unit, path, sizes=False)
        return self._shown(name, node, unit, path) if _SIZED.fullmatch(name) else ""

    def _shown(self, name: str, node: ast.Call, unit: Unit, path: Path, sizes: bool = True) -> str:
        """Return a call with its values; "" if it must have `sizes` and has none."""
        shown, known = [], not sizes
        arguments: list[tuple[str | None, ast.expr]] = [(None, a) for a in node.args]
        arguments += [(k.arg, k.value) for k in node.keywords if k.arg not in _NO_SIZES]
        for label, argument in arguments:
            text, size = self._argument(argument, unit, path)
            known = known or size or label == "size"
            shown.append(f"{label}={text}" if label else text)
        return f"{name}({', '.join(shown)})" if known and shown else ""

    def _argument(self, node: ast.expr, unit: Unit, path: Path) -> tuple[str, bool]:
        """Return an argument as text, and whether it is a size, or a tuple with one."""
        if isinstance(node, ast.Tuple | ast.List) and 0 < len(node.elts) <= _ITEMS:
            parts = [self._argument(item, unit, path) for item in node.elts]
            inner = ", ".join(text for text, _ in parts)
            if isinstance(node, ast.List):
                return f"[{inner}]", any(size for _, size in parts)
            comma = "," if len(parts) == 1 else ""
            return f"({inner}{comma})", any(size for _, size in parts)
        try:
            value = self._values.fold(node, unit, path)
        except UnknownValue:
            return _source(node, unit), False
        sizes = value if isinstance(value, tuple) else (value,)
        number = any(isinstance(size, int) and not isinstance(size, bool) for size in sizes)
        return one_line(repr(value), _TEXT), number


def _target(statement: ast.AST) -> tuple[str, ast.expr] | None:
    """Return the name that a statement assigns, and the assigned value."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target, value = statement.target, statement.value
    else:
        return None
    if isinstance(target, ast.Name):
        return target.id, value
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        return f"{target.value.id}.{target.attr}", value
    return None


def _nested(node: ast.expr) -> tuple[int, ...]:
    """Return the shape of nested list literals; () if there is none or lengths differ."""
    shape: list[int] = []
    level: list[ast.expr] = [node]
    while level and all(isinstance(item, ast.List | ast.Tuple) for item in level):
        items = [item.elts for item in level if isinstance(item, ast.List | ast.Tuple)]
        if len({len(each) for each in items}) != 1:
            return ()
        shape.append(len(items[0]))
        level = [each for elts in items for each in elts]
    if any(isinstance(item, ast.List | ast.Tuple | ast.Starred | ast.ListComp) for item in level):
        return ()
    return tuple(shape)


def _source(node: ast.expr, unit: Unit) -> str:
    """Return an expression as written, cut after its first line."""
    if node.lineno in unit.source.aside or node.lineno > len(unit.source.lines):
        return "…"
    line = unit.source.lines[node.lineno - 1].encode("utf-8", "replace")
    last = node.end_col_offset if node.end_lineno == node.lineno else None
    text = line[node.col_offset : last].decode("utf-8", "replace").strip()
    return text if node.end_lineno == node.lineno else f"{text} …"
