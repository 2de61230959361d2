"""How many seeds each simulated idea is given, by the decisions of the loop.

Ideas come in order, each after those before it have ended. In a campaign several are under way
at once, which successive halving feels: the first ones to come to a rung have fewer beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Final, Literal

from benchmarks.decisions.judging import METRIC, POINT, Name
from benchmarks.decisions.world import BySeed, Split
from hpcscientist.campaign.pursuit.effort import strictest
from hpcscientist.config.settings import LoopSettings, Settings
from hpcscientist.feedback.effort import Schedule, correction, decide, promote, schedule_of

Allocation = Literal["fixed", "sequential", "halving"]
ALLOCATIONS: Final[tuple[Allocation, ...]] = ("fixed", "sequential", "halving")


@dataclass(frozen=True, slots=True)
class Allocated:
    """The values that were measured, what that means for p-values, and how many were planned."""

    split: Split
    factors: dict[str, float]
    planned: int

    @property
    def trials(self) -> int:
        """Those of the ideas and of the baseline."""
        return len(self.split.baseline) + sum(map(len, self.split.ideas.values()))


def settings_of(rule: Name, q: float, ideas: int, allocation: Allocation) -> Settings:
    """Return the settings of a campaign that decides by a rule; the rest are the defaults."""
    loop = LoopSettings(q=q, allocation=allocation)
    if rule == POINT:
        loop = loop.model_copy(update={"decision": "point"})
    else:
        loop = loop.model_copy(update={"error_control": rule})
    return Settings(ideas=ideas, loop=loop)


def most(allocation: Allocation, seeds: int) -> int:
    """Return the most seeds that an idea may be given where the recipe has so many."""
    schedule = schedule_of(LoopSettings(allocation=allocation), seeds)
    return seeds if schedule is None else schedule.at_most


def allocate(split: Split, settings: Settings, seeds: int) -> Allocated:
    """Return what a campaign measures whose recipe has so many seeds, of what it could measure.

    `split` has values for all seeds that may be asked for.
    """
    schedule = schedule_of(settings.loop, seeds)
    if schedule is None:
        return Allocated(split.first(seeds), {}, 0)
    split = split.first(schedule.at_most)
    ideas: dict[str, BySeed] = {}
    rungs: dict[int, list[float]] = {}
    for number, (idea, values) in enumerate(split.ideas.items(), 1):
        order, n = list(values.items()), 0
        more = schedule.after(0)
        while more:
            n += more
            known = dict(order[:n])
            if settings.loop.allocation == "sequential":
                level = strictest(settings, number)
                more = decide(split.baseline, known, METRIC, settings.loop.q, schedule, level).more
            else:
                more = _ranked(known, rungs.setdefault(n, []), schedule, settings.loop.halving)
        ideas[idea] = dict(order[:n])
    factors = {idea: correction(len(values), schedule) for idea, values in ideas.items()}
    return Allocated(Split(split.baseline, ideas), factors, schedule.at_most)


def _ranked(known: BySeed, earlier: list[float], schedule: Schedule, rate: float) -> int:
    value = fmean(known.values())
    decision = promote(value, earlier, len(known), METRIC, schedule, rate)
    earlier.append(value)
    return decision.more
