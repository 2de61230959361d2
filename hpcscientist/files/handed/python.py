"""Python source as a syntax tree."""

from __future__ import annotations

import ast
import contextlib
import threading
import warnings

# CPython counts the depth of all trees that are being made in one place (to 3.13 at least): where
# threads take turns in between, as in a callback of the collector, `ast.parse` raises SystemError.
# The filters of warnings are one for all threads too. Reentrant, for a callback may parse.
_READING = threading.RLock()
# Python itself makes trees when it writes tracebacks, which the lock does not hold up: again, then.
_ATTEMPTS = 20


def syntax_tree(source: str | bytes, name: str = "<unknown>") -> ast.Module:
    """Return `ast.parse` of a source, one thread at a time and without warnings.

    Raises SyntaxError, ValueError, RecursionError, MemoryError; SystemError where Python makes
    trees all the time.
    """
    with _READING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # dubious escapes are nobody's business here
        for _ in range(_ATTEMPTS - 1):
            with contextlib.suppress(SystemError):
                return ast.parse(source, name)
        return ast.parse(source, name)
