"""What is done for an idea next, from its first version to its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hpcscientist.conduct.strategy.following import Following
from hpcscientist.conduct.strategy.line import Arrived, Dropped, End, Failed
from hpcscientist.conduct.strategy.steps import AnyStep, Conclude, Last, SetAside
from hpcscientist.conduct.strategy.walk import Lacking, Remark, Spoilt, Tree, Walk


class Way(Protocol):
    """Takes an idea from nothing to the end of its first leg: `Line` and `Branches` do."""

    def go(self, walk: Walk) -> End:
        """Have versions written and tried. Raises Lacking."""
        ...


@dataclass(frozen=True, slots=True)
class Next:
    """What may be done now, side by side and the most urgent first; `told`: what happened so far,
    in the order in which it is to be read. A later one begins with the same.
    """

    steps: tuple[AnyStep, ...]
    told: tuple[Remark, ...]


@dataclass(frozen=True, slots=True)
class Strategy:
    """How one idea is pursued."""

    way: Way
    following: Following

    def next(self, tree: Tree) -> Next:
        """Return what is done next. Steps that have no answer yet stay among them; the last of an
        idea is `Conclude` or `SetAside`, and it comes alone.
        """
        walk = Walk(tree)
        try:
            found: list[AnyStep] = [self._last(walk)]
        except Lacking:
            found = walk.lacking
        steps = sorted(found, key=lambda step: -step.priority)
        return Next(tuple(steps), tuple(walk.told))

    def _last(self, walk: Walk) -> Last:
        end = self.way.go(walk)
        if isinstance(end, Arrived):
            spoilt = self.following.follow_up(walk, end)
            if spoilt is not None:
                return SetAside(spoilt.trial_id, spoilt.reason)
        return _concluded(walk, end)


def _concluded(walk: Walk, end: End) -> Last:
    match end:
        case Arrived():
            parts = [part for part in (end.short, end.lacking) if part]
            return Conclude("scored", "; ".join(parts) or None, end.version.number)
        case Spoilt() if end.lost:
            return Conclude("failed", end.reason, walk.standing(end.number))
        case Spoilt():
            return SetAside(end.trial_id, end.reason)
        case Dropped():
            return Conclude("failed", end.why, end.number)
        case Failed():
            last = max(walk.tried, default=None)
            standing = None if last is None else walk.standing(last)
            return Conclude("failed", end.reason(len(walk.tried)), standing)
