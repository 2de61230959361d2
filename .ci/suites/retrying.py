"""What is tried again, and what goes on after a case that hung, died or broke its services.

A case that is not good ends its pytest; it is tried once more at once, alone and on fresh
services, and the cases after it go on on services that nothing has broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from .records import FAILED, SKIPPED, Result, Try

FIRST, SECOND = "first", "second"


class ServicesFailed(Exception):
    """What a suite needs could not be brought up, twice; one line."""


class Pytest(Protocol):
    """Runs cases in one process, and brings services back to where they began."""

    def run(self, cases: Sequence[str], which: str) -> Iterable[tuple[str, Try]]:
        """Yield what came of each case as it ends; the first that is not good is the last."""
        ...

    def fresh(self) -> None:
        """Bring the services up anew. Raises ServicesFailed."""
        ...


def run_cases(suite: str, cases: Sequence[str], pytest: Pytest) -> Iterator[Result]:
    """Yield the result of every case as it is known, also where services fail for good."""
    pending = list(cases)
    broken = False
    while pending:
        if broken:
            try:
                pytest.fresh()
            except ServicesFailed as failure:
                for name in pending:
                    yield Result(suite, name, (Try(SKIPPED, reason=str(failure)),))
                return
        for name, first in _told(list(pending), pytest, FIRST):
            tries = (first,) if first.good else (first, _once_more(name, pytest))
            pending.remove(name)
            broken = not tries[-1].good
            yield Result(suite, name, tries)


def _once_more(name: str, pytest: Pytest) -> Try:
    try:
        pytest.fresh()
    except ServicesFailed as failure:
        return Try(SKIPPED, reason=str(failure))
    return next(tried for _, tried in _told([name], pytest, SECOND))


def _told(cases: Sequence[str], pytest: Pytest, which: str) -> Iterator[tuple[str, Try]]:
    """What pytest tells, to the first that is not good; its silence is the next one's fault."""
    left = list(cases)
    for name, tried in pytest.run(cases, which):
        left.remove(name)
        yield name, tried
        if not tried.good:
            return
    if len(left) == len(cases):
        yield left[0], Try(FAILED, reason="pytest ended before this case began")
