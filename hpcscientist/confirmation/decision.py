"""Confirms an improvement: an idea against the baseline with fresh seeds on the test split.

The search picks what looks best on the validation split, so its picks look better than they are.
Neither that choice nor anything the candidate could learn from its scores has touched the test
inputs or these seeds. The test is one-sided, because only "better" is claimed, and each idea is
tested once.

A metric with a tolerance is tested for "is not worse by more than that" (non-inferiority). An idea
is confirmed if it passes all tests at level q. So q bounds the chance of a false confirmation,
without a correction (intersection-union test: Berger 1982, Technometrics 24).

A confirmed idea was found before, at a false discovery rate of q. Of ideas without an effect, at
most a share q passes this test, however many are tested. Seeds vary the training, not the inputs: a
difference smaller than another sample of test inputs would cause is real for these inputs only. A
recipe's `minimum_effect` sets how large a finding must be before it comes here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hpcscientist.feedback.decision import Limited, exceeded, gain
from hpcscientist.feedback.statistics import compare
from hpcscientist.records.findings import Comparison, Confirmation, Verdict
from hpcscientist.records.objective import better_by
from hpcscientist.records.trial import Direction, MetricSpec


def confirm(
    baseline_test: Mapping[int, float],
    idea_test: Mapping[int, float],
    metric: MetricSpec,
    q: float,
    limits: Sequence[Limited] = (),
) -> Confirmation:
    """Judge an idea by its and the baseline's values by seed on the test split.

    The idea is confirmed if it is better, the one-sided p-value of the comparison is at most `q`,
    and it is within each tolerance of `limits`. Seeds in common are paired, as in the search.

    Raises ValueError unless 0 < q < 1, or if a value is not a finite number.
    """
    if not 0 < q < 1:
        raise ValueError("the level q lies between 0 and 1, both excluded")
    if not baseline_test or not idea_test:
        return refuse(f"{'the idea' if baseline_test else 'the baseline'} has no test score")
    comparison = compare(baseline_test, idea_test)
    better, p = gain(comparison, metric), one_sided(comparison, metric)
    reason = None
    if p is None:
        reason = "too few seeds were scored on the test split to tell"
    elif better <= 0:
        reason = "is no better than the baseline on the test split"
    elif p > q:
        reason = f"its gain on the test split may be chance (one-sided p {p:.2g} > {q:g})"
    else:
        reason = next(filter(None, (over_tolerance(limit, q) for limit in limits)), None)
    return Confirmation(
        comparison=comparison, p_one_sided=p, confirmed=reason is None, reason=reason
    )


def over_tolerance(limit: Limited, q: float) -> str | None:
    """Return why an idea is not shown to be within a tolerance; None if it is.

    If all seeds differ by the same amount, that amount is compared with the tolerance. Raises
    ValueError as `judge` does.
    """
    metric, tolerance = limit.metric, limit.metric.tolerance
    assert tolerance is not None
    if not limit.baseline or not limit.idea:
        return f"has no {metric.name} on the test split, whose tolerance is {tolerance:g}"
    found = compare(limit.baseline, limit.idea)
    worse = -gain(found, metric)
    # A constant difference has no interval, or one of no width.
    if found.p_value is not None and found.ci_low == found.ci_high:
        if worse <= tolerance:
            return None
        return f"{metric.name} is worse by {worse:.3g} on the test split, tolerance {tolerance:g}"
    allowed = better_by(tolerance, 0.0, metric)
    p = one_sided(
        compare(limit.baseline, {seed: v + allowed for seed, v in limit.idea.items()}), metric
    )
    if p is not None and p <= q:
        return None
    chance = "too few seeds to tell" if p is None else f"one-sided p {p:.2g} > {q:g}"
    return (
        f"{metric.name} may be worse by more than its tolerance {tolerance:g} on the test split "
        f"({worse:+.3g} measured, {chance})"
    )


def refuse(reason: str) -> Confirmation:
    """Return the verdict "not confirmed" for an idea without anything to compare."""
    return Confirmation(comparison=None, p_one_sided=None, confirmed=False, reason=reason)


def one_sided(comparison: Comparison, metric: MetricSpec) -> float | None:
    """Return the p-value of "the idea is better"; None if the comparison has none.

    It is half the two-sided p-value if the idea is better: Student's t and the sign-flip test are
    symmetric. No difference at all has p = 1.
    """
    if comparison.p_value is None:
        return None
    better = gain(comparison, metric)
    if better == 0:
        return 1.0
    return comparison.p_value / 2 if better > 0 else 1 - comparison.p_value / 2


# Decides whether a claim holds when its trials were rerun and the bits differ.
#
# There are two questions. First: does the rerun's noise explain the difference from the
# recorded effect? The rerun has the same seeds, so deterministic code gives no difference at
# all. With other code, a rerun is another sample of the noise between seeds. Its effect then
# lies, with a probability of 95 %, in the prediction interval of the recorded one (Patil, Peng
# & Leek 2016, Perspectives on Psychological Science 11, 539-544). It does not lie as often in
# the recorded confidence interval, which the mean of an equally large honest rerun misses in 17
# of 100 cases (Cumming & Maillardet 2006, Psychological Methods 11, 217-227). Their interval is
# for large samples; for few seeds it is Welch's interval of the difference of two means. Runs
# that share their seeds differ less than that, so the probability is a lower bound. A
# difference within the recipe's minimum effect counts as none.
#
# Second: does the rerun show the finding by itself? An improvement or a decline must pass a
# one-sided test at q. For "no change" this is not required: a rerun that is not significant is
# no evidence against it.


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
