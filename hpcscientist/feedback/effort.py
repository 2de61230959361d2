"""Allocates seeds and budgets to ideas where they may still change the decision.

Sequential (group sequential tests; Jennison & Turnbull 2000, Group Sequential Methods with
Applications to Clinical Trials). An idea is looked at after a few seeds, after the recipe's number,
and so on up to a bound. At each look one of three things happens:

- It is given up as futile if an improvement at the end is improbable: stochastic curtailment
  (Lan, Simon & Halperin 1982; Lan & Wittes 1988, Biometrics 44, B-values), with the predictive
  probability (Spiegelhalter, Freedman & Blackburn 1986; Jennison & Turnbull 2000, 10.3), because
  two or three seeds say little about the noise. Future seeds are assumed to be like those seen,
  but not below the metric's minimum effect.
- It is decided if its p-value holds under the strictest correction that it may yet meet.
- Otherwise it continues: it is undecided, and more seeds may decide it.

Errors. Each look has a share of the error, small at first: increments of the spending function like
O'Brien & Fleming's (Lan & DeMets 1983, Biometrika 70), scaled to sum to one. At whatever look an
idea ends, its p-value is multiplied by 1 / share (`correction`). By Bonferroni's inequality P(p /
share <= a at any look) <= a sum(share) = a, whatever the reason for ending there. So stopping rules
cost power at most, never error. Therefore futility need not be binding and may be judged under the
mildest correction, while a decision is judged under the strictest.

Halving (asynchronous successive halving, stopping variant; Li et al. 2020, arXiv 1810.05934). First
come the recipe's steps, which are budgets below the full one, with one trial each. Then, at the
full budget, come rungs of 1 seed and always `rate` times as many. An idea goes on from a step or
rung if it is among the best 1/rate of all ideas that have reached it so far, itself included. The
first ideas, of which 1/rate is less than one, always go on. Rungs share the error as looks do.
Ideas given up without a p-value, on a step or after one seed, count as p = 1 among the others,
because the others were chosen by the values there. So that choice can only raise a p-value, and
steps need no correction of their own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hpcscientist.config.settings import LoopSettings
from hpcscientist.feedback.decision import gain
from hpcscientist.feedback.statistics import CONFIDENCE, compare
from hpcscientist.recipe.schema import Budgets, StepSpec
from hpcscientist.records.findings import Comparison
from hpcscientist.records.objective import better_by
from hpcscientist.records.trial import MetricSpec

FUTILE: Final = 0.25  # an idea with a lower chance of an improvement is given up
_FIRST: Final = 3  # seeds of a first look: two show only the order of magnitude of the noise
_MANY: Final = 5  # recipes with fewer seeds have their first look after two
_NEAR: Final = 2 / 3  # no look between this share of the seeds and the last
_SPENDING: Final = 0.05  # the error at which the shares follow O'Brien and Fleming's


@dataclass(frozen=True, slots=True)
class Schedule:
    """The numbers of seeds after which an idea is looked at, increasing; the last is the most."""

    looks: tuple[int, ...]

    def __post_init__(self) -> None:
        """Raise ValueError unless the looks increase, from at least one seed."""
        grows = all(a < b for a, b in itertools.pairwise(self.looks))
        if not self.looks or self.looks[0] < 1 or not grows:
            raise ValueError("looks are numbers of seeds that grow, from at least 1")

    @classmethod
    def of(cls, seeds: int, at_most: int = 0) -> Schedule:
        """Return the looks of a sequential test of `seeds`, and of `at_most` in the end.

        `at_most` 0 means twice as many. There are looks after `seeds`, after half of them and so on
        down to a first few, and after twice as many and so on up to the end.
        """
        most = at_most or 2 * seeds
        first = 2 if seeds < _MANY else _FIRST
        looks, fewer = {seeds}, math.ceil(seeds / 2)
        while first <= fewer < min(looks):
            looks.add(fewer)
            fewer = math.ceil(fewer / 2)
        while max(looks) < most:
            looks.add(2 * max(looks))
        return cls._up_to(most, [look for look in looks if look >= first])

    @classmethod
    def rungs(cls, seeds: int, rate: float, at_most: int = 0) -> Schedule:
        """Return the rungs of successive halving up to `at_most` seeds (0: `seeds`)."""
        most = at_most or seeds
        rungs, rung = [1], rate
        while rung < most:
            rungs.append(round(rung))
            rung *= rate
        return cls._up_to(most, rungs)

    @classmethod
    def _up_to(cls, most: int, looks: Sequence[int]) -> Schedule:
        """Return a schedule without looks so near the end that they would take its error share."""
        return cls((*sorted({look for look in looks if look <= _NEAR * most}), most))

    @property
    def at_most(self) -> int:
        """The most seeds that an idea is given."""
        return self.looks[-1]

    def after(self, n_seeds: int) -> int:
        """Return the number of seeds between `n_seeds` and the next look; 0 after the last."""
        return next((look - n_seeds for look in self.looks if look > n_seeds), 0)


@dataclass(frozen=True, slots=True)
class Decision:
    """How many more seeds, or trials at the next budget, an idea is given, and why.

    `given_up`: the idea gets none because others are more promising; false if it needs none.
    """

    more: int
    reason: str
    given_up: bool = False


def schedule_of(loop: LoopSettings, seeds: int) -> Schedule | None:
    """Return a campaign's looks, for a recipe with `seeds` seeds; None: all seeds at once."""
    if loop.allocation == "sequential":
        return Schedule.of(seeds, loop.seeds_at_most)
    if loop.allocation == "halving":
        return Schedule.rungs(seeds, loop.halving, loop.seeds_at_most)
    return None


def steps_of(loop: LoopSettings, budgets: Budgets) -> tuple[StepSpec, ...]:
    """Return the recipe's budgets below the full one if the campaign uses halving, else ()."""
    return budgets.steps if loop.allocation == "halving" else ()


def most_seeds(loop: LoopSettings, seeds: int) -> int:
    """Return the most seeds that an idea is given; the baseline is given as many."""
    schedule = schedule_of(loop, seeds)
    return seeds if schedule is None else schedule.at_most


def correction(n_seeds: int, schedule: Schedule) -> float:
    """Return the factor for a p-value from `n_seeds` seeds, at least 1.

    A number of seeds between two looks has the share of the earlier one, the smaller.
    """
    looks = [look for look in schedule.looks if look > 1] or [schedule.at_most]
    found = max([i for i, look in enumerate(looks) if look <= n_seeds], default=0)
    return 1.0 / _shares(tuple(looks))[found]


def decide(
    baseline: Mapping[int, float],
    idea: Mapping[int, float],
    metric: MetricSpec,
    q: float,
    schedule: Schedule,
    strictest: float | None = None,
) -> Decision:
    """Decide from an idea's values by seed whether it gets more seeds, as a sequential test does.

    `q` is the mildest level that its p-value may be compared with, `strictest` the strictest (q
    over the number of ideas under Benjamini-Hochberg; None: `q`). The baseline should have values
    for all seeds of the schedule. Pure: the same values give the same decision.

    Raises ValueError unless 0 < strictest <= q < 1, and as `compare` does.
    """
    strictest = q if strictest is None else strictest
    if not 0 < strictest <= q < 1:
        raise ValueError("levels lie between 0 and 1, the strictest not above q")
    n, most = len(idea), schedule.at_most
    more = schedule.after(n)
    if not more:
        return Decision(0, f"all {n} seeds")
    comparison = compare(baseline, idea) if idea else None
    if comparison is None or comparison.p_value is None:
        return Decision(more, f"{n} of at most {most} seeds tell nothing of the noise")
    # One-sided: half of the two-sided one, because only "better" counts below.
    p = min(1.0, comparison.p_value / 2 * correction(n, schedule))
    if p <= strictest and gain(comparison, metric) > metric.minimum_effect:
        return Decision(0, f"decided after {n} of at most {most} seeds: p {p:.2g} for this look")
    chance = chance_of_improvement(comparison, metric, q, schedule)
    told = f"after {n} of at most {most} seeds an improvement has a chance of {chance:.2g}"
    if chance < FUTILE:
        return Decision(0, f"{told}, and less than {FUTILE:g} is given up", given_up=True)
    return Decision(more, f"undecided: {told}")


def chance_of_improvement(
    comparison: Comparison, metric: MetricSpec, q: float, schedule: Schedule
) -> float:
    """Return the predictive probability that an idea is an improvement after all seeds.

    It is then an improvement if its one-sided p-value with the last look's correction is at most
    `q`, and its effect is above the metric's minimum effect. Future seeds are assumed around the
    mean so far, or around the minimum effect if that is better.
    """
    n, most = comparison.n, schedule.at_most
    level, trend = q / correction(most, schedule), gain(comparison, metric)
    rest, expected = most - n, max(trend, metric.minimum_effect)
    at_end = (n * trend + rest * expected) / most
    deviation = _deviation(comparison)
    if deviation is None:  # nothing varies: judge as `compare` does for such differences
        return float(trend > metric.minimum_effect and 2.0**-most <= level)
    from scipy.special import stdtr, stdtrit  # noqa: PLC0415  (slow to import)

    critical = float(stdtrit(most - 1, 1 - level)) * deviation / math.sqrt(most)
    # Two sources of error in the mean of the rest: its own noise and that of the mean so far.
    error = deviation * rest / most * math.sqrt(1 / rest + 1 / n)
    return float(stdtr(n - 1, (at_end - max(critical, metric.minimum_effect)) / error))


def promote(
    value: float,
    earlier: Sequence[float],
    n_seeds: int,
    metric: MetricSpec,
    schedule: Schedule,
    rate: float,
) -> Decision:
    """Decide whether an idea goes on from a rung, by its mean over the rung's seeds.

    `earlier` are the means of the ideas that reached this rung before; on a tie they rank ahead.
    Raises ValueError unless rate > 1.
    """
    _check_rate(rate)
    more = schedule.after(n_seeds)
    if not more:
        return Decision(0, f"all {n_seeds} seeds")
    where = f"after {n_seeds} seed{'s' * (n_seeds > 1)}"
    return _goes_on(value, earlier, where, more, metric, rate)


def climb(
    value: float, earlier: Sequence[float], step: str, metric: MetricSpec, rate: float
) -> Decision:
    """Decide whether an idea goes on from a step to the next budget, by its one trial there.

    `more` is 1 if it does. Otherwise as `promote`.
    """
    _check_rate(rate)
    return _goes_on(value, earlier, f"at budget {step}", 1, metric, rate)


def _check_rate(rate: float) -> None:
    if not rate > 1:
        raise ValueError("successive halving keeps a share 1/rate: rate is above 1")


def _goes_on(
    value: float, earlier: Sequence[float], where: str, more: int, metric: MetricSpec, rate: float
) -> Decision:
    """Rank an idea among the earlier ones, and keep the best 1/rate."""
    come = len(earlier) + 1
    rank = 1 + sum(better_by(other, value, metric) >= 0 for other in earlier)
    told = f"rank {rank} of {come} {where}"
    if come < rate or rank <= math.floor(come / rate):
        return Decision(more, told)
    return Decision(0, f"{told}, and 1 in {rate:g} goes on", given_up=True)


def _deviation(comparison: Comparison) -> float | None:
    """Return the standard deviation of the differences, from the interval.

    None if nothing varies.
    """
    if comparison.ci_low is None or comparison.ci_high is None:
        return None
    from scipy.special import stdtrit  # noqa: PLC0415  (slow to import)

    reach = (comparison.ci_high - comparison.ci_low) / 2
    error = reach / float(stdtrit(comparison.n - 1, (1 + CONFIDENCE) / 2))
    return error * math.sqrt(comparison.n) or None


def _shares(looks: tuple[int, ...]) -> tuple[float, ...]:
    """Return the shares of the error by look; they grow, and sum to one."""
    from scipy.special import ndtr, ndtri  # noqa: PLC0415  (slow to import)

    bound = -float(ndtri(_SPENDING / 2))
    spent = [0.0, *(2 * float(ndtr(-bound / math.sqrt(n / looks[-1]))) for n in looks)]
    return tuple((b - a) / spent[-1] for a, b in itertools.pairwise(spent))
