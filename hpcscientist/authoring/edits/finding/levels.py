"""Levels of reading a text, in order of trust: what counts as the same line.

Each level takes what the one before takes, and more: trailing white space and line ends;
indentation; blank lines; spacing within lines; comments and docstrings; the style of quotes;
how a statement is broken into lines. The last four know Python only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Literal

from hpcscientist.authoring.edits.finding.lexing import Token, tokens, unquoted
from hpcscientist.authoring.edits.outcome import Matched

PLAIN: tuple[Matched, ...] = ("white space", "indentation", "blank lines", "spacing")
PYTHON: tuple[Matched, ...] = (*PLAIN, "comments", "quotes", "layout")


_Kind = Literal["docstring", "line", "trailing"]


@dataclass(frozen=True)
class Unit:
    """What is compared: lines `first` to `last` (from 0, inclusive), read as `key`.

    `indent` is None where indentation means nothing, within brackets.
    """

    first: int
    last: int
    key: tuple[str, ...]
    indent: str | None


@dataclass(frozen=True)
class Comment:
    """A comment or docstring on lines `first` to `last` (from 0), from `column` on."""

    kind: _Kind
    first: int
    last: int
    column: int
    text: str


def indent_of(line: str) -> str:
    """Return the white space a line begins with."""
    return line[: len(line) - len(line.lstrip())]


def units(lines: Sequence[str], level: Matched, python: bool) -> tuple[Unit, ...]:
    """Return what counts on a level, in order."""
    return _units("\n".join(lines), level, python)


@lru_cache(maxsize=64)
def _units(text: str, level: Matched, python: bool) -> tuple[Unit, ...]:
    lines = text.split("\n")
    if level in ("white space", "indentation", "blank lines") or not python:
        return tuple(_by_line(lines, level))
    rows = _rows(text)
    if level == "spacing":
        return tuple(row.unit for row in rows)
    said = {row.unit.first for row in _docstrings(rows)}
    bare = (replace(row, code=_code(row)) for row in rows if row.unit.first not in said)
    kept = [row for row in bare if row.code]
    if level == "layout":
        return tuple(_joined(list(group)) for _, group in groupby(kept, _Statements()))
    return tuple(row.as_unit(quotes=level != "quotes") for row in kept)


def comments(lines: Sequence[str]) -> tuple[Comment, ...]:
    """Return the comments and docstrings of Python lines, in order."""
    return _comments("\n".join(lines))


@lru_cache(maxsize=16)
def _comments(text: str) -> tuple[Comment, ...]:
    rows = _rows(text)
    said = {row.unit.first for row in _docstrings(rows)}
    found = []
    for row in rows:
        for token in row.code:
            if token.kind == "comment" or row.unit.first in said:
                kind: _Kind = "docstring" if token.kind == "string" else "line"
                if len(row.code) > 1:
                    kind = "trailing"
                column = token.start - (text.rfind("\n", 0, token.start) + 1)
                found.append(Comment(kind, token.first, token.last, column, words(token.text)))
    return tuple(found)


def words(text: str) -> str:
    """Return a comment's words alone, to tell whether two say the same."""
    return " ".join(text.strip("#\"' \t\r\n").split()).lower()


def _by_line(lines: Sequence[str], level: Matched) -> list[Unit]:
    found = []
    for number, line in enumerate(lines):
        text = line.strip()
        if level == "white space":
            key = line.rstrip()
        else:
            key = " ".join(text.split()) if level == "spacing" else text
        if text or level in ("white space", "indentation"):
            found.append(Unit(number, number, (key,), indent_of(line) if text else None))
    return found


@dataclass(frozen=True)
class _Row:
    """The tokens that stand on the same lines (a string over several lines joins them)."""

    unit: Unit
    code: tuple[Token, ...]

    def as_unit(self, quotes: bool = True) -> Unit:
        key = tuple(
            unquoted(token.text) if token.kind == "string" and not quotes else token.text
            for token in self.code
        )
        return replace(self.unit, key=key)


@lru_cache(maxsize=16)
def _rows(text: str) -> tuple[_Row, ...]:
    lines = text.split("\n")
    rows: list[list[Token]] = []
    for token in tokens(text):
        if rows and token.first <= rows[-1][-1].last:
            rows[-1].append(token)
        else:
            rows.append([token])
    return tuple(_row(lines, row) for row in rows)


def _row(lines: Sequence[str], row: Sequence[Token]) -> _Row:
    first = row[0].first
    indent = indent_of(lines[first]) if row[0].depth == 0 else None
    key = tuple(token.text.rstrip() for token in row)
    return _Row(Unit(first, row[-1].last, key, indent), tuple(row))


def _code(row: _Row) -> tuple[Token, ...]:
    return tuple(token for token in row.code if token.kind != "comment")


def _docstrings(rows: Iterable[_Row]) -> list[_Row]:
    """Return the rows that hold nothing but a string, first in a block or in the text."""
    found = []
    before = ":"
    for row in rows:
        code = _code(row)
        if not code:
            continue
        if [token.kind for token in row.code] == ["string"] and before == ":" and not code[0].depth:
            found.append(row)
        before = code[-1].text
    return found


class _Statements:
    """Numbers the statement each row belongs to, rows in order."""

    def __init__(self) -> None:
        self._number = 0

    def __call__(self, row: _Row) -> int:
        self._number += row.code[0].depth == 0
        return self._number


def _joined(rows: Sequence[_Row]) -> Unit:
    """Return the rows of one statement as one unit, without commas before a closing bracket."""
    key: list[str] = []
    for text in (text for row in rows for text in row.as_unit(quotes=False).key):
        if text in ")]}" and key and key[-1] == "," and key[-3:-2] != ["("]:
            key.pop()
        key.append(text)
    return Unit(rows[0].unit.first, rows[-1].unit.last, tuple(key), rows[0].unit.indent)
