"""Texts that are formatted with too few values, too many, or in no valid way.

`%` is tried on a text without its widths, with ones in place of the values: an integer suits
every conversion, so what fails then fails for any values. For `str.format` Pyflakes is asked.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import TypeGuard

from hpcscientist.authoring.checks.module import Module
from hpcscientist.records.base import Problem

_ERRORS = ("TypeError", "ValueError", "KeyError", "IndexError", "LookupError")
_WIDTH = re.compile(r"(%(?:\([^()]*\))?[-+ #0]*)(\d+)?((?:\.)(?:\d+))?")
_LARGE = re.compile(r"\d{5}")  # perhaps a width that was not found, and a text of that length
_FAILS = (TypeError, ValueError, KeyError, OverflowError)
_LONGEST = 100_000  # characters of a text


def format_problems(module: Module) -> Iterator[Problem]:
    """Yield a problem for each text that cannot be formatted with what it is given."""
    for node, place in module.notes.formats:
        text = node.left.value if isinstance(node.left, ast.Constant) else None
        if not isinstance(text, str) or place.survives(*_ERRORS) or place.foreign:
            continue
        error = _failure(text, node.right) if len(text) <= _LONGEST else None
        if error:
            yield Problem(file=module.name, line=node.lineno, message=f"% formatting: {error}")
    places = {(n.lineno, n.col_offset): place for n, place in module.notes.calls}
    for line, column, message in _by_pyflakes(module):
        around = places.get((line, column))
        if around and not around.survives(*_ERRORS) and not around.foreign:
            yield Problem(file=module.name, line=line, message=message)


def _failure(text: str, given: ast.expr) -> str | None:
    """Return why a text cannot be formatted with values of this form, None if it may be."""
    plain = _WIDTH.sub(r"\1", text)
    errors = [None] if _LARGE.search(plain) else [_try(plain, v) for v in _values(plain, given)]
    return errors[0] if all(errors) else None


def _values(plain: str, given: ast.expr) -> list[object]:
    """Return ones in every form that an expression may have."""
    if isinstance(given, ast.Tuple) and not any(isinstance(v, ast.Starred) for v in given.elts):
        return [(1,) * len(given.elts)]
    if isinstance(given, ast.Dict) and all(_is_text(key) for key in given.keys):
        return [dict.fromkeys((key.value for key in given.keys if _is_text(key)), 1)]
    if isinstance(given, ast.JoinedStr) or _is_single(given):
        return [1]
    # Anything else may be a tuple of any length, or a mapping.
    counts = range(plain.count("%") + plain.count("*") + 1)
    return [defaultdict(lambda: 1), *((1,) * count for count in counts)]


def _is_text(node: ast.expr | None) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_single(given: ast.expr) -> bool:
    """Whether an expression is one value, and nothing to look a key up in."""
    return isinstance(given, ast.Constant) and not isinstance(given.value, bytes)


def _try(text: str, values: object) -> str | None:
    try:
        text % values
    except _FAILS as error:
        missing = isinstance(error, KeyError)
        return f"no value for {error}" if missing else str(error)
    return None


def _by_pyflakes(module: Module) -> Iterator[tuple[int, int, str]]:
    """Yield line, column and message of what Pyflakes says of `str.format`."""
    from pyflakes import messages  # noqa: PLC0415  # slow, and only campaigns need it

    certain = (
        messages.StringDotFormatInvalidFormat,
        messages.StringDotFormatMissingArgument,
        messages.StringDotFormatMixingAutomatic,
    )
    for message in module.lint:
        if isinstance(message, certain):
            yield message.lineno, message.col, message.message % message.message_args
