"""Which definitions of a program its entry reaches, as far as names show.

Nothing is run. A definition counts as reached as soon as reached code mentions its name, as a
name, an attribute or a string. So some definitions that are never called count as reached, but
those reported as unreached surely are. A program that looks names up while it runs (`eval`,
`globals`, `getattr` by a computed name, …) can reach anything, so nothing is reported for it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from hpcscientist.authoring.review.source import UNREADABLE, plain
from hpcscientist.files.python_source import syntax_tree

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

_DYNAMIC_NAMES = frozenset(
    {"eval", "exec", "globals", "locals", "__import__", "attrgetter", "methodcaller"}
)
_DYNAMIC_ATTRIBUTES = frozenset(
    {"import_module", "__dict__", "getmembers", "run_path", "run_module", "exec_module"}
    | {"load_module", "f_globals", "f_locals", "attrgetter", "methodcaller", "__getattribute__"}
)
# Names of parsed command lines and configurations: a look-up in these reaches no code.
_PARSED = frozenset(
    {"args", "arguments", "options", "opts", "namespace", "config", "cfg", "params", "settings"}
)
_TEXT = 500  # characters; a longer string names nothing


@dataclass(eq=False, slots=True)
class ProgramUnit:
    """A definition, or a file's own statements (`name` ""), and what its code mentions."""

    file: str
    name: str
    node: Definition | ast.Module
    parent: ProgramUnit | None = None
    mentions: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    aliases: set[tuple[str, str]] = field(default_factory=set)
    dynamic: bool = False


@dataclass(frozen=True, slots=True)
class ReachedProgram:
    """The Python files of a program, and what its entry reaches, if that is `known`.

    `unreached` are the outermost definitions that nothing reaches; `mentioned` are the names
    that reached code reads or calls; `files` are those whose statements are reached.
    """

    trees: dict[str, ast.Module]
    units: tuple[ProgramUnit, ...]
    known: bool
    unreached: tuple[ProgramUnit, ...] = ()
    mentioned: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()


def read(files: Mapping[str, str], entry: str) -> ReachedProgram | None:
    """Return a program; None if one of its files cannot be parsed. Never raises."""
    try:
        trees = {
            name: syntax_tree(plain(text))
            for name, text in sorted(files.items())
            if name.endswith(".py")
        }
        units = [unit for name, tree in trees.items() for unit in _units(name, tree)]
    except UNREADABLE:
        return None
    if entry not in trees or any(unit.dynamic for unit in units):
        return ReachedProgram(trees, tuple(units), known=False)
    reached, names, modules = _reached(units, entry)
    unreached = tuple(
        unit
        for unit in units
        if unit not in reached and unit.parent is not None and unit.parent in reached
    ) + tuple(
        # The definitions of a file that is never imported.
        unit
        for unit in units
        if unit.file not in modules and unit.parent is not None and unit.parent.name == ""
    )
    return ReachedProgram(
        trees, tuple(units), True, unreached, frozenset(names), frozenset(modules)
    )


def is_text(node: ast.AST) -> bool:
    """Return whether a statement is only a constant, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _units(file: str, tree: ast.Module) -> list[ProgramUnit]:
    root = ProgramUnit(file, "", tree)
    units = [root]
    # A node, the unit that runs it, and the unit that definitions in it belong to.
    stack: list[tuple[ast.AST, ProgramUnit, ProgramUnit]] = [
        (node, root, root) for node in tree.body
    ]
    while stack:
        node, runs, owner = stack.pop()
        if is_text(node):
            continue
        if not isinstance(node, Definition):
            _take(runs, node)
            stack += [(child, runs, owner) for child in ast.iter_child_nodes(node)]
            continue
        name = f"{owner.name}.{node.name}" if owner.name else node.name
        inner = ProgramUnit(file, name, node, owner)
        units.append(inner)
        body = set(map(id, node.body))
        # The statements of a class run where it is defined, those of a function when called.
        within = runs if isinstance(node, ast.ClassDef) else inner
        for child in ast.iter_child_nodes(node):
            place = (within, inner) if id(child) in body else (runs, owner)
            stack.append((child, *place))
    return units


def _take(unit: ProgramUnit, node: ast.AST) -> None:
    """Note what one node mentions."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
        unit.mentions.add(node.id)
        unit.dynamic |= node.id in _DYNAMIC_NAMES
    elif isinstance(node, ast.Attribute):
        unit.mentions.add(node.attr)
        of_sys = isinstance(node.value, ast.Name) and node.value.id == "sys"
        unit.dynamic |= node.attr in _DYNAMIC_ATTRIBUTES or (of_sys and node.attr == "modules")
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        if len(node.value) <= _TEXT:
            unit.texts.add(node.value)
            unit.mentions.update(node.value.replace(":", ".").split("."))
    elif isinstance(node, ast.Import | ast.ImportFrom):
        _take_import(unit, node)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        unit.dynamic |= _looks_up(node.func.id, node.args)


def _looks_up(function: str, arguments: list[ast.expr]) -> bool:
    """Return whether a call looks up names of the program that it does not show."""
    first = arguments[0] if arguments else None
    if isinstance(first, ast.Name) and first.id in _PARSED:
        return False
    computed = len(arguments) > 1 and not isinstance(arguments[1], ast.Constant)
    return function == "vars" or (function in ("getattr", "setattr") and computed)


def _take_import(unit: ProgramUnit, node: ast.Import | ast.ImportFrom) -> None:
    if isinstance(node, ast.ImportFrom):
        unit.imports.update((node.module or "").split("."))
    for alias in node.names:
        parts = alias.name.split(".")
        unit.imports.update(parts)
        if alias.asname:
            unit.aliases.add((alias.asname, parts[-1]))


def _reached(units: list[ProgramUnit], entry: str) -> tuple[set[ProgramUnit], set[str], set[str]]:
    """Return the units that are reached, the names that they mention, and their files."""
    roots = {unit.file: unit for unit in units if unit.parent is None}
    stems = {file: _stem(file) for file in roots}
    named, within = (
        defaultdict[str, list[ProgramUnit]](list),
        defaultdict[ProgramUnit, list[ProgramUnit]](list),
    )
    aliases = defaultdict[str, set[str]](set)
    for unit in units:
        named[unit.name.rpartition(".")[2]].append(unit)
        if unit.parent is not None:
            within[unit.parent].append(unit)
        for short, name in unit.aliases:
            aliases[short].add(name)
    reached, names, modules, queue = set[ProgramUnit](), set[str](), {entry}, [roots[entry]]
    while queue:
        unit = queue.pop()
        if unit in reached or not _is_reached(unit, reached, names):
            continue
        reached.add(unit)
        meant = (aliases[name] for name in unit.mentions if name in aliases)
        new = unit.mentions.union(*meant) - names
        names |= new
        imported = {file for file in stems.keys() - modules if _names_file(unit, stems[file])}
        modules |= imported
        queue += within[unit]
        queue += [other for name in new if name in named for other in named[name]]
        queue += [roots[file] for file in imported]
    return reached, names, modules


def _is_reached(unit: ProgramUnit, reached: set[ProgramUnit], names: set[str]) -> bool:
    if unit.parent is None:
        return True
    node = unit.node
    assert not isinstance(node, ast.Module)
    if unit.parent not in reached:
        return False
    special = node.name.startswith("__") and node.name.endswith("__")
    if node.name in names or node.decorator_list or special:
        return True
    of = unit.parent.node
    # The base class may call the method by its own name for it.
    return isinstance(of, ast.ClassDef) and bool(of.bases or of.keywords)


def _names_file(unit: ProgramUnit, stem: str) -> bool:
    """Return whether a unit imports a file, or names it in a string (to run it as a program)."""
    return stem in unit.imports or any(stem in text for text in unit.texts)


def _stem(file: str) -> str:
    path = PurePosixPath(file)
    return path.parent.name if path.stem == "__init__" and path.parent.name else path.stem


# Code that never runs: switched off, behind a return, or never reached.


# Why code never runs. The code itself is not quoted, because it could address the reviewer.
NEVER = "is switched off: its condition is never true"
ALWAYS = "is switched off: the other case is always taken"
EMPTY = "is switched off: its loop is over nothing"
BEHIND = "stands behind a statement that leaves the block"
UNCALLED = "is never called"
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_UNKNOWN = object()


@dataclass(frozen=True, slots=True)
class DeadCode:
    """Statements or an expression that never run; `node` is what switches them off."""

    file: str
    node: ast.AST
    first: int
    last: int
    why: str


def constant_names(program: ReachedProgram) -> dict[str, Any]:
    """Return the names that a program sets exactly once, to a constant, and these constants.

    Empty if the program's reach is not known, because it may then set any name.
    """
    if not program.known:
        return {}
    set_to: dict[str, Any] = {}
    times: dict[str, int] = {}
    for tree in program.trees.values():
        top = {id(statement): statement for statement in tree.body}
        for node in ast.walk(tree):
            for name in _binds(node):
                times[name] = times.get(name, 0) + 1
            if id(node) in top and isinstance(node, ast.Assign | ast.AnnAssign):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name) and isinstance(node.value, ast.Constant):
                    set_to[target.id] = node.value.value
    return {name: value for name, value in set_to.items() if times[name] == 1}


def never_runs(test: ast.expr, constants: Mapping[str, Any]) -> bool:
    """Return whether a condition is always false."""
    return _value(test, constants) is False


def dead_code(program: ReachedProgram) -> list[DeadCode]:
    """Return the code that never runs, in order of files and lines; never raises."""
    constants, found = constant_names(program), list[DeadCode]()
    for file, tree in program.trees.items():
        for node in ast.walk(tree):
            found += [DeadCode(file, node, *_span(off), why) for off, why in _off(node, constants)]
    for unit in program.unreached:
        node = unit.node
        assert not isinstance(node, ast.Module)
        found.append(DeadCode(unit.file, node, *_span([node]), UNCALLED))
    return sorted(found, key=lambda entry: (entry.file, entry.first, entry.last))


def dead_lines(program: ReachedProgram) -> dict[str, frozenset[int]]:
    """Return the numbers of the lines that never run, by file."""
    lines: dict[str, set[int]] = {}
    for entry in dead_code(program):
        lines.setdefault(entry.file, set()).update(range(entry.first, entry.last + 1))
    return {file: frozenset(numbers) for file, numbers in lines.items()}


def _off(node: ast.AST, constants: Mapping[str, Any]) -> Iterator[tuple[list[Any], str]]:
    """Yield the code that one node switches off, and why."""
    if isinstance(node, ast.If | ast.While) and never_runs(node.test, constants):
        yield node.body, NEVER
    elif isinstance(node, ast.If) and _value(node.test, constants) is True and node.orelse:
        yield node.orelse, ALWAYS
    elif isinstance(node, ast.IfExp) and never_runs(node.test, constants):
        yield [node.body], NEVER
    elif isinstance(node, ast.For) and _is_empty(node.iter):
        yield node.body, EMPTY
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield from _behind(block)


def _behind(block: list[Any]) -> Iterator[tuple[list[Any], str]]:
    for place, statement in enumerate(block[:-1]):
        if isinstance(statement, _ENDS):
            yield block[place + 1 :], BEHIND
            return


def _value(test: ast.expr, constants: Mapping[str, Any]) -> bool | None:
    """Return the truth of a condition if it is the same in each run, else None."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.Name):
        value = constants.get(test.id, _UNKNOWN)
        return None if value is _UNKNOWN else bool(value)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        value = _value(test.operand, constants)
        return None if value is None else not value
    if isinstance(test, ast.BoolOp):
        decides = isinstance(test.op, ast.Or)
        values = [_value(part, constants) for part in test.values]
        if decides in values:
            return decides
        return (not decides) if None not in values else None
    return None


def _is_empty(sequence: ast.expr) -> bool:
    if isinstance(sequence, ast.List | ast.Tuple):
        return not sequence.elts
    return (
        isinstance(sequence, ast.Call)
        and isinstance(sequence.func, ast.Name)
        and sequence.func.id == "range"
        and len(sequence.args) == 1
        and isinstance(sequence.args[0], ast.Constant)
        and sequence.args[0].value == 0
    )


def _binds(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node may set, also as an attribute of a module."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        yield node.attr
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, (*_NAMED, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        if node.name:
            yield node.name
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value  # a name that `setattr` or a parser may be given
    elif isinstance(node, ast.Global):
        yield from node.names


def _span(nodes: list[Any]) -> tuple[int, int]:
    return nodes[0].lineno, max(node.end_lineno or node.lineno for node in nodes)
