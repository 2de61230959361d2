"""Signs that code only looks as if it carried out an idea, found without running it.

The reviewer sees the signs beside the code, and the coder gets them as advice. Only what is
certain, or nearly certain, is a sign. What the reference also has is no sign. A program that
cannot be parsed has none; in one that looks names up while it runs, nothing counts as unused. A
lack of signs proves nothing: a model judges, and the predictions are compared with the
reference's.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hpcscientist.authoring.review.equivalence import same_program, unread_constants
from hpcscientist.authoring.review.reachability import (
    UNCALLED,
    ProgramUnit,
    ReachedProgram,
    constant_names,
    dead_code,
    read,
)
from hpcscientist.authoring.review.source import UNREADABLE
from hpcscientist.models.prompting.prompts import line
from hpcscientist.records.base import Record

# Predicates on parsed Python: how single pieces of code look that only pretend.

_PREDICTED = re.compile(r"(y_)?(preds?|predictions?|predicted|y_?hat)(_(test|eval|val|labels?))?")
_DRAWS = frozenset({"integers", "randint", "randrange", "rand", "random", "randn", "random_sample"})
_CHOICES = frozenset({"choice", "choices"})
_WEIGHTED = frozenset({"p", "weights", "cum_weights"})  # a choice with weights may be the model's
_WRAPPERS = frozenset(
    {"list", "tuple", "array", "asarray", "int", "float", "str", "astype", "tolist", "tensor"}
)
_BROAD = frozenset({"Exception", "BaseException"})
_EXITS = frozenset({"exit", "_exit", "abort", "quit"})


def called(call: ast.Call) -> str:
    """Return the last part of the called name; "" if there is none."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def result_of(node: ast.AST, functions: Collection[str]) -> str | None:
    """Return the variable that a statement sets to the result of one of `functions`, or None."""
    if not (isinstance(node, ast.Assign) and len(node.targets) == 1):
        return None
    target, value = node.targets[0], node.value
    direct = isinstance(value, ast.Call) and called(value) in functions
    return target.id if direct and isinstance(target, ast.Name) else None


def is_prediction(target: ast.AST) -> bool:
    """Return whether a variable has a usual name for predictions."""
    return isinstance(target, ast.Name) and bool(_PREDICTED.fullmatch(target.id.lower()))


def is_drawn(value: ast.expr) -> bool:
    """Return whether a value is drawn at random, without any part of a model."""
    while True:
        if isinstance(value, ast.ListComp | ast.GeneratorExp):
            value = value.elt
        elif isinstance(value, ast.Call) and called(value) in _WRAPPERS:
            of_value = isinstance(value.func, ast.Attribute) and called(value) in (
                "astype",
                "tolist",
            )
            if of_value and isinstance(value.func, ast.Attribute):
                value = value.func.value
            elif value.args:
                value = value.args[0]
            else:
                return False
        else:
            break
    if not isinstance(value, ast.Call):
        return False
    keywords = {keyword.arg for keyword in value.keywords}
    choice = called(value) in _CHOICES and len(value.args) < 3 and not keywords & _WEIGHTED
    return choice or called(value) in _DRAWS


def is_broad(kind: ast.expr | None) -> bool:
    """Return whether an `except` catches everything."""
    if isinstance(kind, ast.Tuple):
        return any(map(is_broad, kind.elts))
    name = kind.attr if isinstance(kind, ast.Attribute) else getattr(kind, "id", None)
    return kind is None or name in _BROAD


def leaves(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler raises, or ends the program."""
    return any(
        isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and called(node) in _EXITS)
        for node in ast.walk(handler)
    )


def is_nought(term: ast.expr, constants: Mapping[str, Any]) -> bool:
    """Return whether a term is a product with the number 0."""
    if not (isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult)):
        return False
    return any(
        _is_zero(side, constants) or is_nought(side, constants) for side in (term.left, term.right)
    )


def _is_zero(side: ast.expr, constants: Mapping[str, Any]) -> bool:
    value: Any = None
    if isinstance(side, ast.Constant):
        value = side.value
    elif isinstance(side, ast.Name):
        value = constants.get(side.id)
    return isinstance(value, int | float) and not isinstance(value, bool) and value == 0


class Figures:
    """A finder of metrics' figures that are written in the code; `metrics` are their names."""

    def __init__(self, metrics: Iterable[str]) -> None:
        words = "|".join(sorted({re.escape(name) for name in metrics}, key=len, reverse=True))
        name = rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])"
        self._name = re.compile(name, re.IGNORECASE)
        # Not "{:6.4f}" and not "%5.2f", which only format a figure.
        between = r"[^A-Za-z\d%{]{0,12}"
        self._said = re.compile(rf"{name}{between}\d+\.\d+(?![\dA-Za-z])", re.IGNORECASE)

    def stated(self, node: ast.AST) -> bool:
        """Return whether a node states a metric's name beside a figure."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return bool(self._said.search(node.value))
        if isinstance(node, ast.Dict):
            pairs = list(zip(node.keys, node.values, strict=True))
        elif isinstance(node, ast.Call):
            pairs = list(zip(node.args, node.args[1:], strict=False))
        else:
            return False
        return any(self._names(key) and _is_figure(value) for key, value in pairs)

    def _names(self, key: ast.expr | None) -> bool:
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            return False
        return bool(self._name.search(key.value))


def _is_figure(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, float) and value.value != 0


Kind = Literal[
    "unchanged", "uncalled", "unread", "unused", "random", "swallowed", "idle", "zero", "hard-coded"
]

MOST = 20  # signs; more tell nothing new
_NAME = 40  # characters
_REPORTS = frozenset({"print", "write", "dump", "dumps", "append", "info", "log", "writerow"})
_METRICS = ("accuracy", "acc", "loss", "f1", "auc", "precision", "recall", "rmse", "mse", "mae")


class Sign(Record):
    """One sign: its kind, its place, and its text in one line."""

    kind: Kind
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        """Return the text after its file and line."""
        return f"{self.file}:{self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class _Pair:
    """A candidate and its reference; `old` holds the reference's code as dumps of its nodes."""

    candidate: ReachedProgram
    reference: ReachedProgram
    old: frozenset[str]
    metrics: tuple[str, ...]

    def is_new(self, node: ast.AST) -> bool:
        return ast.dump(node) not in self.old

    def nodes(self) -> Iterator[tuple[str, ast.AST]]:
        for file, tree in self.candidate.trees.items():
            for node in ast.walk(tree):
                yield file, node

    def new_units(self) -> list[ProgramUnit]:
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

    `entry` is the file that is run, `metrics` the names of what is measured. Files that are not
    Python have no signs; if a Python file cannot be parsed, there are none at all. A program that
    does what the reference does has one sign alone: that it is unchanged. Never raises.
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
    """Yield a sign for each variable that gets a new function's result and is never read."""
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
            name = result_of(node, new)
            if name is not None and name not in kept:
                text = f"`{_named(name)}` is set to what a new function returns, and never read"
                yield _sign("unused", unit.file, node, text)


def _random(pair: _Pair) -> Iterator[Sign]:
    for file, node in pair.nodes():
        values: list[ast.expr | None] = []
        if isinstance(node, ast.FunctionDef) and node.name.startswith("predict"):
            values = [n.value for n in ast.walk(node) if isinstance(n, ast.Return)]
        elif isinstance(node, ast.Assign) and any(map(is_prediction, node.targets)):
            values = [node.value]
        for value in values:
            if value is not None and is_drawn(value) and pair.is_new(value):
                yield _sign("random", file, value, "the predictions are drawn at random")


def _swallowed(pair: _Pair) -> Iterator[Sign]:
    for file, node in pair.nodes():
        if isinstance(node, ast.Try) and pair.is_new(node):
            for handler in node.handlers:
                if is_broad(handler.type) and not leaves(handler):
                    text = "catches every exception and goes on, so the method may fail unseen"
                    yield _sign("swallowed", file, handler, text)
        elif _suppresses(node) and pair.is_new(node):
            text = "suppresses every exception, so the method may fail unseen"
            yield _sign("swallowed", file, node, text)


def _suppresses(node: ast.AST) -> bool:
    named = isinstance(node, ast.Call) and called(node) == "suppress"
    return named and any(map(is_broad, node.args))  # type: ignore[attr-defined]


def _idle(pair: _Pair) -> Iterator[Sign]:
    known = {ast.dump(entry.node) for entry in dead_code(pair.reference)}
    for entry in dead_code(pair.candidate):
        if entry.why != UNCALLED and ast.dump(entry.node) not in known:
            text = f"code that {entry.why}"
            yield Sign(kind="idle", file=entry.file, line=entry.first, text=text)


def _zero(pair: _Pair) -> Iterator[Sign]:
    """Yield a sign for each term that is multiplied by 0 before it is added."""
    constants = constant_names(pair.candidate)
    for file, node in pair.nodes():
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            for term in (node.left, node.right):
                if is_nought(term, constants) and pair.is_new(term):
                    text = "a term is multiplied by 0 before it is added"
                    yield _sign("zero", file, term, text)


def _hard_coded(pair: _Pair) -> Iterator[Sign]:
    figures = Figures(pair.metrics)
    for file, node in pair.nodes():
        if not (isinstance(node, ast.Call) and called(node) in _REPORTS):
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
    """Return a name as a sign quotes it, cut so short that it cannot carry a message."""
    return line(name, _NAME)


def _is_read(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Store)


def _shared(nodes: list[ast.AST]) -> frozenset[str]:
    """Return the names that a function declares global or nonlocal."""
    return frozenset(
        name for n in nodes if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names
    )


def _dumps(program: ReachedProgram) -> frozenset[str]:
    trees = program.trees.values()
    return frozenset(ast.dump(n) for tree in trees for n in ast.walk(tree) if _is_piece(n))


def _is_piece(node: ast.AST) -> bool:
    return isinstance(node, ast.expr | ast.Try | ast.With)
