"""Scopes: which places bind a name, and which of them a place in the code sees.

By text: of the places that bind a name in a scope the last one before counts, other branches of
the same `if` left out.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from hpcscientist.authoring.structure.code.statements import Place, span
from hpcscientist.authoring.structure.code.units import Unit

Path = tuple[tuple[int, str], ...]  # (a branching statement's identity, which branch)
_EITHER = ({"if", "else"}, {"case"}, {"handler"})


@dataclass(eq=False, slots=True)
class Site:
    """A place that binds a name.

    `value` is what it is bound to; where `element` is set, something within that (an item
    of a loop or of an unpacked value, which of them in `index`). `region` is the part of the code
    that sees it, for comprehensions and lambdas. `module` and `member` say what an import means.
    """

    name: str
    place: Place
    kind: str
    unit: Unit  # the scope it binds in
    value: ast.expr | None = None
    element: bool = False
    index: int | None = None
    end: Place = (0, 0)  # of the statement: what it binds is seen behind it
    path: Path = ()
    region: tuple[Place, Place] | None = None
    module: str = ""
    level: int = 0
    member: str | None = None
    definition: Unit | None = None
    note: ast.expr | None = None  # its annotation

    @property
    def line(self) -> int:
        """The line it stands in."""
        return self.place[0]


@dataclass(eq=False, slots=True)
class Scope:
    """The names that a unit binds; `attributes` are those it sets on its first parameter."""

    unit: Unit
    sites: dict[str, list[Site]] = field(default_factory=dict)
    attributes: dict[str, list[Site]] = field(default_factory=dict)
    outer: set[str] = field(default_factory=set)  # declared global or nonlocal
    statements: list[tuple[ast.stmt | ast.ExceptHandler | ast.match_case, Path]] = field(
        default_factory=list
    )

    def add(self, site: Site) -> None:
        """Keep a site."""
        self.sites.setdefault(site.name, []).append(site)

    def around(self, line: int) -> list[tuple[ast.AST, Path]]:
        """Return the innermost statement that a line lies in, and others that begin with it.

        The innermost is the last; several begin in a line such as `while go(): step()`.
        """
        found = [(span(node), node, path) for node, path in self.statements]
        around = [each for each in found if each[0][0] <= line <= each[0][1]]
        start = max((lines[0] for lines, _, _ in around), default=0)
        return [(node, path) for lines, node, path in around if lines[0] == start]


def last_before(sites: list[Site], place: Place, path: Path, loops: bool) -> Site:
    """Return which of a scope's sites (at least one) a place in that scope sees.

    The last one before it; if there is none, one from an earlier turn of a loop around it
    (`loops`), else the next one behind: a name that is bound too late is bound there.
    """
    seen = [site for site in sites if site.end <= place and site.place < place]
    behind = [site for site in sites if site not in seen]
    for site in reversed(seen):
        if not _exclude(site.path, path):
            return site
    if loops and behind:
        return behind[-1]
    return seen[-1] if seen else behind[0]


def _exclude(one: Path, other: Path) -> bool:
    """Whether two places lie in branches of which only one is taken."""
    for (node, branch), (same, another) in zip(one, other, strict=False):
        if node != same:
            return False
        if branch != another:
            return {branch.split()[0], another.split()[0]} in _EITHER
    return False
