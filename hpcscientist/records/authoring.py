"""What an author is given and what it returns."""

from __future__ import annotations

from pydantic import Field

from hpcscientist.records.base import Record
from hpcscientist.records.idea import Idea
from hpcscientist.records.outcome import IdeaFailed


class Draft(Record):
    """A whole set of files (name to text) and a note on what was done."""

    files: dict[str, str]
    note: str


class GaveUp(Record):
    """The author cannot go on; `reason` is one line."""

    reason: str


class FixTask(Record):
    """A failed attempt to mend. `round` counts debug rounds from 1.

    `log_tail` is the end of the trial's log, where the traceback stands; `earlier` holds
    the notes of earlier rounds; `seen` the code hashes of all versions so far.
    """

    idea: Idea
    files: dict[str, str]
    outcome: IdeaFailed
    log_tail: str
    round: int = Field(ge=1)
    rounds: int = Field(ge=1)
    earlier: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
