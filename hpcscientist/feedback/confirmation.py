"""Confirms an improvement: an idea against the baseline with fresh seeds on the test split.

The search picks what looks best on the validation split, so its picks look better than they are.
Neither that choice nor anything the candidate could learn from its scores has touched the test
inputs or these seeds. The test is one-sided, because only "better" is claimed, and each idea is
tested once.

A confirmed idea was found before, at a false discovery rate of q. Of ideas without an effect, at
most a share q passes this test, however many are tested. Seeds vary the training, not the inputs: a
difference smaller than another sample of test inputs would cause is real for these inputs only. A
recipe's `minimum_effect` sets how large an effect must be for a claim.
"""

from __future__ import annotations

from collections.abc import Mapping

from hpcscientist.feedback.decision import gain
from hpcscientist.feedback.statistics import compare
from hpcscientist.records.findings import Comparison, Confirmation
from hpcscientist.records.trial import MetricSpec


def judge(
    baseline_test: Mapping[int, float],
    idea_test: Mapping[int, float],
    metric: MetricSpec,
    q: float,
) -> Confirmation:
    """Judge an idea by its and the baseline's values by seed on the test split.

    The idea is confirmed if it is better and the one-sided p-value of the comparison is at most
    `q`. Seeds in common are paired, as in the search.

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
    return Confirmation(
        comparison=comparison, p_one_sided=p, confirmed=reason is None, reason=reason
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
