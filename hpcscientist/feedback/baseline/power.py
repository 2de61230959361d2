"""How small an effect a planned comparison can find: the power of the paired t test.

The power of a t test is that of a noncentral t distribution (Cohen 1988, Statistical Power
Analysis for the Behavioral Sciences, 2nd edition, chapter 2). Found means as in `decision`: the
one-sided p-value is at most the level, and the mean is beyond the minimum effect. Differences are
taken as normal. The level is that of one comparison alone: adjusted for many ideas it is as strict
or stricter, and so what can be found is as large or larger.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final

POWER: Final = 0.8  # Cohen 1988, section 2.4
_LARGEST: Final = 2.0**30  # standard errors; no effect is that large
_NODES: Final = 64  # of a quadrature: power to four digits


def power_of(
    effect: float, deviation: float, pairs: int, level: float, minimum: float = 0.0
) -> float:
    """Return the probability that a true `effect` is found by its paired t test.

    `deviation` is the standard deviation of the pairs' differences, and `minimum` what an effect
    must exceed, in the effect's unit. Raises ValueError for fewer than two pairs, or without any
    deviation.
    """
    scale = _scale(deviation, pairs)
    return _power(effect * scale, pairs, level, minimum * scale)


def smallest_effect(deviation: float, pairs: int, level: float, minimum: float = 0.0) -> float:
    """Return the smallest true effect that is found with power 0.8; as of `power_of`."""
    scale = _scale(deviation, pairs)
    low, high = 0.0, 1.0
    while _power(high, pairs, level, minimum * scale) < POWER and high < _LARGEST:
        low, high = high, 2 * high
    for _ in range(50):  # halved down to the last digits
        middle = (low + high) / 2
        found = _power(middle, pairs, level, minimum * scale) >= POWER
        low, high = (low, middle) if found else (middle, high)
    return high / scale


def pairs_needed(
    effect: float, deviation: float, level: float, minimum: float, most: int
) -> int | None:
    """Return the smallest number of pairs that finds `effect` with power 0.8; None: over `most`."""
    if smallest_effect(deviation, most, level, minimum) > effect:
        return None
    low, high = 1, most  # more pairs find smaller effects
    while high - low > 1:
        middle = (low + high) // 2
        found = smallest_effect(deviation, middle, level, minimum) <= effect
        low, high = (low, middle) if found else (middle, high)
    return high


def _scale(deviation: float, pairs: int) -> float:
    """Return how many standard errors of the mean difference are in one unit."""
    if pairs < 2 or not deviation > 0:
        raise ValueError("power needs two pairs or more, and differences that vary")
    return math.sqrt(pairs) / deviation


def _power(effect: float, pairs: int, level: float, minimum: float) -> float:
    """Return the power; effect and minimum in standard errors.

    The mean of a normal probability over the distribution of the estimated deviation, by
    Gauss-Legendre quadrature: scipy's own noncentral t is wrong far out with two or three pairs.
    """
    from scipy.special import ndtr  # noqa: PLC0415  (slow to import)

    limits, weights = _limits(pairs, level)
    return float(weights @ ndtr(effect - limits.clip(min=minimum)))


@lru_cache(maxsize=256)
def _limits(pairs: int, level: float) -> tuple[Any, Any]:
    """Return what the mean must exceed, in standard errors, for estimated deviations; weights."""
    from numpy.polynomial.legendre import leggauss  # noqa: PLC0415  (slow to import)
    from scipy.special import chdtri, stdtrit  # noqa: PLC0415

    freedom = pairs - 1
    nodes, weights = leggauss(_NODES)
    estimated = (chdtri(freedom, (nodes + 1) / 2) / freedom) ** 0.5
    return float(stdtrit(freedom, 1 - level)) * estimated, weights / 2
