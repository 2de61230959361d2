"""Tokens and indentation of Python text that may be incomplete, because an edit quotes a piece.

The standard library's tokenizer refuses a piece that begins within a block or ends within
brackets, so a regular expression splits the text here. An f-string is one token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from hpcscientist.files import python_source

Kind = Literal["string", "comment", "number", "name", "operator"]

_TOKEN = re.compile(
    r"""
    (?P<string>(?i:[rbfu]{0,2})(?:
        \"\"\"(?:\\.|[^\\])*?\"\"\" | '''(?:\\.|[^\\])*?'''
        | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'))
    | (?P<comment>\#[^\n]*)
    | (?P<blank>[ \t\f\r]+ | \\\r?\n | \n)
    | (?P<number>(?:0[xXoObB][\da-fA-F_]+ | (?:\d[\d_]*)?\.?\d[\d_]*\.?(?:[eE][+-]?\d+)?)[jJ]?)
    | (?P<name>\w+)
    | (?P<operator>\*\*=|//=|>>=|<<=|\.\.\.|\*\*|//|>>|<<|->|:=|[-+*/%&|^@=!<>]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class CodeToken:
    """A token: its lines (from 0), its place in the text, and the count of open brackets."""

    kind: Kind
    text: str
    start: int
    end: int
    first: int
    last: int
    depth: int


def tokens(text: str) -> list[CodeToken]:
    """Return the tokens of a text in order; white space and line ends are left out."""
    found: list[CodeToken] = []
    line = depth = 0
    for match in _TOKEN.finditer(text):
        kind, part = match.lastgroup, match.group()
        last = line + part.count("\n")
        if kind != "blank":
            found.append(CodeToken(kind, part, match.start(), match.end(), line, last, depth))  # type: ignore[arg-type]
        if kind == "operator":
            depth = max(0, depth + (part in "([{") - (part in ")]}"))
        line = last
    return found


# Whether a text is valid Python; nothing is run.


@lru_cache(maxsize=64)
def fault(text: str) -> str | None:
    """Return what is wrong with a Python text, and where; None if it compiles.

    A text that only a newer Python than this one compiles has no fault; `checks` later tests the
    whole file with the trials' Python.
    """
    found = python_source.fault(text)
    if found is None or python_source.is_newer(text):
        return None
    message = found.message.removeprefix("syntax error: ")
    return message if found.line is None else f"line {found.line}: {message}"


def is_python(file: str) -> bool:
    """Return whether a file of that name holds Python."""
    return file.endswith((".py", ".pyi"))


# Mapping the indentation of an edit to that of the file.

_TAB = 4


def indent_of(line: str) -> str:
    """Return the white space at the beginning of a line."""
    return line[: len(line) - len(line.lstrip())]


def width(indent: str) -> int:
    """Return the columns of an indentation; a tab counts as four."""
    return len(indent.expandtabs(_TAB))


@dataclass(frozen=True)
class Shift:
    """A map from each indentation of the edit (in columns) to that of the file."""

    known: Mapping[int, str]
    step: int  # columns of one level in the edit
    unit: str  # one level in the file

    @property
    def still(self) -> bool:
        """Return whether nothing is shifted."""
        return all(indent == " " * columns for columns, indent in self.known.items())

    def of(self, indent: str, loose: bool = False) -> str | None:
        """Return the file's indentation for one of the edit's; None if it is unclear.

        A `loose` one means nothing (within brackets or strings), so a similar one will do.
        """
        columns = width(indent)
        if columns in self.known:
            return self.known[columns]
        moved = {width(file) - edit for edit, file in self.known.items()}
        if len(moved) == 1 and not any("\t" in file for file in self.known.values()):
            shifted = columns + moved.pop()
            return " " * max(0, shifted) if shifted >= 0 or loose else None
        below = [edit for edit in self.known if edit < columns]
        if not below:
            return indent if loose else None
        levels, rest = divmod(columns - max(below), self.step)
        if rest and not loose:
            return None
        return self.known[max(below)] + self.unit * levels + " " * rest


def shift_of(
    pairs: Iterable[tuple[str, str]], edit: Sequence[str], file: Sequence[str]
) -> Shift | None:
    """Return the shift that pairs of indentations (edit's, file's) show; None if they disagree.

    Lines on different levels in the edit must be on different levels in the file.
    """
    known: dict[int, str] = {}
    for ours, theirs in pairs:
        if known.setdefault(width(ours), theirs) != theirs:
            return None
    step = _step(edit)
    for before, after in pairwise(sorted(known)):
        deeper = width(known[after]) - width(known[before])
        # Two levels must not become one; a column or two too many are carelessness.
        if deeper < 0 or (deeper == 0 and (after - before) % step == 0):
            return None
    return Shift(known, step, unit_of(file))


def unit_of(lines: Sequence[str]) -> str:
    """Return one level of indentation as used in the lines."""
    tabs = sum(line.startswith("\t") for line in lines)
    spaces = sum(line.startswith("  ") for line in lines)
    return "\t" if tabs > spaces else " " * _step(lines)


def _step(lines: Sequence[str]) -> int:
    """Return the smallest indentation step after a line that opens a block, in columns; else 4."""
    filled = [line for line in lines if line.strip()]
    steps = [
        width(indent_of(after)) - width(indent_of(before))
        for before, after in pairwise(filled)
        if before.rstrip().endswith(":")
    ]
    return min((step for step in steps if step > 0), default=_TAB)
