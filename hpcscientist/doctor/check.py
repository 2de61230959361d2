"""One line of the doctor's: what was looked at, how it stands, what was found, what fixes it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from hpcscientist.files.text import one_line, printable
from hpcscientist.records.base import Record


class State(StrEnum):
    """How a check stands. Only what keeps campaigns from running as asked is missing."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


class Check(Record):
    """One check. `mend` is empty where nothing needs fixing."""

    name: str
    state: State
    found: str
    mend: str = ""


def ok(name: str, found: str) -> Check:
    """Return a check that stands well."""
    return Check(name=name, state=State.OK, found=_clean(found))


def warning(name: str, found: str, mend: str) -> Check:
    """Return a check of something one can do without, or should know."""
    return Check(name=name, state=State.WARNING, found=_clean(found), mend=_clean(mend))


def missing(name: str, found: str, mend: str) -> Check:
    """Return a check of something that campaigns cannot do without."""
    return Check(name=name, state=State.MISSING, found=_clean(found), mend=_clean(mend))


def graded(state: State, name: str, found: str, mend: str) -> Check:
    """Return a check in a given state, with its fix unless it stands well."""
    return Check(
        name=name,
        state=state,
        found=_clean(found),
        mend="" if state is State.OK else _clean(mend),
    )


def is_anything_missing(checks: Iterable[Check]) -> bool:
    """Tell whether campaigns cannot run as asked."""
    return any(check.state is State.MISSING for check in checks)


def _clean(text: str) -> str:
    return one_line(printable(text), 500)
