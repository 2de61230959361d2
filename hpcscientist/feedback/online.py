"""The false discovery rate of hypotheses tested in order, of which more may come: ADDIS.

Tian & Ramdas 2019, "ADDIS: an adaptive discarding algorithm for online FDR control with
conservative nulls" (arXiv 1905.11465), algorithm 1. Hypothesis t is rejected when its p-value is
at most a level that depends on the p-values before it alone, so a campaign that runs on neither
changes what was decided nor spends its error twice. P-values above TAU are discarded (an idea
that makes things worse costs nothing when improvements are looked for), those up to LAMBDA are
candidates and cost nothing either; each one between them takes the levels one step down the
sequence GAMMA, and each rejection starts the sequence anew.

Proven for p-values that are independent and, of true hypotheses, uniformly conservative, which
one-sided t tests are. Ours depend on each other: all ideas are compared with the same seeds of
the baseline, and one that is unlucky there makes all ideas look better. The more p-values are
candidates, the more that costs: with the paper's LAMBDA = 0.25 the rate comes to 1.1 q where
the baseline is twice as noisy as few good ideas among many; with SAFFRON (Ramdas et al. 2018,
arXiv 1802.09098; TAU = 1 and LAMBDA = 0.5) to 2.8 q there, and to 1.5 q where there is nothing to
find. With LAMBDA = 0.1 it stays below q, and as much is found
(tests/feedback/test_online_simulation.py).
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
    """Adjust p-values, in order: hypothesis t is rejected where what is returned is at most `q`.

    It is q times the p-value over its level, at most 1: how far from its level it lies, and
    not the least q at which it were rejected, for levels depend on q through what came before.
    What is returned for the first t values does not depend on those after them.

    `disqualified` ones count as their p-values say and are never rejected (1 is returned): the
    bound holds for what is left. Of all that are rejected, a share of at most q is expected to be
    false. Raises ValueError for what is no p-value, no rate.
    """
    if not 0 < q < 1:
        raise ValueError("the false discovery rate q lies between 0 and 1, both excluded")
    if not 0 < candidate < discard <= 1:
        raise ValueError("p-values are candidates below where they are discarded, from 0 to 1")
    if not all(0.0 <= p <= 1.0 for p in p_values):
        raise ValueError("p-values are between 0 and 1")
    adjusted: list[float] = []
    wealth = {0: q / 2}  # by how many costly p-values had come before it
    costly = found = 0
    share = _share(wealth, costly)
    for p, is_disqualified in zip(p_values, disqualified or [False] * len(p_values), strict=True):
        level = min(candidate, (discard - candidate) * share)
        ratio = 1.0 if is_disqualified else min(1.0, q * p / level)
        adjusted.append(ratio)
        if ratio <= q:
            found += 1
            # The first one is paid back less what the campaign began with.
            wealth[costly] = wealth.get(costly, 0.0) + (q / 2 if found == 1 else q)
        costly += candidate < p <= discard
        if ratio <= q or candidate < p <= discard:
            share = _share(wealth, costly)
    return adjusted


def least_level(number: int, q: float) -> float:
    """Return the lowest level that the hypothesis of this number, from 1 on, may be tested at.

    That is where all before it were costly and none was rejected.
    """
    return min(LAMBDA, (TAU - LAMBDA) * q / 2 * gamma(number))


def _share(wealth: dict[int, float], costly: int) -> float:
    return math.fsum(w * gamma(costly - start + 1) for start, w in wealth.items())


def gamma(j: int) -> float:
    """Return the j-th share, from 1 on, of the wealth that a rejection gives."""
    return math.pow(j, -_POWER) / _ZETA
