"""Likely causes of an idea's decline or lack of effect, from its measurements.

Each cause is arithmetic on measurements, except the last, which is an analyst's reading and is
quoted as an opinion. A cause is likely, not proven: nothing was varied to test it.
"""

from __future__ import annotations

import math
from typing import Final

from pydantic import Field

from hpcscientist.feedback.decision import gain
from hpcscientist.feedback.selfcheck import smallest_effect
from hpcscientist.feedback.statistics import CONFIDENCE
from hpcscientist.files.text import one_line
from hpcscientist.records.base import Record
from hpcscientist.records.experiment import Symptom
from hpcscientist.records.findings import Comparison, Finding, Verdict
from hpcscientist.records.objective import better_by
from hpcscientist.records.trial import MetricSpec

UNCHANGED: Final = 0.95  # share of the reference's predictions from which an idea hardly acts
_LACKING, _READING = 160, 280  # characters
_MOST: Final = 3

_CURVES: Final[dict[Symptom, str]] = {
    "undertrained": "its learning curve was still falling at the end: undertrained",
    "overfit": "its learning curve fell on training data and rose on held-out data: overfit",
    "diverged": "its learning curve rose, or came to no number: training diverged",
}


class IdeaEvidence(Record):
    """Measurements of a scored idea besides its finding; None and "" mean unknown.

    `pilot` and `reference_pilot` are the metric's values at the pilot budget. `unchanged` is the
    share of predictions that equal the reference's, with the same seed. `curve` is a symptom of its
    learning curve that the reference's does not have. `lacking` names what a reviewer found missing
    in the code, `reading` is an analyst's interpretation of the runs.
    """

    pilot: float | None = None
    reference_pilot: float | None = None
    unchanged: float | None = Field(default=None, ge=0, le=1)
    curve: Symptom | None = None
    lacking: str = ""
    reading: str = ""


NOTHING: Final = IdeaEvidence()


def likely_causes(
    finding: Finding, evidence: IdeaEvidence, metric: MetricSpec, level: float
) -> tuple[str, ...]:
    """Return the likely causes of a decline or of no clear change, the most telling first.

    Returns at most three, and then the analyst's reading. `level` is the campaign's q. Improvements
    and undecided ideas have no causes. A decline without other evidence is explained by its seeds.
    """
    if finding.verdict not in (Verdict.DECLINE, Verdict.MAINTENANCE):
        return ()
    found = []
    if evidence.lacking:
        found.append(f"not all of it was carried out ({one_line(evidence.lacking, _LACKING)})")
    if evidence.unchanged is not None and evidence.unchanged >= UNCHANGED:
        share = math.floor(evidence.unchanged * 1000) / 10  # never rounded up to all of them
        found.append(f"it hardly acts: {share:g}% of its predictions are the reference's")
    if evidence.curve is not None:
        found.append(_CURVES[evidence.curve])
    found += _of_budget(finding, evidence, metric)
    if finding.verdict is Verdict.MAINTENANCE:
        found += _of_noise(finding.comparison, metric, level)
    elif not found:
        found = _of_seeds(finding.comparison, metric)
    told = found[:_MOST]
    if evidence.reading:
        told.append(f'an analyst\'s opinion: "{one_line(evidence.reading, _READING)}"')
    return tuple(told)


def _of_budget(finding: Finding, evidence: IdeaEvidence, metric: MetricSpec) -> list[str]:
    """Return what the pilot shows, which has one seed."""
    if evidence.pilot is None or evidence.reference_pilot is None:
        return []
    early = better_by(evidence.pilot, evidence.reference_pilot, metric)
    if early > metric.minimum_effect:
        return [
            f"better in its pilot ({early:.2g}, one seed) and not at the full budget: it helps "
            "early and loses that later"
        ]
    if early < -metric.minimum_effect and finding.verdict is Verdict.DECLINE:
        return [f"worse already in its pilot (by {-early:.2g}, one seed): not for lack of budget"]
    return []


def _of_seeds(comparison: Comparison, metric: MetricSpec) -> list[str]:
    """Return whether a decline is due to the method or to its instability, from the seeds alone."""
    low, high, worse = comparison.ci_low, comparison.ci_high, -gain(comparison, metric)
    deviation = _deviation(comparison, high - low) if low is not None and high is not None else None
    if deviation is None:
        return []
    if deviation >= worse:
        return [
            f"unstable: what it loses differs from seed to seed by {deviation:.2g}, as much as it "
            f"loses on average ({worse:.2g})"
        ]
    return [
        f"it loses {worse:.2g}, much the same with each seed (these differ by {deviation:.2g}): "
        "the method itself is worse here, not its luck"
    ]


def _of_noise(comparison: Comparison, metric: MetricSpec, level: float) -> list[str]:
    """Return why the seeds show no clear change."""
    low, high, minimum = comparison.ci_low, comparison.ci_high, metric.minimum_effect
    if low is None or high is None or comparison.p_value is None:
        return []
    if minimum and max(abs(low), abs(high)) <= minimum:
        return [f"no effect worth having: all of its interval is within {minimum:g}"]
    if comparison.p_value / 2 <= level:  # one-sided, as ideas are judged
        if abs(gain(comparison, metric)) <= minimum:
            return [f"a real effect, and no larger than the minimum effect of {minimum:g}"]
        return ["clear if it were alone, not among as many ideas as were tried"]
    deviation = _deviation(comparison, high - low)
    smallest = smallest_effect(deviation, comparison.n, level, minimum) if deviation else math.inf
    if abs(comparison.delta) >= smallest:
        return []
    shown = f" (about {smallest:.2g})" if deviation else ""
    return [f"smaller than what {comparison.n} seeds can show{shown}"]


def _deviation(comparison: Comparison, width: float) -> float | None:
    """Return the standard deviation of the differences, from a paired comparison's interval.

    None if the comparison is not paired, has fewer than two seeds, or has no width.
    """
    if not comparison.paired or comparison.n < 2 or not width > 0:
        return None
    from scipy.special import stdtrit  # noqa: PLC0415  (slow to import)

    reach = float(stdtrit(comparison.n - 1, (1 + CONFIDENCE) / 2))
    return width / 2 / reach * math.sqrt(comparison.n)
