"""Compares an idea with the baseline over seeds, and adjusts for many ideas.

`decision` says what a comparison means for the idea. Confirmation on fresh seeds is not here: these
are the statistics of the search.

The test is Student's t throughout. It assumes that seeds are independent and that differences
(paired) or values (Welch) are normal. If they are not normal (tests/feedback/test_coverage.py, 5
and 10 seeds; figures are the coverage of 95% intervals):

- Skewed noise on both sides, as of a loss, leaves differences nearly symmetric: 0.95 to 0.957
  paired. So does a bounded metric, near its bound too: 0.947 to 0.953.
- Ties. Differences of a few steps of a coarse metric (an accuracy over few images) keep the level
  in the far tail that many ideas require, since a difference of two similar values is not flat
  (tests/feedback/test_null_simulation.py). If all values are tied, see below.
- Heavy tails on both sides make intervals too wide, never too narrow (Efron 1969, JASA 64: the
  test is conservative under symmetry): 0.97 for lognormal noise with a skewness of 6.
- Heavy tails on one side only, as of an idea that diverges with one seed in twenty, are where the
  test fails: the observed seeds may not include the values that dominate the mean. Coverage is 0.82
  to 0.84 for such noise beside a baseline with almost none. Intervals corrected for skewness (Hall
  1992, JRSS B 54; bootstrap-t) reached 0.89 to 0.92 there, and as little as 0.91 where t is right.

Sign flips and ranks assume no normality, but cannot give less than 2^-n one-sided: 0.03 from five
seeds, 0.001 from ten, while the tenth idea of a campaign may need to be below 0.0002. Above that
they found no more than t under normal noise, and up to 0.06 more under heavy tails.

All ideas of a campaign are compared with the same baseline seeds, so the tests are dependent.
Benjamini-Hochberg is proven to control the false discovery rate for independent tests and under one
kind of positive dependence (Benjamini & Yekutieli 2001, Annals of Statistics 29, theorem 1.2),
which one-sided tests of normal means with a shared baseline have, and t tests very nearly;
tests/feedback/test_null_simulation.py measures it for ideas without any effect.

If a method and the baseline both ignore their seeds, they differ by the same amount for every seed.
Nothing is known about the noise then, and the exact sign-flip test replaces the t test. Five seeds
give p = 0.0625 however large the difference is, so such a recipe needs at least six. One seed that
differs in the last digit brings the t test back, with a very small p: that jump is the step from no
estimate of the noise to an actual one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Final

from hpcscientist.records.findings import Comparison
from hpcscientist.records.trial import is_measured

# ADDIS: controls the false discovery rate of hypotheses tested in order, without a known end.
#
# Tian & Ramdas 2019, "ADDIS: an adaptive discarding algorithm for online FDR control with
# conservative nulls" (arXiv 1905.11465), algorithm 1. Hypothesis t is rejected if its p-value
# is at most a level that depends only on earlier p-values. So a campaign that continues neither
# changes past decisions nor spends its error twice. P-values above TAU are discarded (an idea
# that makes things worse costs nothing when improvements are sought). P-values up to LAMBDA are
# candidates and cost nothing either. Each p-value between them moves the levels one step down
# the sequence GAMMA, and each rejection starts the sequence anew.
#
# The proof holds for p-values that are independent and, for true hypotheses, uniformly
# conservative, which one-sided t tests are. Ours are dependent: all ideas are compared with the
# same seeds of the baseline, and an unlucky baseline makes all ideas look better. The more
# p-values are candidates, the higher the cost of that. With the paper's LAMBDA = 0.25 the rate
# reaches 1.1 q if the baseline is twice as noisy as the ideas and few of many ideas are good.
# With SAFFRON (Ramdas et al. 2018, arXiv 1802.09098; TAU = 1 and LAMBDA = 0.5) it reaches 2.8 q
# there, and 1.5 q if there is nothing to find. With LAMBDA = 0.1 it stays below q, and as much
# is found (tests/feedback/test_online_simulation.py).


LAMBDA: Final = 0.1
TAU: Final = 0.5  # the paper's choice
# Levels fall like j^-1.6, as in the simulations of both papers, and sum to one: zeta(1.6).
_POWER: Final = 1.6
_ZETA: Final = 2.28576566568


def addis(
    p_values: Sequence[float],
    q: float,
    disqualified: Sequence[bool] | None = None,
    *,
    candidate: float = LAMBDA,
    discard: float = TAU,
) -> list[float]:
    """Adjust p-values by ADDIS, in order: hypothesis t is rejected if its result is at most `q`.

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


CONFIDENCE: Final = 0.95

# Values whose spread is below this share of their size differ by rounding alone: the method
# ignores its seed. A t test would treat the rounding as tiny noise and be certain.
_ROUNDING: Final = 1e-13


def compare(baseline: Mapping[int, float], idea: Mapping[int, float]) -> Comparison:
    """Compare an idea's values by seed with the baseline's; delta is idea minus baseline.

    With at least two seeds in common: a paired t test on those seeds alone (Student 1908), which
    removes what a seed does to both. Otherwise Welch's t test on all values (Welch 1947, Biometrika
    34). `mean`, `std` (ddof=1), `n` and `baseline_mean` are of the values that were compared.
    Intervals are 95% and two-sided, p-values two-sided.

    With one value on either side there is no interval and no p-value. Without any spread, equal
    means give p = 1 and an interval of no width. A constant nonzero difference has no t statistic,
    so its p-value is the exact one of the permutation test (2^(1-n) for n sign flips; Fisher 1935)
    and it has no interval. Five seeds then give p = 0.0625 at best: seeds that change nothing are
    no replication.

    Raises ValueError if a side is empty or a value does not satisfy `is_measured`.
    """
    for name, values in (("baseline", baseline), ("idea", idea)):
        if not values:
            raise ValueError(f"the {name} has no values to compare")
        if not all(map(is_measured, values.values())):
            raise ValueError(f"the {name} has a value that is not a finite number, or too large")
    shared = sorted(baseline.keys() & idea.keys())
    if len(shared) >= 2:
        return _paired([baseline[s] for s in shared], [idea[s] for s in shared])
    return _welch(sorted(baseline.values()), sorted(idea.values()))


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number (Benjamini & Hochberg 1995, JRSS B 57), in order.

    An idea is found if its adjusted p-value is at most q; of all that are found, a share of at most
    q is expected to be false. Raises ValueError for an invalid p-value.
    """
    if not all(0.0 <= p <= 1.0 for p in p_values):
        raise ValueError("p-values are between 0 and 1")
    # Equals scipy.stats.false_discovery_control to the last bit; importing that would take
    # longer than the rest of `hpcsci results`.
    count, least = len(p_values), 1.0
    adjusted = [least] * count
    falling = sorted(range(count), key=p_values.__getitem__, reverse=True)
    for place, rank in zip(falling, range(count, 0, -1), strict=True):
        least = min(least, p_values[place] * (count / rank))
        adjusted[place] = least
    return adjusted


def noise(std: float, n: int) -> float | None:
    """Return how far the means of two runs of one code, n seeds each, differ in 95% of cases.

    This is the half-width of the t interval of that difference, with seeds that are not paired.
    None if there is one seed, or a std of 0, because neither says anything about noise.
    """
    if n < 2 or std <= 0:
        return None
    (low, high), _ = _t_test(0.0, std * math.sqrt(2 / n), 2 * (n - 1))
    return (high - low) / 2


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return the 95% score interval of a share (Wilson 1927). Raises ValueError for no trials."""
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"{successes} of {trials} is no share")
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    share, weight = successes / trials, z * z / trials
    centre = (share + weight / 2) / (1 + weight)
    reach = z / (1 + weight) * math.sqrt(share * (1 - share) / trials + weight / (4 * trials))
    # At the ends the formula gives 0 and 1 except for rounding.
    low = 0.0 if successes == 0 else max(0.0, centre - reach)
    return low, 1.0 if successes == trials else min(1.0, centre + reach)


def _paired(baseline: list[float], idea: list[float]) -> Comparison:
    n = len(idea)
    differences = sorted(i - b for b, i in zip(baseline, idea, strict=True))
    delta = _mean(differences)
    size = max(map(abs, (*baseline, *idea)))
    interval: tuple[float, float] | None
    if differences[-1] - differences[0] <= _ROUNDING * size:
        interval, p = _constant(delta, size, 2.0 ** (1 - n))
    else:
        interval, p = _t_test(delta, _std(differences) / math.sqrt(n), n - 1)
    return _comparison(sorted(baseline), sorted(idea), delta, interval, p, paired=True)


def _welch(baseline: list[float], idea: list[float]) -> Comparison:
    m, n = len(baseline), len(idea)
    delta = _mean(idea) - _mean(baseline)
    if min(m, n) < 2:
        return _comparison(baseline, idea, delta, None, None, paired=False)
    size = max(map(abs, (*baseline, *idea)))
    interval: tuple[float, float] | None
    if max(baseline[-1] - baseline[0], idea[-1] - idea[0]) <= _ROUNDING * size:
        interval, p = _constant(delta, size, 2.0 / math.comb(m + n, n))
    else:
        of_baseline, of_idea = _std(baseline) / math.sqrt(m), _std(idea) / math.sqrt(n)
        error = math.hypot(of_baseline, of_idea)
        # Welch-Satterthwaite degrees of freedom, computed from shares to avoid underflow.
        share = (of_idea / error) ** 2
        freedom = 1 / (share**2 / (n - 1) + (1 - share) ** 2 / (m - 1))
        interval, p = _t_test(delta, error, freedom)
    return _comparison(baseline, idea, delta, interval, p, paired=False)


def _t_test(delta: float, error: float, freedom: float) -> tuple[tuple[float, float], float]:
    """Return the interval and the two-sided p-value of a difference with a standard error."""
    from scipy.special import stdtr, stdtrit  # noqa: PLC0415  (slow to import)

    reach = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    p = 2.0 * float(stdtr(freedom, -abs(delta) / error))
    return (delta - reach, delta + reach), min(1.0, p)


def _constant(delta: float, size: float, exact: float) -> tuple[tuple[float, float] | None, float]:
    """Return interval and p-value if nothing varies: `exact` if there is a difference."""
    if abs(delta) <= _ROUNDING * size:
        return (delta, delta), 1.0
    return None, min(1.0, exact)


def _comparison(
    baseline: list[float],
    idea: list[float],
    delta: float,
    interval: tuple[float, float] | None,
    p: float | None,
    *,
    paired: bool,
) -> Comparison:
    low, high = interval if interval else (None, None)
    return Comparison(
        mean=_mean(idea),
        std=_std(idea) if len(idea) > 1 else None,
        n=len(idea),
        baseline_mean=_mean(baseline),
        delta=delta,
        ci_low=low,
        ci_high=high,
        p_value=p,
        paired=paired,
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _std(values: Sequence[float]) -> float:
    """Return the sample standard deviation (ddof=1) of at least two values."""
    centre = _mean(values)
    return math.hypot(*(v - centre for v in values)) / math.sqrt(len(values) - 1)
