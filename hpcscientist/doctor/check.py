"""One line of the doctor's output: the name of a check, its state, what was found, and the fix."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from hpcscientist.files.text import one_line, printable
from hpcscientist.records.base import Record


class CheckState(StrEnum):
    """The result of a check; MISSING only for what keeps campaigns from running as asked."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


class DoctorCheck(Record):
    """One check. `mend` is its fix, empty if nothing needs fixing."""

    name: str
    state: CheckState
    found: str
    mend: str = ""


def ok(name: str, found: str) -> DoctorCheck:
    """Return a check that passed."""
    return DoctorCheck(name=name, state=CheckState.OK, found=_clean(found))


def warning(name: str, found: str, mend: str) -> DoctorCheck:
    """Return a check of something that is optional, or that users should know."""
    return DoctorCheck(name=name, state=CheckState.WARNING, found=_clean(found), mend=_clean(mend))


def missing(name: str, found: str, mend: str) -> DoctorCheck:
    """Return a failed check of something that campaigns need."""
    return DoctorCheck(name=name, state=CheckState.MISSING, found=_clean(found), mend=_clean(mend))


def graded(state: CheckState, name: str, found: str, mend: str) -> DoctorCheck:
    """Return a check in a given state, with its fix unless the check passed."""
    return DoctorCheck(
        name=name,
        state=state,
        found=_clean(found),
        mend="" if state is CheckState.OK else _clean(mend),
    )


def is_anything_missing(checks: Iterable[DoctorCheck]) -> bool:
    """Return whether campaigns cannot run as asked."""
    return any(check.state is CheckState.MISSING for check in checks)


def _clean(text: str) -> str:
    return one_line(printable(text), 500)
