"""Decides whether a claim holds when its trials were rerun and the bits differ.

There are two questions. First: does the rerun's noise explain the difference from the recorded
effect? The rerun has the same seeds, so deterministic code gives no difference at all. With other
code, a rerun is another sample of the noise between seeds. Its effect then lies, with a probability
of 95 %, in the prediction interval of the recorded one (Patil, Peng & Leek 2016, Perspectives on
Psychological Science 11, 539-544). It does not lie as often in the recorded confidence interval,
which the mean of an equally large honest rerun misses in 17 of 100 cases (Cumming & Maillardet
2006, Psychological Methods 11, 217-227). Their interval is for large samples; for few seeds it is
Welch's interval of the difference of two means. Runs that share their seeds differ less than that,
so the probability is a lower bound. A difference within the recipe's minimum effect counts as none.

Second: does the rerun show the finding by itself? An improvement or a decline must pass a one-sided
test at q. For "no change" this is not required: a rerun that is not significant is no evidence
against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hpcscientist.feedback.confirmation import one_sided
from hpcscientist.feedback.decision import Limited, exceeded, gain
from hpcscientist.feedback.statistics import compare
from hpcscientist.records.findings import Comparison, Verdict
from hpcscientist.records.trial import Direction, MetricSpec

_ROUNDING = 1e-9  # of the larger value: a scorer's sums in another order


@dataclass(frozen=True, slots=True)
class Agreement:
    """The rerun's effect minus the recorded one, and the interval that chance explains.

    `low` and `high` are None if there are too few seeds, or if seeds change nothing; then only a
    difference within the minimum effect counts as none. `too_few`: with one seed there is no noise
    to compare a difference with, so one beyond the minimum effect cannot be told from chance.
    """

    difference: float
    low: float | None
    high: float | None
    agrees: bool
    too_few: bool = False


def is_same(value: float, other: float) -> bool:
    """Return whether two values of a metric differ by rounding at most."""
    return abs(value - other) <= _ROUNDING * max(abs(value), abs(other))


def agreement(
    recorded: Mapping[int, float], again: Mapping[int, float], minimum_effect: float
) -> Agreement:
    """Compare effects (idea minus baseline) by seed, as recorded and as rerun.

    Raises ValueError if a side is empty or holds a value that is no finite number.
    """
    # Disjoint keys, so that `compare` treats these as two samples, not as pairs.
    found = compare(
        {2 * i: recorded[seed] for i, seed in enumerate(sorted(recorded))},
        {2 * i + 1: again[seed] for i, seed in enumerate(sorted(again))},
    )
    explained = found.ci_low is not None and found.ci_high is not None
    explained = explained and (found.ci_low or 0.0) <= 0.0 <= (found.ci_high or 0.0)
    small = abs(found.delta) <= max(minimum_effect, _ROUNDING * abs(found.baseline_mean))
    agrees, few = explained or small, min(len(recorded), len(again)) < 2
    return Agreement(found.delta, found.ci_low, found.ci_high, agrees, few and not agrees)


def shows(
    comparison: Comparison,
    finding: Verdict,
    metric: MetricSpec,
    q: float | None,
    limits: Iterable[Limited] = (),
) -> bool:
    """Return whether a rerun's comparison by itself shows an improvement or a decline again.

    `q` is the level of its one-sided test; None means that the campaign accepted any difference of
    means. Any comparison shows "no change". An improvement exceeds no tolerance of `limits`.
    """
    if finding is Verdict.MAINTENANCE:
        return True
    if finding is Verdict.IMPROVEMENT and exceeded(limits):
        return False
    if finding is Verdict.DECLINE:
        metric = _turned(metric)
    better = gain(comparison, metric)
    if q is None:
        return better > 0
    p = one_sided(comparison, metric)
    return better > metric.minimum_effect and p is not None and p <= q


def _turned(metric: MetricSpec) -> MetricSpec:
    """Return the metric with its direction reversed."""
    up = metric.direction is Direction.MAXIMIZE
    direction = Direction.MINIMIZE if up else Direction.MAXIMIZE
    return metric.model_copy(update={"direction": direction})
