"""The call graph: which of the candidate's definitions call which, and with what arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from hpcscientist.authoring.structure.inference import Inference
from hpcscientist.authoring.structure.project import CodeProject, Refs, decorators, last_name
from hpcscientist.authoring.structure.scopes import Path, first_parameter
from hpcscientist.authoring.structure.units import FunctionNode, Place, Unit, header_parts, start_of

_PASSES = 3  # each pass knows the arguments of the calls that the pass before found
_OPERATORS = {
    ast.Add: "__add__",
    ast.Sub: "__sub__",
    ast.Mult: "__mul__",
    ast.MatMult: "__matmul__",
    ast.Div: "__truediv__",
}


@dataclass(frozen=True, slots=True)
class CallSite:
    """One call: who calls what, and where; `given` maps parameters to argument expressions."""

    caller: Unit
    callee: Unit
    place: Place
    path: Path
    node: ast.AST
    given: dict[str, ast.expr] = field(default_factory=dict)


class CallGraph:
    """All calls among a project's definitions, in the order of files and places."""

    def __init__(self, project: CodeProject) -> None:
        self.project = project
        self._nodes = {id(unit): _telling(project, unit) for unit in project.units}
        arguments: dict[tuple[int, str], list[tuple[ast.expr, Unit, Path]]] = {}
        for _ in range(_PASSES):
            self.inference = Inference(project, arguments)
            self.sites = list(_unique(site for unit in project.units for site in self._of(unit)))
            before, arguments = arguments, {}
            for site in self.sites:
                for name, value in site.given.items():
                    key = (id(site.callee), name)
                    arguments.setdefault(key, []).append((value, site.caller, site.path))
            if before == arguments:
                break
        self.arguments = arguments

    def _of(self, unit: Unit) -> list[CallSite]:
        found: list[CallSite] = []
        for node, path in self._nodes[id(unit)]:
            found += self._at(node, unit, path)
        for statement, path in self.project.scope(unit).statements:
            found += self._decorated(statement, unit, path)
            found += self._blocks(statement, unit, path)
        return sorted(found, key=lambda site: site.place)

    def _at(self, node: ast.AST, unit: Unit, path: Path) -> Iterator[CallSite]:
        infer = self.inference.infer
        if isinstance(node, ast.Call):
            yield from self._call(node, unit, path)
        elif isinstance(node, ast.Subscript):
            name = "__getitem__" if isinstance(node.ctx, ast.Load) else "__setitem__"
            yield from self._special(infer(node.value, unit, path), (name,), node, unit, path)
        elif isinstance(node, ast.BinOp) and (name := _OPERATORS.get(type(node.op), "")):
            yield from self._special(infer(node.left, unit, path), (name,), node, unit, path)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield from self._property(node, unit, path)
        elif isinstance(node, ast.comprehension):
            yield from self._iterated(node.iter, unit, path)

    def _blocks(self, node: ast.AST, unit: Unit, path: Path) -> Iterator[CallSite]:
        if isinstance(node, ast.For | ast.AsyncFor):
            yield from self._iterated(node.iter, unit, path)
        elif isinstance(node, ast.ClassDef):
            for base in node.bases:
                for ref in self.inference.infer(base, unit, path):
                    method = self.inference.objects.method(ref, "__init_subclass__")
                    if method is not None:
                        yield CallSite(unit, method, (node.lineno, node.col_offset), path, base)
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                managed = self.inference.infer(item.context_expr, unit, path)
                for name in ("__enter__", "__exit__"):
                    yield from self._special(managed, (name,), item.context_expr, unit, path)

    def _iterated(self, node: ast.expr, unit: Unit, path: Path) -> Iterator[CallSite]:
        """Yield what a loop over an expression, or over an `enumerate` or `zip` of it, calls."""
        through = isinstance(node, ast.Call) and last_name(node.func) in ("enumerate", "zip")
        for each in node.args if through and isinstance(node, ast.Call) else [node]:
            refs = self.inference.infer(each, unit, path)
            yield from self._special(refs, ("__iter__", "__getitem__"), each, unit, path)

    def _special(
        self, refs: Refs, names: tuple[str, ...], node: ast.expr, unit: Unit, path: Path
    ) -> Iterator[CallSite]:
        """Yield the methods that an operation calls: of each object, the first of `names`."""
        for ref in refs:
            if ref.kind == "instance":
                methods = (self.inference.objects.method(ref, name) for name in names)
                method = next((m for m in methods if m is not None), None)
                if method is not None:
                    yield CallSite(unit, method, start_of(node), path, node)

    def _property(self, node: ast.Attribute, unit: Unit, path: Path) -> Iterator[CallSite]:
        for ref in self.inference.infer(node.value, unit, path):
            if ref.kind == "instance":
                method = self.inference.objects.method(ref, node.attr)
                if method is not None and "property" in decorators(method):
                    yield CallSite(unit, method, _place(node), path, node)

    def _decorated(self, node: ast.AST, unit: Unit, path: Path) -> Iterator[CallSite]:
        for decorator in getattr(node, "decorator_list", ()):
            for ref in self.inference.infer(decorator, unit, path):
                if ref.kind == "function" and ref.unit is not None:
                    yield CallSite(unit, ref.unit, start_of(decorator), path, decorator)

    def _call(self, node: ast.Call, unit: Unit, path: Path) -> Iterator[CallSite]:
        inference = self.inference
        refs = inference.infer(node.func, unit, path)
        unbound = isinstance(node.func, ast.Attribute) and any(
            ref.kind == "class" for ref in inference.infer(node.func.value, unit, path)
        )
        found = False
        for ref in refs:
            for target in inference.objects.called(ref):
                found = True
                skip = not (unbound and ref.kind == "function") or "classmethod" in decorators(
                    target
                )
                given = _given(node, target, skip)
                yield CallSite(unit, target, _place(node.func), path, node, given)
        if not found and not refs:
            yield from self._handed(node, unit, path)

    def _handed(self, node: ast.Call, unit: Unit, path: Path) -> Iterator[CallSite]:
        """Yield calls of the candidate's functions that are passed to a library to call."""
        name = getattr(node.func, "id", "")
        for value in (*node.args, *(keyword.value for keyword in node.keywords)):
            refs = self.inference.infer(value, unit, path)
            for ref in refs:
                if (
                    ref.kind == "function"
                    and ref.unit is not None
                    and not isinstance(value, ast.Call)
                ):
                    yield CallSite(unit, ref.unit, _place(node.func), path, node)
                elif name == "len" and ref.kind == "instance":
                    yield from self._special((ref,), ("__len__",), node, unit, path)


def _telling(project: CodeProject, unit: Unit) -> list[tuple[ast.AST, Path]]:
    """Return the expressions of a unit's own statements that may call something."""
    kinds = (ast.Call, ast.Subscript, ast.BinOp, ast.Attribute, ast.comprehension)
    return [
        (node, path)
        for statement, path in project.scope(unit).statements
        for part in header_parts(statement)
        for node in ast.walk(part)
        if isinstance(node, kinds)
    ]


def _place(node: ast.expr) -> Place:
    """Return the place of a called name; for a dotted name, the line of its last part."""
    line = node.end_lineno if isinstance(node, ast.Attribute) else node.lineno
    return line or node.lineno, node.col_offset


def _given(node: ast.Call, callee: Unit, skip: bool) -> dict[str, ast.expr]:
    """Return the arguments of a call by parameter; with `skip`, a method's object is left out."""
    if not isinstance(callee.node, FunctionNode):
        return {}
    parameters = [a.arg for a in (*callee.node.args.posonlyargs, *callee.node.args.args)]
    if skip and first_parameter(callee):
        parameters = parameters[1:]
    named = {*parameters, *(a.arg for a in callee.node.args.kwonlyargs)}
    given: dict[str, ast.expr] = {}
    for name, value in zip(parameters, node.args, strict=False):
        if isinstance(value, ast.Starred):
            break
        given[name] = value
    given |= {k.arg: k.value for k in node.keywords if k.arg in named and k.arg}
    return given


def _unique(sites: Iterator[CallSite]) -> Iterator[CallSite]:
    seen = set()
    for site in sites:
        key = (id(site.caller), id(site.callee), site.place)
        if key not in seen:
            seen.add(key)
            yield site
