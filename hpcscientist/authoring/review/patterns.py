"""What single pieces of code look like that pretend: predicates on parsed Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

_PREDICTED = re.compile(r"(y_)?(preds?|predictions?|predicted|y_?hat)(_(test|eval|val|labels?))?")
_DRAWS = frozenset({"integers", "randint", "randrange", "rand", "random", "randn", "random_sample"})
_CHOICES = frozenset({"choice", "choices"})
_WEIGHTED = frozenset({"p", "weights", "cum_weights"})  # then it is the model that is asked
_WRAPPERS = frozenset(
    {"list", "tuple", "array", "asarray", "int", "float", "str", "astype", "tolist", "tensor"}
)
_BROAD = frozenset({"Exception", "BaseException"})
_EXITS = frozenset({"exit", "_exit", "abort", "quit"})


def called(call: ast.Call) -> str:
    """Return the last part of the name of what is called; "" where it has none."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def result_of(node: ast.AST, functions: Collection[str]) -> str | None:
    """Return the name that a statement gives to what one of `functions` returns."""
    if not (isinstance(node, ast.Assign) and len(node.targets) == 1):
        return None
    target, value = node.targets[0], node.value
    direct = isinstance(value, ast.Call) and called(value) in functions
    return target.id if direct and isinstance(target, ast.Name) else None


def is_prediction(target: ast.AST) -> bool:
    """Whether a variable is named as predictions are."""
    return isinstance(target, ast.Name) and bool(_PREDICTED.fullmatch(target.id.lower()))


def is_drawn(value: ast.expr) -> bool:
    """Whether a value is drawn at random, with nothing of a model in it."""
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
    """Whether an `except` catches everything."""
    if isinstance(kind, ast.Tuple):
        return any(map(is_broad, kind.elts))
    name = kind.attr if isinstance(kind, ast.Attribute) else getattr(kind, "id", None)
    return kind is None or name in _BROAD


def leaves(handler: ast.ExceptHandler) -> bool:
    """Whether a handler raises, or ends the program."""
    return any(
        isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and called(node) in _EXITS)
        for node in ast.walk(handler)
    )


def is_nought(term: ast.expr, constants: Mapping[str, Any]) -> bool:
    """Whether a term is a product with the number 0."""
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
    """Finds figures of metrics that are written in the code; `metrics` are their names."""

    def __init__(self, metrics: Iterable[str]) -> None:
        words = "|".join(sorted({re.escape(name) for name in metrics}, key=len, reverse=True))
        name = rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])"
        self._name = re.compile(name, re.IGNORECASE)
        # Not "{:6.4f}" and not "%5.2f", which say how a figure is to be written.
        between = r"[^A-Za-z\d%{]{0,12}"
        self._said = re.compile(rf"{name}{between}\d+\.\d+(?![\dA-Za-z])", re.IGNORECASE)

    def stated(self, node: ast.AST) -> bool:
        """Whether a node states a metric's name beside a figure."""
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
