"""One line of the doctor's output: the name of a check, its state, what was found, and the fix."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from hpcscientist.files.text import one_line, printable
from hpcscientist.records.base import Record


class State(StrEnum):
    """The result of a check; MISSING only for what keeps campaigns from running as asked."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


class Check(Record):
    """One check. `mend` is its fix, empty if nothing needs fixing."""

    name: str
    state: State
    found: str
    mend: str = ""


def ok(name: str, found: str) -> Check:
    """Return a check that passed."""
    return Check(name=name, state=State.OK, found=_clean(found))


def warning(name: str, found: str, mend: str) -> Check:
    """Return a check of something that is optional, or that users should know."""
    return Check(name=name, state=State.WARNING, found=_clean(found), mend=_clean(mend))


def missing(name: str, found: str, mend: str) -> Check:
    """Return a failed check of something that campaigns need."""
    return Check(name=name, state=State.MISSING, found=_clean(found), mend=_clean(mend))


def graded(state: State, name: str, found: str, mend: str) -> Check:
    """Return a check in a given state, with its fix unless the check passed."""
    return Check(
        name=name,
        state=state,
        found=_clean(found),
        mend="" if state is State.OK else _clean(mend),
    )


def is_anything_missing(checks: Iterable[Check]) -> bool:
    """Return whether campaigns cannot run as asked."""
    return any(check.state is State.MISSING for check in checks)


def _clean(text: str) -> str:
    return one_line(printable(text), 500)
