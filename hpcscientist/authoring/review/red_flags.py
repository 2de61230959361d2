"""Signs that code only looks as if it carried out an idea, found without running it.

A reviewer is shown them beside the code, and the coder hears of them. Only what is certain, or as
good as certain, is a sign: what is in the reference already is none, and nothing is said of a
program that looks names up while it runs or cannot be parsed. That no sign is found proves
nothing; a model judges, and the predictions are compared with the reference's.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from hpcscientist.authoring.review import patterns
from hpcscientist.authoring.review.dead_code import UNCALLED, idle, switches
from hpcscientist.authoring.review.equivalence import same_program, unread_constants
from hpcscientist.authoring.review.reachability import Program, Unit, read
from hpcscientist.authoring.review.source import UNREADABLE
from hpcscientist.models.prompting.quoting import line
from hpcscientist.records.base import Record

Kind = Literal[
    "unchanged", "uncalled", "unread", "unused", "random", "swallowed", "idle", "zero", "hard-coded"
]

MOST = 20  # signs; more tell nothing new
_NAME = 40  # characters
_REPORTS = frozenset({"print", "write", "dump", "dumps", "append", "info", "log", "writerow"})
_METRICS = ("accuracy", "acc", "loss", "f1", "auc", "precision", "recall", "rmse", "mse", "mae")


class Sign(Record):
    """One sign: where it shows, and what it is, in one line."""

    kind: Kind
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        """Return it with file and line."""
        return f"{self.file}:{self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class _Pair:
    """A candidate and its reference; `old` holds the reference's code, node by node."""

    candidate: Program
    reference: Program
    old: frozenset[str]
    metrics: tuple[str, ...]

    def is_new(self, node: ast.AST) -> bool:
        return ast.dump(node) not in self.old

    def nodes(self) -> Iterator[tuple[str, ast.AST]]:
        for file, tree in self.candidate.trees.items():
            for node in ast.walk(tree):
                yield file, node

    def new_units(self) -> list[Unit]:
        known = {(unit.file, unit.name) for unit in self.reference.units}
        return [
            unit
            for unit in self.candidate.units
            if unit.name and (unit.file, unit.name) not in known
        ]


def find(
    files: Mapping[str, str],
    reference: Mapping[str, str],
    entry: str,
    metrics: tuple[str, ...] = (),
) -> tuple[Sign, ...]:
    """Return the signs in `files`, in order of files and lines; at most MOST.

    `entry` is the file that is run, `metrics` the names of what is measured. Of files that are no
    Python, or cannot be parsed, none. A program that does what the reference does has one sign
    alone: that it is unchanged. Nothing is raised.
    """
    candidate, original = read(files, entry), read(reference, entry)
    if candidate is None or original is None:
        return ()
    if same_program(candidate, original, files, reference):
        text = "what runs is the reference: only comments, names or code that has no effect differ"
        return (Sign(kind="unchanged", file=entry, line=1, text=text),)
    try:
        pair = _Pair(candidate, original, _dumps(original), (*metrics, *_METRICS))
        found = [sign for detector in _DETECTORS for sign in detector(pair)]
    except UNREADABLE:
        return ()
    unique = {(s.file, s.line, s.kind, s.text): s for s in found}
    return tuple(unique[key] for key in sorted(unique))[:MOST]


def _uncalled(pair: _Pair) -> Iterator[Sign]:
    new = {id(unit) for unit in pair.new_units()}
    for unit in pair.candidate.unreached:
        if id(unit) in new:
            text = f"`{_named(unit.name)}` is new and never called by what runs"
            yield _sign("uncalled", unit.file, unit.node, text)


def _unread(pair: _Pair) -> Iterator[Sign]:
    known = {(file, name) for file, name, _ in unread_constants(pair.reference)}
    for file, name, statement in unread_constants(pair.candidate):
        if (file, name) not in known:
            yield _sign(
                "unread", file, statement, f"`{_named(name)}` is set and never read by what runs"
            )


def _unused(pair: _Pair) -> Iterator[Sign]:
    """What a new function returns is given a name that nothing reads."""
    new = {
        unit.name.rpartition(".")[2]
        for unit in pair.new_units()
        if isinstance(unit.node, ast.FunctionDef)
    }
    for unit in pair.candidate.units if pair.candidate.known else ():
        if isinstance(unit.node, ast.ClassDef):  # what it sets is read as an attribute
            continue
        nodes = list(ast.walk(unit.node))
        elsewhere = pair.candidate.mentioned if unit.name == "" else _shared(nodes)
        kept = elsewhere | {n.id for n in nodes if isinstance(n, ast.Name) and _is_read(n)}
        for node in nodes:
            name = patterns.result_of(node, new)
            if name is not None and name not in kept:
                text = f"`{_named(name)}` is set to what a new function returns, and never read"
                yield _sign("unused", unit.file, node, text)


def _random(pair: _Pair) -> Iterator[Sign]:
    for file, node in pair.nodes():
        values: list[ast.expr | None] = []
        if isinstance(node, ast.FunctionDef) and node.name.startswith("predict"):
            values = [n.value for n in ast.walk(node) if isinstance(n, ast.Return)]
        elif isinstance(node, ast.Assign) and any(map(patterns.is_prediction, node.targets)):
            values = [node.value]
        for value in values:
            if value is not None and patterns.is_drawn(value) and pair.is_new(value):
                yield _sign("random", file, value, "the predictions are drawn at random")


def _swallowed(pair: _Pair) -> Iterator[Sign]:
    for file, node in pair.nodes():
        if isinstance(node, ast.Try) and pair.is_new(node):
            for handler in node.handlers:
                if patterns.is_broad(handler.type) and not patterns.leaves(handler):
                    text = "catches every exception and goes on, so the method may fail unseen"
                    yield _sign("swallowed", file, handler, text)
        elif _suppresses(node) and pair.is_new(node):
            text = "suppresses every exception, so the method may fail unseen"
            yield _sign("swallowed", file, node, text)


def _suppresses(node: ast.AST) -> bool:
    named = isinstance(node, ast.Call) and patterns.called(node) == "suppress"
    return named and any(map(patterns.is_broad, node.args))  # type: ignore[attr-defined]


def _idle(pair: _Pair) -> Iterator[Sign]:
    known = {ast.dump(entry.node) for entry in idle(pair.reference)}
    for entry in idle(pair.candidate):
        if entry.why != UNCALLED and ast.dump(entry.node) not in known:
            text = f"code that {entry.why}"
            yield Sign(kind="idle", file=entry.file, line=entry.first, text=text)


def _zero(pair: _Pair) -> Iterator[Sign]:
    """A term that is multiplied by 0 before it is added."""
    constants = switches(pair.candidate)
    for file, node in pair.nodes():
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            for term in (node.left, node.right):
                if patterns.is_nought(term, constants) and pair.is_new(term):
                    text = "a term is multiplied by 0 before it is added"
                    yield _sign("zero", file, term, text)


def _hard_coded(pair: _Pair) -> Iterator[Sign]:
    figures = patterns.Figures(pair.metrics)
    for file, node in pair.nodes():
        if not (isinstance(node, ast.Call) and patterns.called(node) in _REPORTS):
            continue
        if pair.is_new(node) and any(map(figures.stated, ast.walk(node))):
            text = "reports a figure of a metric that is written in the code"
            yield _sign("hard-coded", file, node, text)


_DETECTORS: tuple[Callable[[_Pair], Iterator[Sign]], ...] = (
    _uncalled,
    _unread,
    _unused,
    _random,
    _swallowed,
    _idle,
    _zero,
    _hard_coded,
)


def _sign(kind: Kind, file: str, node: ast.AST, text: str) -> Sign:
    return Sign(kind=kind, file=file, line=getattr(node, "lineno", 1), text=text)


def _named(name: str) -> str:
    """Return a name of the code as a sign quotes it: too short to say anything of its own."""
    return line(name, _NAME)


def _is_read(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Store)


def _shared(nodes: list[ast.AST]) -> frozenset[str]:
    """Return the names of a function that are not its own."""
    return frozenset(
        name for n in nodes if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names
    )


def _dumps(program: Program) -> frozenset[str]:
    trees = program.trees.values()
    return frozenset(ast.dump(n) for tree in trees for n in ast.walk(tree) if _is_piece(n))


def _is_piece(node: ast.AST) -> bool:
    return isinstance(node, ast.expr | ast.Try | ast.With)
