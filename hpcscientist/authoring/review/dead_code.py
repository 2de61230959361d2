"""Code that never runs: switched off, behind a return, or never reached."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hpcscientist.authoring.review.reachability import Program

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
class Idle:
    """Statements or an expression that never run; `node` is what switches them off."""

    file: str
    node: ast.AST
    first: int
    last: int
    why: str


def switches(program: Program) -> dict[str, Any]:
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


def is_off(test: ast.expr, constants: Mapping[str, Any]) -> bool:
    """Return whether a condition is always false."""
    return _value(test, constants) is False


def idle(program: Program) -> list[Idle]:
    """Return the code that never runs, in order of files and lines; never raises."""
    constants, found = switches(program), list[Idle]()
    for file, tree in program.trees.items():
        for node in ast.walk(tree):
            found += [Idle(file, node, *_span(off), why) for off, why in _off(node, constants)]
    for unit in program.unreached:
        node = unit.node
        assert not isinstance(node, ast.Module)
        found.append(Idle(unit.file, node, *_span([node]), UNCALLED))
    return sorted(found, key=lambda entry: (entry.file, entry.first, entry.last))


def idle_lines(program: Program) -> dict[str, frozenset[int]]:
    """Return the numbers of the lines that never run, by file."""
    lines: dict[str, set[int]] = {}
    for entry in idle(program):
        lines.setdefault(entry.file, set()).update(range(entry.first, entry.last + 1))
    return {file: frozenset(numbers) for file, numbers in lines.items()}


def _off(node: ast.AST, constants: Mapping[str, Any]) -> Iterator[tuple[list[Any], str]]:
    """Yield the code that one node switches off, and why."""
    if isinstance(node, ast.If | ast.While) and is_off(node.test, constants):
        yield node.body, NEVER
    elif isinstance(node, ast.If) and _value(node.test, constants) is True and node.orelse:
        yield node.orelse, ALWAYS
    elif isinstance(node, ast.IfExp) and is_off(node.test, constants):
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
