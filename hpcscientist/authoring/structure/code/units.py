"""Definitions as scopes: which there are, which lines each holds, which one a line lies in."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from hpcscientist.authoring.structure.code.parsing import HEADER, Source, indentation
from hpcscientist.authoring.structure.code.records import Kind
from hpcscientist.files.text import one_line

MODULE = "<module>"
_SIGNATURE = 200

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
ScopeNode = FunctionNode | ast.ClassDef | ast.Module


@dataclass(eq=False, slots=True)
class Unit:
    """A module, class or function: a scope. `node` is None where the file does not parse."""

    source: Source
    name: str
    kind: Kind
    node: ScopeNode | None
    first: int
    last: int
    body: int  # first line of its block
    parent: Unit | None = None
    children: list[Unit] = field(default_factory=list)

    @property
    def file(self) -> str:
        """The file it stands in."""
        return self.source.file

    @property
    def short(self) -> str:
        """Its name without those around it."""
        return self.name.rpartition(".")[2]

    @property
    def owner(self) -> Unit | None:
        """The class that a method belongs to."""
        return self.parent if self.kind == "method" else None

    @property
    def key(self) -> tuple[str, int, str]:
        """What orders units: file, line, name."""
        return self.file, self.first, self.name

    def walk(self) -> Iterator[Unit]:
        """Yield the unit and all within it, as they stand in the file."""
        stack = [self]
        while stack:
            unit = stack.pop()
            yield unit
            stack.extend(reversed(unit.children))

    def module(self) -> Unit:
        """Return the module around it."""
        unit = self
        while unit.parent is not None:
            unit = unit.parent
        return unit

    def header(self) -> str:
        """Return its header on one line."""
        if self.kind == "module":
            return ""
        start = self.first if self.node is None else self.node.lineno  # type: ignore[union-attr]
        lines = self.source.lines[start - 1 : max(start, self.body - 1)]
        text = " ".join(line.strip() for line in lines)
        return one_line(text, _SIGNATURE)


def units(source: Source) -> Unit:
    """Return a file's module, with every definition in it."""
    whole = max(len(source.lines), 1)
    module = Unit(source, MODULE, "module", source.tree, 1, whole, 1)
    if source.tree is None:
        _by_text(module)
        return module
    stack: list[tuple[Unit, ast.AST]] = [(module, source.tree)]
    while stack:
        unit, node = stack.pop()
        inner: list[tuple[Unit, ast.AST]] = []
        for child in ast.iter_child_nodes(node):
            if isinstance(child, FunctionNode | ast.ClassDef):
                inner.append((_child(unit, child), child))
            elif isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                inner.append((unit, child))
        stack.extend(reversed(inner))
    for each in module.walk():
        each.children.sort(key=lambda u: u.first)
        if source.aside and each.kind != "module":
            _extend(each)
    return module


def _child(parent: Unit, node: FunctionNode | ast.ClassDef) -> Unit:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    last = node.end_lineno or node.lineno
    body = max(node.body[0].lineno, node.lineno)
    unit = Unit(
        parent.source, _name(parent, node.name), _kind(parent, node), node, first, last, body
    )
    unit.parent = parent
    parent.children.append(unit)
    return unit


def _kind(parent: Unit, node: FunctionNode | ast.ClassDef) -> Kind:
    if isinstance(node, ast.ClassDef):
        return "class"
    return "method" if parent.kind == "class" else "function"


def _name(parent: Unit, name: str) -> str:
    return name if parent.kind == "module" else f"{parent.name}.{name}"


def _extend(unit: Unit) -> None:
    """Let a definition of a file that does not parse have what is indented as if in it.

    Where its block is missing, the line that was found instead is its own, too.
    """
    source, header = unit.source, int(getattr(unit.node, "lineno", unit.first))
    indent = indentation(source.lines[header - 1])
    for number in range(unit.last + 1, len(source.lines) + 1):
        line = source.lines[number - 1]
        if line.strip() and indentation(line) <= indent:
            break
        if line.strip():
            unit.last = number
    unit.last = max(unit.last, source.blockless.get(header, 0))


def _by_text(module: Unit) -> None:
    """Find definitions by their headers; each ends before the next line not indented deeper."""
    lines = module.source.lines
    open_units: list[tuple[int, Unit]] = []
    last = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        indent = indentation(line)
        while open_units and indent <= open_units[-1][0] and not line.lstrip().startswith(")"):
            open_units.pop()[1].last = max(last, 1)
        if header := HEADER.match(line):
            parent = open_units[-1][1] if open_units else module
            kind: Kind = "class" if header[2] == "class" else "function"
            if kind == "function" and parent.kind == "class":
                kind = "method"
            name = _name(parent, header[3])
            unit = Unit(module.source, name, kind, None, number, number, number + 1, parent)
            parent.children.append(unit)
            open_units.append((indent, unit))
        last = number
    for _, unit in open_units:
        unit.last = max(last, unit.first)


def enclosing(module: Unit, line: int, function: str = "") -> Unit:
    """Return the innermost unit that runs a line.

    Headers are run by the scope around them, unless `function` says that a call was about to
    begin or end there.
    """
    around = [unit for unit in module.walk() if unit.first <= line <= unit.last]
    for unit in reversed(around):
        if unit.short == function and unit.kind != "module":
            return unit
    for unit in reversed(around):
        if unit.kind == "module" or line >= unit.body:
            return unit
    return module
