"""From comparisons to findings: improvement, maintenance or decline against the baseline.

A verdict takes all ideas of a campaign together, so it is derived when it is read and
never stored: one more idea may change the others' adjusted p-values.
"""

from __future__ import annotations

from collections.abc import Mapping

from hpcscientist.feedback.statistics import adjust, compare
from hpcscientist.records.finding import Comparison, Finding, Verdict
from hpcscientist.records.trial import Direction, MetricSpec


def findings(
    baseline: Mapping[int, float],
    ideas: Mapping[str, Mapping[int, float]],
    metric: MetricSpec,
    q: float,
) -> dict[str, Finding]:
    """Judge all ideas of a campaign by one metric's values by seed.

    An idea is an improvement when its p-value, adjusted over all the ideas given, is at
    most `q` and it is better than the baseline by more than the metric's minimum effect;
    a decline is the mirror image; else maintenance. The verdict is None where too few
    seeds were scored for a p-value. Ideas without values, or any idea while the baseline
    has none, have no finding.

    Raises ValueError unless 0 < q < 1, or if a value is not a finite number.
    """
    if not 0 < q < 1:
        raise ValueError("the false discovery rate q lies between 0 and 1, both excluded")
    if not baseline:
        return {}
    compared = {idea: compare(baseline, values) for idea, values in ideas.items() if values}
    raw = {idea: c.p_value for idea, c in compared.items() if c.p_value is not None}
    adjusted = dict(zip(raw, adjust(list(raw.values())), strict=True))
    return {
        idea: Finding(
            comparison=comparison,
            p_adjusted=adjusted.get(idea),
            verdict=_verdict(comparison, adjusted.get(idea), metric, q),
        )
        for idea, comparison in compared.items()
    }


def gain(comparison: Comparison, metric: MetricSpec) -> float:
    """Return by how much the idea is better than the baseline; negative: worse."""
    better = comparison.delta if metric.direction is Direction.MAXIMIZE else -comparison.delta
    return better + 0.0  # no negative zero


def _verdict(
    comparison: Comparison, p_adjusted: float | None, metric: MetricSpec, q: float
) -> Verdict | None:
    if p_adjusted is None:
        return None
    better = gain(comparison, metric)
    if p_adjusted > q or abs(better) <= metric.minimum_effect:
        return Verdict.MAINTENANCE
    return Verdict.IMPROVEMENT if better > 0 else Verdict.DECLINE
