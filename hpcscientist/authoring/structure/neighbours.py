"""Which other definitions the values of a failing line come from.

Walks backwards: from its names to what they were bound to, from calls to what is returned there,
from parameters to the arguments of callers, from an object's attributes to its `__init__`. This is
what nested modules hide from whoever reads a traceback alone.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from hpcscientist.authoring.structure.calls import CallGraph, CallSite
from hpcscientist.authoring.structure.code.bindings import first_parameter
from hpcscientist.authoring.structure.code.scopes import Path, Site
from hpcscientist.authoring.structure.code.units import Unit
from hpcscientist.authoring.structure.names import Names
from hpcscientist.authoring.structure.spots import Spot

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
    """Finds them; see `of`."""

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
        """Take a definition that is called, and the `__init__` of the object whose it is."""
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

    def _origins(self, site: Site, hops: int) -> list[_Step]:
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
