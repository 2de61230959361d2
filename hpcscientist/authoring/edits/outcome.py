"""The outcome of edits: changed files with notes on how each edit was matched, or a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hpcscientist.records.base import Record

Matched = Literal[
    "exact",
    "white space",
    "indentation",
    "blank lines",
    "whole file",
    "unit",
    "repeated",
]


class EditError(Record):
    """Why an edit was rejected, in one line; `near` lists lines that it may have meant.

    `edit` is its place in the list of edits, from 1; `of` is the list's length.
    """

    file: str
    reason: str
    near: tuple[str, ...] = ()
    edit: int = 1
    of: int = 1

    def __str__(self) -> str:
        """Return the reason, with the near lines below it."""
        which = f" edit {self.edit} of {self.of}:" if self.of > 1 else ""
        return "\n".join(
            [f"{self.file}:{which} {self.reason}", *(f"    {line}" for line in self.near)]
        )


class Note(Record):
    """How an edit was matched, and at which lines of the file at that time (from 1, inclusive).

    `matched` is the level of tolerance that was needed. `beside` names what else was undone:
    elided lines, line numbers, diff markers, fences. For a new text of a whole file, `first` is 1
    and `last` is the number of lines that it replaces, 0 for a new file.
    """

    file: str
    matched: Matched
    first: int
    last: int
    beside: tuple[str, ...] = ()


class Applied(Record):
    """The files after all edits, and a note for each edit in order."""

    files: dict[str, str]
    notes: tuple[Note, ...]


@dataclass(frozen=True)
class Refusal:
    """Why an edit is refused, in one line, and lines of the file to look at."""

    reason: str
    near: tuple[str, ...] = ()


@dataclass(frozen=True)
class Changed:
    """The new text of one file, and how the place was found (lines from 1, inclusive)."""

    text: str
    matched: Matched
    first: int
    last: int
    beside: tuple[str, ...] = ()
