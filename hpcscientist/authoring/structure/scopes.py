"""Scopes: which places bind a name, and which of them a place in the code sees.

The order of the source decides: of the places that bind a name in a scope, the last one before a
use counts. Other branches of the same `if` are left out.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from hpcscientist.authoring.structure.units import (
    FunctionNode,
    Place,
    Unit,
    blocks,
    end_of,
    header_parts,
    span,
    start_of,
)

Path = tuple[tuple[int, str], ...]  # (a branching statement's identity, which branch)
_EITHER = ({"if", "else"}, {"case"}, {"handler"})


@dataclass(eq=False, slots=True)
class BindingSite:
    """A place that binds a name.

    `value` is the expression that it is bound to. With `element`, it is bound to an item of that
    value (in a loop or by unpacking); `index` says which. `region` is the part of the code that
    sees the name, for comprehensions and lambdas. `module` and `member` are what an import names.
    """

    name: str
    place: Place
    kind: str
    unit: Unit  # the scope it binds in
    value: ast.expr | None = None
    element: bool = False
    index: int | None = None
    end: Place = (0, 0)  # of the statement: code after it sees the name
    path: Path = ()
    region: tuple[Place, Place] | None = None
    module: str = ""
    level: int = 0
    member: str | None = None
    definition: Unit | None = None
    note: ast.expr | None = None  # its annotation

    @property
    def line(self) -> int:
        """The line of the place."""
        return self.place[0]


@dataclass(eq=False, slots=True)
class UnitScope:
    """The names that a unit binds; `attributes` are those that it sets on its first parameter."""

    unit: Unit
    sites: dict[str, list[BindingSite]] = field(default_factory=dict)
    attributes: dict[str, list[BindingSite]] = field(default_factory=dict)
    outer: set[str] = field(default_factory=set)  # declared global or nonlocal
    statements: list[tuple[ast.stmt | ast.ExceptHandler | ast.match_case, Path]] = field(
        default_factory=list
    )

    def add(self, site: BindingSite) -> None:
        """Add a site."""
        self.sites.setdefault(site.name, []).append(site)

    def around(self, line: int) -> list[tuple[ast.AST, Path]]:
        """Return the statements around a line that begin last, the innermost at the end.

        Several statements begin on a line such as `while go(): step()`.
        """
        found = [(span(node), node, path) for node, path in self.statements]
        around = [each for each in found if each[0][0] <= line <= each[0][1]]
        start = max((lines[0] for lines, _, _ in around), default=0)
        return [(node, path) for lines, node, path in around if lines[0] == start]


def last_before(sites: list[BindingSite], place: Place, path: Path, loops: bool) -> BindingSite:
    """Return which of a scope's sites (at least one) a place in that scope sees.

    That is the last site before the place. If there is none, it is a site from an earlier
    iteration of a loop around the place (`loops`), else the next site after it, because a name
    that is bound too late is bound there.
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
    """Return whether two places lie in branches of which only one runs."""
    for (node, branch), (same, another) in zip(one, other, strict=False):
        if node != same:
            return False
        if branch != another:
            return {branch.split()[0], another.split()[0]} in _EITHER
    return False


# Which statements of a scope bind which names, and to what.

_Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


def collect(unit: Unit) -> UnitScope:
    """Return what a unit binds, read from its tree; nothing if it has no tree."""
    scope = UnitScope(unit)
    if unit.node is None:
        return scope
    inner = {id(child.node): child for child in unit.children}
    if isinstance(unit.node, FunctionNode):
        _parameters(scope, unit.node)
    stack: list[tuple[ast.AST, Path]] = [(s, ()) for s in reversed(unit.node.body)]
    while stack:
        node, path = stack.pop()
        scope.statements.append((node, path))  # type: ignore[arg-type]
        _bind(scope, node, path)
        if isinstance(node, FunctionNode | ast.ClassDef):
            if (child := inner.get(id(node))) is not None:
                place = (node.lineno, node.col_offset)
                kind = "class" if child.kind == "class" else "def"
                scope.add(
                    BindingSite(
                        node.name, place, kind, unit, end=place, path=path, definition=child
                    )
                )
            continue
        for branch, block in reversed(list(blocks(node))):
            stack.extend((s, (*path, (id(node), branch))) for s in reversed(block))
    for sites in (*scope.sites.values(), *scope.attributes.values()):
        sites.sort(key=lambda site: site.place)
    return scope


def _parameters(scope: UnitScope, node: FunctionNode) -> None:
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    pairs = [
        *zip(positional, defaults, strict=True),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    for number, (argument, default) in enumerate(pairs):
        site = BindingSite(argument.arg, start_of(argument), "parameter", scope.unit, default)
        site.index = number if number < len(positional) else None
        scope.add(site)
    for kind in getattr(node, "type_params", ()):  # since Python 3.12
        scope.add(BindingSite(kind.name, (kind.lineno, kind.col_offset), "rest", scope.unit))
    for rest in (given.vararg, given.kwarg):
        if rest is not None:
            scope.add(BindingSite(rest.arg, start_of(rest), "rest", scope.unit))


@dataclass(frozen=True, slots=True)
class _Given:
    """The value that a target is bound to, and how, as in `BindingSite`."""

    kind: str
    value: ast.expr | None
    end: Place
    path: Path
    element: bool = False
    region: tuple[Place, Place] | None = None
    note: ast.expr | None = None


def _bind(scope: UnitScope, node: ast.AST, path: Path) -> None:
    """Add what a statement binds itself, without its blocks."""
    if isinstance(node, ast.Global | ast.Nonlocal):
        scope.outer.update(node.names)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        _imports(scope, node, path)
    elif isinstance(node, ast.ExceptHandler) and node.name:
        place = (node.lineno, node.col_offset)
        given = _Given("except", node.type, place, path)
        scope.add(_site(scope, node.name, place, given))
    else:
        for target, given in _targets(node, path, scope.unit.kind == "class"):
            _target(scope, target, given)
    for part in header_parts(node):
        _within(scope, part, path)


def _targets(node: ast.AST, path: Path, declared: bool) -> list[tuple[ast.expr, _Given]]:
    """Return a statement's targets; with `declared`, annotations without a value count too."""
    end = end_of(node)
    if isinstance(node, ast.Assign):
        return [(target, _Given("assign", node.value, end, path)) for target in node.targets]
    if isinstance(node, ast.AnnAssign) and (node.value is not None or declared):
        return [(node.target, _Given("assign", node.value, end, path, note=node.annotation))]
    if isinstance(node, ast.AugAssign):
        return [(node.target, _Given("augment", None, end, path))]
    if isinstance(node, ast.For | ast.AsyncFor):
        given = _Given("loop", node.iter, end_of(node.iter), path, element=True)
        return [(node.target, given)]
    if isinstance(node, ast.With | ast.AsyncWith):
        return [
            (
                item.optional_vars,
                _Given("with", item.context_expr, end_of(item.optional_vars), path),
            )
            for item in node.items
            if item.optional_vars is not None
        ]
    return []


def _within(scope: UnitScope, part: ast.AST, path: Path) -> None:
    """Add what expressions bind: walruses, patterns, comprehensions, lambdas."""
    for node in ast.walk(part):
        if isinstance(node, ast.NamedExpr):
            _target(scope, node.target, _Given("assign", node.value, end_of(node), path))
        elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            place = (node.lineno, node.col_offset)
            scope.add(_site(scope, node.name, place, _Given("match", None, place, path)))
        elif isinstance(node, _Comprehension):
            region = (start_of(node), end_of(node))
            for loop in node.generators:
                given = _Given("loop", loop.iter, region[0], path, True, region)
                _target(scope, loop.target, given)
        elif isinstance(node, ast.Lambda):
            region = (start_of(node), end_of(node))
            for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                given = _Given("rest", None, region[0], path, region=region)
                scope.add(_site(scope, argument.arg, start_of(argument), given))


def _target(scope: UnitScope, target: ast.expr, given: _Given) -> None:
    """Add the names of a target; a tuple literal is unpacked."""
    stack: list[tuple[ast.expr, _Given, int | None]] = [(target, given, None)]
    while stack:
        node, bound, index = stack.pop()
        if isinstance(node, ast.Tuple | ast.List):
            stack.extend(_apart(node.elts, bound))
        elif isinstance(node, ast.Starred):
            stack.append((node.value, replace(bound, element=True), index))
        elif isinstance(node, ast.Name):
            scope.add(_site(scope, node.id, start_of(node), bound, index))
        elif isinstance(node, ast.Attribute):
            of = node.value.id if isinstance(node.value, ast.Name) else ""
            if of and of == first_parameter(scope.unit):
                site = _site(scope, node.attr, start_of(node), bound, index)
                scope.attributes.setdefault(node.attr, []).append(site)


def _apart(items: list[ast.expr], bound: _Given) -> list[tuple[ast.expr, _Given, int | None]]:
    value = bound.value
    if isinstance(value, ast.Tuple | ast.List) and not bound.element:
        plain = not any(isinstance(each, ast.Starred) for each in (*items, *value.elts))
        if plain and len(value.elts) == len(items):
            pairs = zip(items, value.elts, strict=True)
            return [(item, replace(bound, value=each), None) for item, each in pairs]
    return [(item, replace(bound, element=True), number) for number, item in enumerate(items)]


def _site(
    scope: UnitScope, name: str, place: Place, given: _Given, index: int | None = None
) -> BindingSite:
    site = BindingSite(name, place, given.kind, scope.unit, given.value, given.element, index)
    site.note = given.note
    site.end, site.path, site.region = given.end, given.path, given.region
    return site


def first_parameter(unit: Unit) -> str:
    """Return a method's name for its object or class; "" for static methods and functions."""
    if unit.kind != "method" or not isinstance(unit.node, FunctionNode):
        return ""
    if any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in unit.node.decorator_list):
        return ""
    given = [*unit.node.args.posonlyargs, *unit.node.args.args]
    return given[0].arg if given else ""


def _imports(scope: UnitScope, node: ast.Import | ast.ImportFrom, path: Path) -> None:
    place, end = (node.lineno, node.col_offset), end_of(node)
    for alias in node.names:
        site = BindingSite("", place, "import", scope.unit, end=end, path=path)
        site.place = (alias.lineno, alias.col_offset)
        if isinstance(node, ast.ImportFrom):
            site.name, site.module, site.level = (
                alias.asname or alias.name,
                node.module or "",
                node.level,
            )
            site.member = alias.name
        elif alias.asname:
            site.name, site.module = alias.asname, alias.name
        else:  # `import a.b` binds a
            site.name = site.module = alias.name.partition(".")[0]
        scope.add(site)
