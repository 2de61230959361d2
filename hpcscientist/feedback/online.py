"""ADDIS: controls the false discovery rate of hypotheses tested in order, without a known end.

Tian & Ramdas 2019, "ADDIS: an adaptive discarding algorithm for online FDR control with
conservative nulls" (arXiv 1905.11465), algorithm 1. Hypothesis t is rejected if its p-value is at
most a level that depends only on earlier p-values. So a campaign that continues neither changes
past decisions nor spends its error twice. P-values above TAU are discarded (an idea that makes
things worse costs nothing when improvements are sought). P-values up to LAMBDA are candidates and
cost nothing either. Each p-value between them moves the levels one step down the sequence GAMMA,
and each rejection starts the sequence anew.

The proof holds for p-values that are independent and, for true hypotheses, uniformly conservative,
which one-sided t tests are. Ours are dependent: all ideas are compared with the same seeds of the
baseline, and an unlucky baseline makes all ideas look better. The more p-values are candidates, the
higher the cost of that. With the paper's LAMBDA = 0.25 the rate reaches 1.1 q if the baseline is
twice as noisy as the ideas and few of many ideas are good. With SAFFRON (Ramdas et al. 2018, arXiv
1802.09098; TAU = 1 and LAMBDA = 0.5) it reaches 2.8 q there, and 1.5 q if there is nothing to find.
With LAMBDA = 0.1 it stays below q, and as much is found (tests/feedback/test_online_simulation.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

LAMBDA: Final = 0.1
TAU: Final = 0.5  # the paper's choice
# Levels fall like j^-1.6, as in the simulations of both papers, and sum to one: zeta(1.6).
_POWER: Final = 1.6
_ZETA: Final = 2.28576566568


def adjust(
    p_values: Sequence[float],
    q: float,
    disqualified: Sequence[bool] | None = None,
    *,
    candidate: float = LAMBDA,
    discard: float = TAU,
) -> list[float]:
    """Adjust p-values, in order: hypothesis t is rejected if its result is at most `q`.

    The result is q times the p-value over its level, at most 1. It shows how far the p-value is
    from its level. It is not the least q at which the hypothesis would be rejected, because levels
    depend on q through earlier hypotheses. The first t results do not depend on later p-values.

    `disqualified` hypotheses count by their p-values but are never rejected (their result is 1):
    the bound holds for the rest. A share of at most q of all rejections is expected to be false.
    Raises ValueError for an invalid p-value or rate.
    """
    if not 0 < q < 1:
        raise ValueError("the false discovery rate q lies between 0 and 1, both excluded")
    if not 0 < candidate < discard <= 1:
        raise ValueError("p-values are candidates below where they are discarded, from 0 to 1")
    if not all(0.0 <= p <= 1.0 for p in p_values):
        raise ValueError("p-values are between 0 and 1")
    adjusted: list[float] = []
    wealth = {0: q / 2}  # by the number of costly p-values before it was gained
    costly = found = 0
    share = _share(wealth, costly)
    for p, is_disqualified in zip(p_values, disqualified or [False] * len(p_values), strict=True):
        level = min(candidate, (discard - candidate) * share)
        ratio = 1.0 if is_disqualified else min(1.0, q * p / level)
        adjusted.append(ratio)
        if ratio <= q:
            found += 1
            # The first rejection gains less: the initial wealth is subtracted.
            wealth[costly] = wealth.get(costly, 0.0) + (q / 2 if found == 1 else q)
        costly += candidate < p <= discard
        if ratio <= q or candidate < p <= discard:
            share = _share(wealth, costly)
    return adjusted


def least_level(number: int, q: float) -> float:
    """Return the lowest level at which the hypothesis of this number, from 1 on, may be tested.

    It applies if all earlier p-values were costly and no hypothesis was rejected.
    """
    return min(LAMBDA, (TAU - LAMBDA) * q / 2 * gamma(number))


def _share(wealth: dict[int, float], costly: int) -> float:
    return math.fsum(w * gamma(costly - start + 1) for start, w in wealth.items())


def gamma(j: int) -> float:
    """Return the j-th share, from 1 on, of the wealth that a rejection gives."""
    return math.pow(j, -_POWER) / _ZETA
