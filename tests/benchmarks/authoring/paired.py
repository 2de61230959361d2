"""How sure a difference of two shares is where both were measured on the same ideas."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from hpcscientist.feedback.statistics import wilson


@dataclass(frozen=True, slots=True)
class Paired:
    """The difference of two shares, its 95% interval, and McNemar's exact p-value, two-sided.

    `gained`: pairs that only the first has; `lost`: that only the second has.
    """

    difference: float
    low: float
    high: float
    p_value: float
    gained: int
    lost: int


def compare(pairs: Iterable[tuple[bool, bool]]) -> Paired:
    """Compare two outcomes of the same cases: the share of the first minus that of the second.

    The interval is Newcombe's (1998, Statistics in Medicine 17, 2635-2650, method 10): the score
    intervals of both shares put together with their correlation, so it has a width where no pair
    differs. The p-value is the exact one (McNemar 1947, Psychometrika 12), of the pairs that
    differ alone. Raises ValueError without a pair.
    """
    given = list(pairs)
    both, gained, lost, neither = (
        given.count(of) for of in ((True, True), (True, False), (False, True), (False, False))
    )
    count = len(given)
    if not count:
        raise ValueError("there is no pair to compare")
    first, second = (both + gained) / count, (both + lost) / count
    (low_1, high_1), (low_2, high_2) = wilson(both + gained, count), wilson(both + lost, count)
    phi = _correlation(both, gained, lost, neither)
    difference = (gained - lost) / count
    return Paired(
        difference=difference,
        low=max(-1.0, difference - _reach(first - low_1, high_2 - second, phi)),
        high=min(1.0, difference + _reach(high_1 - first, second - low_2, phi)),
        p_value=_mcnemar(gained, lost),
        gained=gained,
        lost=lost,
    )


def _reach(one: float, other: float, phi: float) -> float:
    # Never below zero but for rounding, for |phi| <= 1.
    return math.sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))


def _correlation(both: int, gained: int, lost: int, neither: int) -> float:
    """Return phi of the two outcomes, corrected for continuity where it is positive."""
    sides = (both + gained) * (lost + neither) * (both + lost) * (gained + neither)
    if not sides:
        return 0.0
    product = float(both * neither - gained * lost)
    if product > 0:
        product = max(0.0, product - (both + gained + lost + neither) / 2)
    return product / math.sqrt(sides)


def _mcnemar(gained: int, lost: int) -> float:
    count = gained + lost
    tail = sum(math.comb(count, k) for k in range(min(gained, lost) + 1))
    return min(1.0, 2 * tail / float(2**count))
