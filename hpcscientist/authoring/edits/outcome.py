"""What comes of edits: the changed files with notes on how each was matched, or a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hpcscientist.records.base import Record

Matched = Literal[
    "exact",
    "white space",
    "indentation",
    "blank lines",
    "spacing",
    "comments",
    "quotes",
    "layout",
    "fragment",
    "typos",
    "whole file",
    "unit",
    "repeated",
]


class EditError(Record):
    """Why an edit was rejected, in one line; `near` lists the lines it may have meant.

    `edit` is its place in the list, from 1; `of` is how many there were.
    """

    file: str
    reason: str
    near: tuple[str, ...] = ()
    edit: int = 1
    of: int = 1

    def __str__(self) -> str:
        """Return the explanation, with the near lines below it."""
        which = f" edit {self.edit} of {self.of}:" if self.of > 1 else ""
        return "\n".join(
            [f"{self.file}:{which} {self.reason}", *(f"    {line}" for line in self.near)]
        )


class Note(Record):
    """How an edit was matched: at which lines of the file as it then was (from 1, inclusive).

    `matched` is the loosest reading that was needed. `beside` names what was undone besides:
    elided lines, line numbers, diff markers, fences. A new text of a whole file has `first` 1
    and as `last` the number of lines it replaces, 0 for a new file.
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
    """Why a text cannot be edited so: one line, and lines to look at."""

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
