"""Comparing an idea with the baseline over seeds, and adjusting for many ideas.

What a comparison means for the idea is in `decision`. Confirmation on fresh seeds is not
here: these are the numbers of the search.

Assumptions. Seeds are independent; differences (paired) or values (Welch) are roughly
normal, which a t test with few seeds leans on. All ideas of a campaign are compared with
the same baseline seeds, so the tests depend on each other. Benjamini-Hochberg is proven to
control the false discovery rate for independent tests and under one kind of positive
dependence (Benjamini & Yekutieli 2001, Annals of Statistics 29, theorem 1.2), which
two-sided tests with a shared baseline need not have; for our sizes
tests/feedback/test_null_simulation.py measures it where no idea does anything.

A method that ignores its seed, compared with a baseline that does too, differs by the same
amount for every seed. Nothing is known of its noise then, and the exact sign-flip test
takes the t test's place: five seeds give p = 0.0625 however large the difference is, so
such a recipe needs at least six. One seed that differs in the last digit brings the t test
back, with a very small p: that jump is real ignorance turned into a real estimate of noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from hpcscientist.records.finding import Comparison

CONFIDENCE: Final = 0.95

# Values whose spread is below this share of their size differ by rounding alone: a method
# that ignores its seed. A t test would take the rounding for tiny noise and be certain.
_ROUNDING: Final = 1e-13
_LARGEST: Final = 1e150  # beyond it squares overflow; no metric is that large


def compare(baseline: Mapping[int, float], idea: Mapping[int, float]) -> Comparison:
    """Compare an idea's values by seed with the baseline's; delta is idea minus baseline.

    With at least two seeds in common: a paired t test on those seeds alone (Student 1908),
    which removes what a seed does to both. Else Welch's t test on all values (Welch 1947,
    Biometrika 34). `mean`, `std` (ddof=1), `n` and `baseline_mean` are of the values that
    were compared. Intervals are 95% and two-sided, p-values two-sided.

    With one value on either side there is no interval and no p-value. Without any spread:
    equal means give p = 1 and an interval of no width; a constant nonzero difference has
    no t statistic, so its p-value is the exact one of the permutation test (2^(1-n) for n
    sign flips; Fisher 1935) and it has no interval. Five seeds then give p = 0.0625 at
    best: seeds that change nothing are no replication.

    Raises ValueError if a side is empty or a value is not a finite number.
    """
    for name, values in (("baseline", baseline), ("idea", idea)):
        if not values:
            raise ValueError(f"the {name} has no values to compare")
        if not all(math.isfinite(v) and abs(v) <= _LARGEST for v in values.values()):
            raise ValueError(f"the {name} has a value that is not a finite number")
    shared = sorted(baseline.keys() & idea.keys())
    if len(shared) >= 2:
        return _paired([baseline[s] for s in shared], [idea[s] for s in shared])
    return _welch(sorted(baseline.values()), sorted(idea.values()))


def adjust(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number (Benjamini & Hochberg 1995, JRSS B 57), in order.

    An idea whose adjusted p-value is at most q is found; of all that are found, a share of
    at most q is expected to be false. Raises ValueError for what is no p-value.
    """
    if not all(0.0 <= p <= 1.0 for p in p_values):
        raise ValueError("p-values are between 0 and 1")
    if not p_values:
        return []
    from scipy.stats import false_discovery_control  # noqa: PLC0415  (slow to import)

    return [float(p) for p in false_discovery_control(p_values, method="bh")]


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
        # Welch-Satterthwaite degrees of freedom, in shares so that nothing underflows.
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
    """Return interval and p-value where nothing varies: `exact` if there is a difference."""
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
