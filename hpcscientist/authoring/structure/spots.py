"""A frame in the code: the definition it stands in, the failing statement and its names."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from hpcscientist.authoring.structure.calls import CallGraph, CallSite
from hpcscientist.authoring.structure.code.records import Binding
from hpcscientist.authoring.structure.code.scopes import Path, Site
from hpcscientist.authoring.structure.code.statements import header_parts, span, touching
from hpcscientist.authoring.structure.code.units import Unit, enclosing
from hpcscientist.authoring.structure.names import Names
from hpcscientist.authoring.tracebacks.log import Frame

_LONG = 12  # lines; of a longer statement only what stands in the failing line counts


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a frame stands: `first` to `last` are the lines of its definition.

    At module level that is the statement which the module runs. `parts` is what fails: a simple
    statement, or the header of a compound one.
    """

    unit: Unit
    first: int
    last: int
    line: int
    parts: tuple[ast.AST, ...]
    path: Path
    names: tuple[tuple[Binding, Site | None], ...]

    @property
    def place(self) -> tuple[int, int, int]:
        """What two frames in the same definition share."""
        return id(self.unit), self.first, self.last

    def within(self, call: CallSite) -> bool:
        """Whether a call stands in what fails."""
        return call.caller is self.unit and any(
            part_first <= call.place[0] <= part_last
            for part_first, part_last in (span(part) for part in self.parts)
        )

    def leads_to(self, other: Spot, graph: CallGraph) -> bool:
        """Whether what fails here calls, or hands over, the definition of the next frame."""
        if other.unit is self.unit:
            return other.parts == self.parts
        return any(site.callee is other.unit and self.within(site) for site in graph.sites)


def spot(frame: Frame, graph: CallGraph, names: Names) -> Spot | None:
    """Return where a frame stands; None where its file or line is not there."""
    module = graph.project.modules.get(frame.file)
    if module is None or not 1 <= frame.line <= len(module.source.lines):
        return None
    unit = enclosing(module, frame.line, frame.function)
    first, last = (unit.first, unit.last)
    if unit.kind == "module":
        first, last = _statement_at(unit, frame.line)
    around = graph.project.scope(unit).around(frame.line)
    source = module.source
    if not around or frame.line in source.aside:
        bound = names.of_text(source.line(frame.line), unit, frame.line)
        return Spot(unit, first, last, frame.line, (), (), tuple(bound))
    every, bound = [], []
    for node, path in around:
        parts = header_parts(node)
        if _height(parts) > _LONG:
            parts = touching(parts, frame.line)
        every += parts
        bound += names.of(parts, unit, path)
    return Spot(unit, first, last, frame.line, tuple(every), around[-1][1], tuple(bound))


def _statement_at(module: Unit, line: int) -> tuple[int, int]:
    """Return the lines of the module's own statement around a line; of a definition, its head."""
    for child in module.children:
        if child.first <= line <= child.last:
            return child.first, min(child.last, max(line, child.first, child.body - 1))
    for node in module.node.body if isinstance(module.node, ast.Module) else ():
        first, last = span(node)
        if first <= line <= last:
            return first, last
    return line, line


def _height(parts: list[ast.AST]) -> int:
    spans = [span(part) for part in parts if hasattr(part, "lineno")]
    return max((last for _, last in spans), default=0) - min((f for f, _ in spans), default=0)
