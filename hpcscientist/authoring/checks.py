"""Checks of generated code before it is run anywhere: its syntax.

Nothing is imported or executed. What a file does when it runs, and whether what it
imports exists, only a trial shows.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from hpcscientist.records.base import Record


class Problem(Record):
    """What is wrong, and where; `line` is None where Python does not say."""

    file: str
    line: int | None
    message: str

    def __str__(self) -> str:
        """Return `file:line: message`."""
        return (
            f"{self.file}:{self.line}: {self.message}"
            if self.line
            else (f"{self.file}: {self.message}")
        )


def check(files: Mapping[str, str]) -> list[Problem]:
    """Compile each Python file; return one problem for each that does not compile."""
    problems = (_compile(name, text) for name, text in sorted(files.items()))
    return [problem for problem in problems if problem is not None]


def _compile(name: str, text: str) -> Problem | None:
    if not name.endswith(".py"):
        return None
    try:
        with warnings.catch_warnings():
            # A dubious escape or comparison is no reason to refuse code that runs.
            warnings.simplefilter("ignore")
            # As bytes, as the interpreter will read it: a wrong coding line counts.
            compile(text.encode(), name, "exec", dont_inherit=True)
    except SyntaxError as error:
        return Problem(file=name, line=error.lineno, message=f"syntax error: {error.msg}")
    except ValueError as error:  # null bytes, characters that cannot be encoded
        return Problem(file=name, line=None, message=f"not Python source: {error}")
    except (RecursionError, MemoryError, OverflowError):
        return Problem(file=name, line=None, message="nested too deeply to be compiled")
    return None
