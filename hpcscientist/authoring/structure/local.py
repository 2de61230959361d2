"""The code around the frames of a traceback, and the outline of all code (Dolphin, 3.2).

Dolphin (arXiv 2501.03916) has a model describe the local structure. Here it is computed, so that
no call is invented; a model only interprets it.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hpcscientist.authoring.structure.calls import CallGraph, CallSite
from hpcscientist.authoring.structure.names import Names, Spot, spot
from hpcscientist.authoring.structure.project import CodeProject
from hpcscientist.authoring.structure.records import Call, Definition, LocalStructure, Shape
from hpcscientist.authoring.structure.scopes import BindingSite, Path, first_parameter
from hpcscientist.authoring.structure.shapes import Shapes
from hpcscientist.authoring.structure.units import Unit
from hpcscientist.authoring.tracebacks.log import Frame
from hpcscientist.files.text import one_line

# Which other definitions the values of a failing line come from.
#
# The search goes backwards: from names to what they were bound to, from calls to what they return,
# from parameters to the arguments of callers, from an object's attributes to its `__init__`. A
# traceback alone does not show this when modules are nested.

_HOPS = 5  # bindings, calls and returns on the way
_STEPS = 200


@dataclass(frozen=True, slots=True)
class _Step:
    """An expression whose value matters, and how far it is from the failing line."""

    parts: tuple[ast.AST, ...]
    unit: Unit
    path: Path
    hops: int


class Neighbours:
    """A finder of the definitions that a failing line's values come from; see `of`."""

    def __init__(self, graph: CallGraph, names: Names) -> None:
        self._graph, self._names = graph, names

    def of(self, spots: Sequence[Spot]) -> list[Unit]:
        """Return the definitions that the values at some places come from, the nearest first."""
        found: dict[Unit, None] = {}
        queue = deque(_Step(spot.parts, spot.unit, spot.path, 0) for spot in spots)
        seen: set[int] = set()
        for _ in range(_STEPS):
            if not queue:
                break
            step = queue.popleft()
            new = tuple(part for part in step.parts if id(part) not in seen)
            seen.update(id(part) for part in new)
            self._follow(_Step(new, step.unit, step.path, step.hops + 1), found, queue)
        return list(found)

    def _follow(self, step: _Step, found: dict[Unit, None], queue: deque[_Step]) -> None:
        for call in self._calls(step):
            self._enter(call.callee, found)
            if step.hops < _HOPS:
                queue.extend(self._returned(call.callee, step.hops))
        for _, site in self._names.of(list(step.parts), step.unit, step.path):
            if site is not None:
                elsewhere = site.unit is not step.unit and site.unit.kind != "module"
                if elsewhere and site.definition is None:
                    found.setdefault(site.unit)
                if step.hops < _HOPS:
                    queue.extend(self._origins(site, step.hops))

    def _calls(self, step: _Step) -> list[CallSite]:
        inner = {id(node) for part in step.parts for node in ast.walk(part)}
        return [s for s in self._graph.sites if s.caller is step.unit and id(s.node) in inner]

    def _enter(self, unit: Unit, found: dict[Unit, None]) -> None:
        """Add a called definition, and `__init__` of its class if it reads its object."""
        found.setdefault(unit)
        if unit.owner is not None and _reads_object(unit):
            for child in unit.owner.children:
                if child.short == "__init__":
                    found.setdefault(child)

    def _returned(self, unit: Unit, hops: int) -> list[_Step]:
        return [
            _Step((node.value,), unit, path, hops)
            for node, path in self._graph.project.scope(unit).statements
            if isinstance(node, ast.Return) and node.value is not None
        ]

    def _origins(self, site: BindingSite, hops: int) -> list[_Step]:
        if site.kind == "parameter":
            given = self._graph.arguments.get((id(site.unit), site.name), ())
            return [_Step((value,), unit, path, hops) for value, unit, path in given]
        if site.value is None:
            return []
        return [_Step((site.value,), site.unit, site.path, hops)]


def _reads_object(unit: Unit) -> bool:
    own = first_parameter(unit)
    return (
        bool(own)
        and unit.node is not None
        and any(
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == own
            for node in ast.walk(unit.node)
        )
    )


MAX_DEFINITIONS, MAX_CALLS, MAX_NAMES, MAX_SHAPES = 16, 60, 60, 40
MAX_CHARS = 12_000  # of code in all definitions together
OUTLINED = 200  # definitions and calls of an outline
_LINES = 60  # of one definition; a longer one is shown in part
_AROUND = 12
_CODE = 160
GAP = "…"


def local_structure(files: Mapping[str, str], frames: Sequence[Frame]) -> LocalStructure:
    """Return the structure around frames, in their order; empty if there are none.

    Never raises: of a file that does not parse, the other lines are used.
    """
    if not frames:
        return LocalStructure()
    graph = CallGraph(CodeProject(files))
    names = Names(graph)
    spots = [found for frame in frames if (found := spot(frame, graph, names)) is not None]
    inner = [
        one
        for number, one in enumerate(spots)
        if number + 1 == len(spots) or not one.leads_to(spots[number + 1], graph)
    ]
    own = list({one.place: one for one in spots}.values())
    seeds = {one.unit for one in own if one.unit.kind != "module"}
    near = [u for u in Neighbours(graph, names).of(inner) if u not in seeds and u.kind != "module"]
    near = near[: max(0, MAX_DEFINITIONS - len(own))]
    return LocalStructure(
        definitions=_definitions(own, spots, near),
        calls=_calls(graph, spots, own, near),
        names=tuple(dict.fromkeys(b for one in spots for b, _ in one.names))[:MAX_NAMES],
        shapes=_shapes(graph, own, spots, near),
    )


def outline(files: Mapping[str, str]) -> LocalStructure:
    """Return all definitions of the code by their headers, their calls and shapes."""
    graph = CallGraph(CodeProject(files))
    found = [unit for unit in graph.project.units if unit.kind != "module"]
    read = Shapes(graph)
    shapes = [shape for unit in graph.project.units for shape in read.of(unit)]
    return LocalStructure(
        definitions=tuple(_definition(unit, unit.first, unit.last) for unit in found[:OUTLINED]),
        calls=_told(graph.sites)[:OUTLINED],
        shapes=tuple(sorted(dict.fromkeys(shapes), key=lambda s: (s.file, s.line)))[:OUTLINED],
    )


def _definitions(
    own: Sequence[Spot], spots: Sequence[Spot], near: Sequence[Unit]
) -> tuple[Definition, ...]:
    """Return the definitions with their code; once MAX_CHARS are used up, only with headers."""
    failing: dict[tuple[int, int, int], set[int]] = {}
    for one in spots:
        failing.setdefault(one.place, set()).add(one.line)
    found, room = [], MAX_CHARS
    for one in own[:MAX_DEFINITIONS]:
        code = _code(one.unit, one.first, one.last, failing[one.place])
        found.append(_definition(one.unit, one.first, one.last, code, room))
        room -= len(found[-1].code)
    for unit in near:
        found.append(
            _definition(unit, unit.first, unit.last, _code(unit, unit.first, unit.last), room)
        )
        room -= len(found[-1].code)
    return tuple(found)


def _definition(unit: Unit, first: int, last: int, code: str = "", room: int = 0) -> Definition:
    return Definition(
        file=unit.file,
        name=unit.name,
        kind=unit.kind,
        first=first,
        last=last,
        signature=unit.header(),
        code=code if len(code) <= room else "",
    )


def _code(unit: Unit, first: int, last: int, failing: Iterable[int] = ()) -> str:
    """Return lines of a file; of too many, only the head and the lines around failing ones."""
    lines = unit.source.lines
    last = min(last, len(lines))
    shown = set(range(first, last + 1))
    if len(shown) > _LINES:
        shown = set(range(first, first + _AROUND))
        for line in failing:
            shown.update(range(max(first, line - _AROUND), min(last, line + _AROUND) + 1))
    text: list[str] = []
    for number in range(first, last + 1):
        if number in shown:
            text.append(lines[number - 1])
        elif text and text[-1] != GAP:
            text.append(GAP)
    return "\n".join(text)


def _calls(
    graph: CallGraph, spots: Sequence[Spot], own: Sequence[Spot], near: Sequence[Unit]
) -> tuple[Call, ...]:
    """Return the calls to and from the frames' definitions, and among those shown."""
    shown = {one.unit for one in own if one.unit.kind != "module"} | set(near)
    seeds = shown - set(near)
    parts = [(one.unit, one.first, one.last) for one in own]
    for one in spots:  # statements at module level that bind one of their names
        bound = [site for _, site in one.names if site is not None and site.unit.kind == "module"]
        parts += [(site.unit, site.line, max(site.line, site.end[0])) for site in bound]
    ranked: list[tuple[int, int, CallSite]] = []
    for number, site in enumerate(graph.sites):
        at_module = any(
            site.caller is unit and first <= site.place[0] <= last for unit, first, last in parts
        )
        if any(one.within(site) for one in spots):
            ranked.append((0, number, site))
        elif site.callee in seeds:
            ranked.append((1, number, site))
        elif at_module or (site.caller in shown and site.callee in shown):
            ranked.append((2, number, site))
    kept = sorted(sorted(ranked, key=lambda each: each[:2])[:MAX_CALLS], key=lambda each: each[1])
    return _told([site for _, _, site in kept])


def _told(sites: Sequence[CallSite]) -> tuple[Call, ...]:
    """Return call sites as records, by file and line."""
    found = [
        Call(
            caller=site.caller.name,
            callee=site.callee.name,
            file=site.caller.file,
            line=site.place[0],
            code=one_line(site.caller.source.line(site.place[0]), _CODE),
        )
        for site in sorted(sites, key=lambda s: (s.caller.file, s.place, s.callee.key))
    ]
    return tuple(dict.fromkeys(found))


def _shapes(
    graph: CallGraph, own: Sequence[Spot], spots: Sequence[Spot], near: Sequence[Unit]
) -> tuple[Shape, ...]:
    """Return the shapes in the definitions and in the statements that bind the names."""
    read = Shapes(graph)
    found: list[Shape] = []
    for one in own:
        found += read.of(one.unit, one.first, one.last)
    for unit in near:
        found += read.of(unit)
    for one in spots:
        for _, site in one.names:
            if site is not None:
                found += read.of(site.unit, site.line, max(site.line, site.end[0]))
    kept = tuple(dict.fromkeys(found))[:MAX_SHAPES]
    return tuple(sorted(kept, key=lambda shape: (shape.file, shape.line)))
