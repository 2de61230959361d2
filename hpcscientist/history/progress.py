"""How far a campaign's ideas have come: what a decision looks at, so that it costs nothing to
have ended ideas behind. Part of the fold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Frontier:
    """Which numbers, from 1 on, have been reached: all up to `low`, and some above."""

    low: int = 0
    high: int = 0  # the largest
    _above: set[int] = field(default_factory=set)

    def __contains__(self, number: int) -> bool:
        """Whether a number has been reached."""
        return number <= self.low or number in self._above

    def reach(self, number: int) -> None:
        """Take note of a number, once or again."""
        if number <= self.low:
            return
        self._above.add(number)
        self.high = max(self.high, number)
        while self.low + 1 in self._above:
            self.low += 1
            self._above.discard(self.low)

    def withdraw(self, numbers: Iterable[int]) -> None:
        """Take numbers back."""
        gone = {number for number in numbers if number in self}
        if not gone:
            return
        self._above -= gone
        first = min(gone)
        if first <= self.low:
            self._above |= set(range(first + 1, self.low + 1)) - gone
            self.low = first - 1


@dataclass(slots=True)
class Progress:
    """Ideas by number, by how far they have come.

    `open` are those that were proposed and are not over; `aside`, those that the machine failed
    too often for the driver of now. Both count as `over` once they are. `confirming` are ideas
    that were chosen to be confirmed, until their trials have ended.
    """

    open: dict[str, int] = field(default_factory=dict)
    aside: dict[str, int] = field(default_factory=dict)
    proposed: Frontier = field(default_factory=Frontier)
    judged: Frontier = field(default_factory=Frontier)  # let in, or not
    over: Frontier = field(default_factory=Frontier)
    ended: int = 0  # ideas
    judged_at: int = 0  # ideas that had ended when their findings were looked at last
    judged_last: bool = False  # and whether all had
    confirming: dict[str, None] = field(default_factory=dict)
    reference: dict[str, None] = field(default_factory=dict)  # its trials that are not settled
    settled: int = 0  # trials whose result files are looked at no more
    _done: Counter[str] = field(default_factory=Counter)  # by open idea: trials that have ended

    def driver_started(self) -> None:
        """What was set aside is taken up again."""
        self.over.withdraw(self.aside.values())
        self.open = self.aside | self.open
        self.aside = {}

    def idea_proposed(self, idea_id: str, number: int) -> None:
        """An idea has come."""
        self.open[idea_id] = number
        self.proposed.reach(number)

    def idea_judged(self, number: int) -> None:
        """An idea was let in, or it was not."""
        self.judged.reach(number)

    def idea_set_aside(self, idea_id: str, number: int) -> None:
        """An idea waits for the next driver."""
        if self.open.pop(idea_id, None) is not None:
            self.aside[idea_id] = number
            self.over.reach(number)

    def idea_ended(self, idea_id: str, number: int) -> None:
        """An idea came to its end."""
        self.open.pop(idea_id, None)
        self.aside.pop(idea_id, None)
        self.judged.reach(number)
        self.over.reach(number)
        self.ended += 1
        self.settled += self._done.pop(idea_id, 0)

    def ideas_judged(self, ended: int, improved: Iterable[str], *, last: bool) -> None:
        """Findings were looked at, and ideas chosen to be confirmed."""
        self.judged_at, self.judged_last = ended, last
        self.confirming.update(dict.fromkeys(improved))

    def trial_settled(self, idea_id: str, *, is_over: bool) -> None:
        """A trial came to an end that stands; `is_over`: nobody reads its files any more."""
        if is_over:
            self.settled += 1
        else:
            self._done[idea_id] += 1
