"""The baseline's self-check before any idea runs: can a comparison find anything?

It asks three questions. How far do the baseline's seeds spread, and so how small an effect can the
planned seeds find? Is its value near the published one? Does its seed have any effect?

A baseline is noisy if the smallest effect found with power 0.8 is more than twice the recipe's
minimum effect. Already at twice, an idea that is worth the minimum is missed two times in three,
and if it is found, its effect is overestimated by half or more, because luck helped to find it
(type M errors; Gelman & Carlin 2014, Perspectives on Psychological Science 9). Without a minimum
effect a recipe does not say what is worth finding, and no baseline is noisy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from statistics import fmean, stdev
from typing import Any, Final

from hpcscientist.feedback.statistics import CONFIDENCE
from hpcscientist.records.base import Record
from hpcscientist.records.trial import MetricSpec

# The power of the paired t test: how small an effect a planned comparison can find.
#
# The power of a t test is that of a noncentral t distribution (Cohen 1988, Statistical Power
# Analysis for the Behavioral Sciences, 2nd edition, chapter 2). Found means as in `decision`: the
# one-sided p-value is at most the level, and the mean is beyond the minimum effect. Differences
# are assumed normal. The level is that of one comparison alone: adjusted for many ideas it is as
# strict or stricter, and so the smallest effect that can be found is as large or larger.

POWER: Final = 0.8  # Cohen 1988, section 2.4
_LARGEST: Final = 2.0**30  # standard errors; no effect is that large
_NODES: Final = 64  # of the quadrature: power to four digits


def power_of(
    effect: float, deviation: float, pairs: int, level: float, minimum: float = 0.0
) -> float:
    """Return the probability that a true `effect` is found by its paired t test.

    `deviation` is the standard deviation of the pairs' differences. `minimum` is what an effect
    must exceed, in the effect's unit. Raises ValueError for fewer than two pairs, or without any
    deviation.
    """
    scale = _scale(deviation, pairs)
    return _power(effect * scale, pairs, level, minimum * scale)


def smallest_effect(deviation: float, pairs: int, level: float, minimum: float = 0.0) -> float:
    """Return the smallest true effect that is found with power 0.8. Arguments as in `power_of`."""
    scale = _scale(deviation, pairs)
    low, high = 0.0, 1.0
    while _power(high, pairs, level, minimum * scale) < POWER and high < _LARGEST:
        low, high = high, 2 * high
    for _ in range(50):  # bisect down to the last digits
        middle = (low + high) / 2
        found = _power(middle, pairs, level, minimum * scale) >= POWER
        low, high = (low, middle) if found else (middle, high)
    return high / scale


def pairs_needed(
    effect: float, deviation: float, level: float, minimum: float, most: int
) -> int | None:
    """Return the least number of pairs that finds `effect` with power 0.8; None: over `most`."""
    if power_of(effect, deviation, most, level, minimum) < POWER:
        return None
    low, high = 1, most  # more pairs find smaller effects
    while high - low > 1:
        middle = (low + high) // 2
        found = power_of(effect, deviation, middle, level, minimum) >= POWER
        low, high = (low, middle) if found else (middle, high)
    return high


def _scale(deviation: float, pairs: int) -> float:
    """Return how many standard errors of the mean difference are in one unit."""
    if pairs < 2 or not deviation > 0:
        raise ValueError("power needs two pairs or more, and differences that vary")
    return math.sqrt(pairs) / deviation


def _power(effect: float, pairs: int, level: float, minimum: float) -> float:
    """Return the power; effect and minimum are in standard errors.

    It is the mean of a normal probability over the distribution of the estimated deviation, by
    Gauss-Legendre quadrature: scipy's own noncentral t is wrong far out with two or three pairs.
    """
    from scipy.special import ndtr  # noqa: PLC0415  (slow to import)

    limits, weights = _limits(pairs, level)
    return float(weights @ ndtr(effect - limits.clip(min=minimum)))


@lru_cache(maxsize=256)
def _limits(pairs: int, level: float) -> tuple[Any, Any]:
    """Return limits for the mean, in standard errors, by estimated deviation; and their weights."""
    from numpy.polynomial.legendre import leggauss  # noqa: PLC0415  (slow to import)
    from scipy.special import chdtri, stdtrit  # noqa: PLC0415

    freedom = pairs - 1
    nodes, weights = leggauss(_NODES)
    estimated = (chdtri(freedom, (nodes + 1) / 2) / freedom) ** 0.5
    return float(stdtrit(freedom, 1 - level)) * estimated, weights / 2


NOISY: Final = 2.0  # times the minimum effect
LEVEL: Final = 0.01  # of the test against the published value: a false alarm costs a look
MOST_SEEDS: Final = 1000  # more than any recipe may have
_ROUNDING: Final = 1e-13  # of the values' size: smaller differences count as none


class Distance(Record):
    """Baseline minus published value, in the metric's unit, with a 95% interval.

    `deviations` is the same in standard deviations of the baseline's seeds. It and the interval are
    None without any spread. `away`: the difference exceeds the minimum effect and what the seeds
    explain, tested at a level of 0.01.
    """

    published: float
    difference: float
    low: float | None
    high: float | None
    deviations: float | None
    away: bool


class BaselineCheck(Record):
    """What the baseline's seeds show. All in the metric's unit except `at_minimum`.

    `deviation` has a 95% interval; it is 0 and has none if the seeds change nothing. `smallest` is
    the effect that `seeds` seeds find with power 0.8 in the worst case, in which idea and baseline
    have only the seed's number in common. `paired` is the same with the standard deviation of the
    differences, if known. `at_minimum` is the power at the minimum effect, `enough` how many seeds
    would suffice. None means that there is no such figure.
    """

    metric: MetricSpec
    seeds: int
    level: float
    mean: float
    deviation: float
    deviation_low: float | None = None
    deviation_high: float | None = None
    smallest: float | None = None
    paired: float | None = None
    at_minimum: float | None = None
    enough: int | None = None
    distance: Distance | None = None

    @property
    def constant(self) -> bool:
        """Return whether every seed gives the same value."""
        return self.deviation == 0

    @property
    def noisy(self) -> bool:
        """Return whether the baseline is too noisy for the recipe's minimum effect."""
        found = self.paired if self.paired is not None else self.smallest
        minimum = self.metric.minimum_effect
        return found is not None and minimum > 0 and found > NOISY * minimum


def check(
    baseline: Mapping[int, float],
    metric: MetricSpec,
    level: float,
    seeds: int | None = None,
    published: float | None = None,
    differences: float | None = None,
) -> BaselineCheck:
    """Check the baseline's values by seed, before `seeds` seeds of every idea are run.

    `seeds` is the baseline's number unless given. `level` is the campaign's q. `differences` is the
    standard deviation of idea minus baseline by seed, if known. The interval of the standard
    deviation is the chi-square one, that of the distance is Student's, both for normal values.
    Raises ValueError for fewer than two values.
    """
    values = [baseline[seed] for seed in sorted(baseline)]
    if len(values) < 2:
        raise ValueError("one seed tells nothing about the spread")
    planned, mean, deviation = seeds or len(values), fmean(values), stdev(values)
    if max(values) - min(values) <= _ROUNDING * max(map(abs, values)):
        deviation = 0.0
    distance = None if published is None else _distance(values, mean, deviation, published, metric)
    found = BaselineCheck(
        metric=metric,
        seeds=planned,
        level=level,
        mean=mean,
        deviation=deviation,
        distance=distance,
    )
    if found.constant:
        return found
    low, high = _interval(deviation, len(values) - 1)
    worst, minimum = math.sqrt(2) * deviation, metric.minimum_effect
    return found.model_copy(
        update={
            "deviation_low": low,
            "deviation_high": high,
            "smallest": smallest_effect(worst, planned, level, minimum),
            "paired": smallest_effect(differences, planned, level, minimum)
            if differences
            else None,
            "at_minimum": power_of(minimum, worst, planned, level, minimum) if minimum else None,
            "enough": pairs_needed(NOISY * minimum, worst, level, minimum, MOST_SEEDS)
            if minimum
            else None,
        }
    )


def _interval(deviation: float, freedom: int) -> tuple[float, float]:
    """Return the 95% interval of a deviation (e.g. Snedecor & Cochran 1989, section 5.11)."""
    from scipy.special import chdtri  # noqa: PLC0415  (slow to import)

    tail = (1 - CONFIDENCE) / 2
    low, high = (math.sqrt(freedom / float(chdtri(freedom, p))) for p in (tail, 1 - tail))
    return low * deviation, high * deviation


def _distance(
    values: list[float], mean: float, deviation: float, published: float, metric: MetricSpec
) -> Distance:
    from scipy.special import stdtrit  # noqa: PLC0415  (slow to import)

    difference, relevant = mean - published, metric.minimum_effect
    if deviation == 0:
        size = _ROUNDING * max(abs(mean), abs(published))
        return Distance(
            published=published,
            difference=difference,
            low=None,
            high=None,
            deviations=None,
            away=abs(difference) > max(relevant, size),
        )
    freedom, error = len(values) - 1, deviation / math.sqrt(len(values))
    reach = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    beyond = float(stdtrit(freedom, 1 - LEVEL / 2)) * error
    return Distance(
        published=published,
        difference=difference,
        low=difference - reach,
        high=difference + reach,
        deviations=difference / deviation,
        away=abs(difference) > max(relevant, beyond),
    )


def statement(found: BaselineCheck) -> str:
    """Return one line on what the baseline is like and what can be found."""
    name = found.metric.name
    text = f"baseline: {name} {found.mean:.4g}"
    if found.smallest is not None:
        text += (
            f", SD {found.deviation:.2g} (95% interval {found.deviation_low:.2g} to "
            f"{found.deviation_high:.2g}); {found.seeds} seeds find an effect of "
            f"{found.smallest:.2g} with power 0.8 at best"
        )
    else:
        text += ", the same for every seed"
    if found.metric.minimum_effect:
        text += f", the recipe's minimum effect is {found.metric.minimum_effect:g}"
    return text + (f"; {_apart(found.distance)}" if found.distance is not None else "")


def warnings(found: BaselineCheck) -> dict[str, str]:
    """Return what people should know before any idea is run, by a name for each warning."""
    told = {}
    if found.noisy:
        told["noisy baseline"] = _noise(found)
    if found.constant:
        told["constant baseline"] = (
            f"the baseline gives {found.metric.name} {found.mean:.4g} for every seed: it ignores "
            "its seed, or the metric is too coarse; "
            f"{found.seeds} seeds of an idea that does so too have p = "
            f"{2.0 ** (1 - found.seeds):.2g} at best: have the reference use its seed"
        )
    if found.distance is not None and found.distance.away:
        told["unlike published"] = (
            f"the baseline is not what is published: {found.metric.name} {found.mean:.4g}, "
            f"{_apart(found.distance)}; look at the data, at versions of packages and at "
            "[published] in recipe.toml"
        )
    return told


def fix(found: BaselineCheck) -> str:
    """Return advice that makes a noisy baseline good enough."""
    seeds = f"{found.enough} seeds" if found.enough else f"more than {MOST_SEEDS} seeds"
    return (
        f"give the recipe {seeds}, a larger minimum_effect, or a reference whose seeds differ less"
    )


def _noise(found: BaselineCheck) -> str:
    assert found.smallest is not None
    assert found.at_minimum is not None
    return (
        f"the baseline is noisy: {found.seeds} seeds find an effect of {found.smallest:.2g} with "
        f"power 0.8, {found.smallest / found.metric.minimum_effect:.1f} times the minimum effect, "
        f"which itself is found in {found.at_minimum:.0%} of campaigns, and what is found is "
        f"likely overestimated; {fix(found)}"
    )


def _apart(distance: Distance) -> str:
    text = f"published {distance.published:.4g}, it differs by {distance.difference:+.2g}"
    if distance.deviations is None:
        return text
    return (
        f"{text} ({distance.deviations:+.1f} SD, 95% interval {distance.low:+.2g} to "
        f"{distance.high:+.2g})"
    )
