"""The names in a failing line, and where each was last bound before it."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass

from hpcscientist.authoring.structure.calls import CallGraph, CallSite
from hpcscientist.authoring.structure.project import Ref
from hpcscientist.authoring.structure.records import Binding
from hpcscientist.authoring.structure.scopes import BindingSite, Path, first_parameter, last_before
from hpcscientist.authoring.structure.units import (
    Place,
    Unit,
    enclosing,
    end_of,
    header_parts,
    in_order,
    span,
    start_of,
    touching,
)
from hpcscientist.authoring.tracebacks.log import Frame
from hpcscientist.files.text import one_line

_CODE = 160
_WORD = re.compile(r"(?<![\w.])[^\W\d]\w*")
_STRING = re.compile(r"""([a-zA-Z]{0,2})('[^'\n]*'|"[^"\n]*")|#.*""")
_FIELD = re.compile(r"\{([^{}]*)\}")
_IMPLICIT = {"__file__", "__name__", "__doc__", "__package__", "__spec__", "__loader__", "__path__"}
_IMPLICIT |= {"__class__"}

_Found = tuple[Binding, BindingSite | None]


class Names:
    """A finder of the places that bind names; see `of`."""

    def __init__(self, graph: CallGraph) -> None:
        self._graph, self._project = graph, graph.project
        self._inference = graph.inference

    def of(self, parts: list[ast.AST], unit: Unit, path: Path) -> list[_Found]:
        """Return the bindings of the names in an expression or statement, in source order.

        A name that nothing binds has line 0. Builtins, a method's name for its object, and names
        bound by a comprehension or lambda in the statement are left out.
        """
        found: list[tuple[Place, _Found]] = []
        for part in parts:
            if isinstance(part, ast.ImportFrom):
                found += [((0, n), each) for n, each in enumerate(self._imports(part, unit))]
            for node, place in in_order(part):
                if isinstance(node, ast.Name) and _read(node, part):
                    new = self._name(node, unit, (place or start_of(node), path))
                    found += [(place or end_of(node), each) for each in new]
                elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                    new = self._attribute(node, unit, path)
                    found += [(place or end_of(node), each) for each in new]
        order = [each for _, each in sorted(found, key=lambda each: each[0])]
        return list({binding: (binding, site) for binding, site in order}.values())

    def of_text(self, text: str, unit: Unit, line: int) -> list[_Found]:
        """Return the bindings of words that look like names in a line that does not parse."""
        found: dict[str, _Found] = {}
        for word in _WORD.findall(_STRING.sub(_fields, text)):
            if not keyword.iskeyword(word) and word != first_parameter(unit):
                site = self._project.see(word, unit, (line, 0))
                if site is not None:
                    site = self._inference.imported(site) or site
                    found.setdefault(word, (_binding(word, site), site))
        return list(found.values())

    def _name(self, node: ast.Name, unit: Unit, at: tuple[Place, Path]) -> Iterator[_Found]:
        site = self._project.see(node.id, unit, *at)
        if site is None:
            if not hasattr(builtins, node.id) and node.id not in _IMPLICIT:
                yield Binding(name=node.id, file=unit.file, line=0), None
        elif site.region is None and not _itself(site):
            site = self._inference.imported(site) or site
            yield _binding(node.id, site), site

    def _attribute(self, node: ast.Attribute, unit: Unit, path: Path) -> Iterator[_Found]:
        name = _dotted(node)
        if not name:
            return
        for ref in self._inference.infer(node.value, unit, path):
            if ref.kind == "module" and ref.unit is not None:
                yield from self._member(ref.unit, node.attr, name)
            elif ref.kind in ("instance", "class") and ref.unit is not None:
                site = self._set_here(node, unit, path) or self._object(ref, node.attr)
                if site is not None:
                    yield _binding(name, site), site
                elif self._inference.objects.closed(ref, unit) and not hasattr(type, node.attr):
                    yield Binding(name=name, file=ref.unit.file, line=0), None

    def _member(self, module: Unit, attribute: str, name: str) -> Iterator[_Found]:
        member = self._project.member(module, attribute)
        if isinstance(member, BindingSite):
            member = self._inference.imported(member) or member
            yield _binding(name, member), member
        elif member is None and attribute not in _IMPLICIT:
            yield Binding(name=name, file=module.file, line=0), None

    def _object(self, ref: Ref, name: str) -> BindingSite | None:
        return self._inference.objects.attribute_site(ref, name)

    def _set_here(self, node: ast.Attribute, unit: Unit, path: Path) -> BindingSite | None:
        """Return where the same method set an attribute of its object earlier."""
        if not isinstance(node.value, ast.Name) or node.value.id != first_parameter(unit):
            return None
        place = start_of(node)
        sites = self._project.scope(unit).attributes.get(node.attr, [])
        before = [site for site in sites if site.end <= place]
        return last_before(before, place, path, loops=False) if before else None

    def _imports(self, node: ast.ImportFrom, unit: Unit) -> Iterator[_Found]:
        """Yield where a module of the candidate binds the names that an import asks for."""
        module = self._project.imported(unit.file, node.module or "", node.level)
        for alias in node.names:
            if module is not None and alias.name != "*":
                yield from self._member(module, alias.name, alias.name)


def _fields(text: re.Match[str]) -> str:
    """Return what a string literal computes: the fields of an f-string."""
    formatted = "f" in (text[1] or "").lower()
    return " ".join(_FIELD.findall(text[2])) if formatted else " "


def _read(node: ast.Name, statement: ast.AST) -> bool:
    """Return whether a statement reads a name's value."""
    augmented = isinstance(statement, ast.AugAssign) and node is statement.target
    return augmented or not isinstance(node.ctx, ast.Store)


def _itself(site: BindingSite) -> bool:
    """Return whether a name is a method's name for its object."""
    return site.kind == "parameter" and site.name == first_parameter(site.unit)


def _binding(name: str, site: BindingSite) -> Binding:
    code = one_line(site.unit.source.line(site.line), _CODE)
    return Binding(name=name, file=site.unit.file, line=site.line, code=code)


def _dotted(node: ast.expr) -> str:
    """Return a chain of attributes as written; "" if it does not start with a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


# A frame in the code: the definition that holds it, the failing statement and its names.

_LONG = 12  # lines; of a longer statement only the part on the failing line counts


@dataclass(frozen=True, slots=True)
class Spot:
    """The place of a frame; `first` to `last` are the lines of its definition.

    At module level they are the lines of the statement that the module runs. `parts` is what
    fails: a simple statement, or the header of a compound one.
    """

    unit: Unit
    first: int
    last: int
    line: int
    parts: tuple[ast.AST, ...]
    path: Path
    names: tuple[tuple[Binding, BindingSite | None], ...]

    @property
    def place(self) -> tuple[int, int, int]:
        """The key that two frames in the same definition share."""
        return id(self.unit), self.first, self.last

    def within(self, call: CallSite) -> bool:
        """Return whether a call lies in what fails."""
        return call.caller is self.unit and any(
            part_first <= call.place[0] <= part_last
            for part_first, part_last in (span(part) for part in self.parts)
        )

    def leads_to(self, other: Spot, graph: CallGraph) -> bool:
        """Return whether what fails here calls, or passes on, the next frame's definition."""
        if other.unit is self.unit:
            return other.parts == self.parts
        return any(site.callee is other.unit and self.within(site) for site in graph.sites)


def spot(frame: Frame, graph: CallGraph, names: Names) -> Spot | None:
    """Return the place of a frame; None if its file or line does not exist."""
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
    """Return the lines of the module-level statement around a line; of a definition, its head."""
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
