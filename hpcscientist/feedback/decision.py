"""From comparisons to findings: improvement, maintenance or decline against the baseline.

A verdict depends on several ideas of a campaign together, so it is derived when it is read and
never stored.

Improvements are one family of one-sided hypotheses ("is no better"), declines another, and the
false discovery rate of each family is held to q. The bound for a whole family does not hold for a
part of its findings (Finner & Roters 2001, Biometrical Journal 43): in one two-sided family, many
true declines would let more than a share q of the improvements be false. For the same reason, an
effect within the recipe's minimum counts as no evidence (its p-value as 1).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from hpcscientist.config.settings import LoopSettings
from hpcscientist.feedback import statistics
from hpcscientist.feedback.statistics import benjamini_hochberg, compare
from hpcscientist.records.findings import Comparison, Finding, Verdict
from hpcscientist.records.objective import better_by
from hpcscientist.records.trial import MetricSpec


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule by which ideas are judged.

    `decision` fdr bounds the share of false findings by `q`; point is Dolphin's rule (arXiv
    2501.03916, 3.3): any better mean is an improvement. `control` batch judges all given ideas
    together (Benjamini & Hochberg 1995, JRSS B 57), so more ideas may change an idea's verdict.
    `control` online judges them in order, so later ideas change no verdict (`statistics.addis`).
    `control` two-sided judges all together in one family of two-sided p-values, as the first
    release did.

    Raises ValueError unless 0 < q < 1.
    """

    q: float
    decision: Literal["fdr", "point"] = "fdr"
    control: Literal["batch", "online", "two-sided"] = "batch"

    def __post_init__(self) -> None:
        if not 0 < self.q < 1:
            raise ValueError("the false discovery rate q lies between 0 and 1, both excluded")

    @classmethod
    def of(cls, loop: LoopSettings, rounds: int) -> Rule:
        """Return the rule of a campaign with `rounds` rounds, 0 for steady state."""
        if loop.error_control != "auto":
            return cls(q=loop.q, decision=loop.decision, control=loop.error_control)
        return cls(q=loop.q, decision=loop.decision, control="batch" if rounds else "online")

    def __str__(self) -> str:
        """Return the rule in words, for a header."""
        if self.decision == "point":
            return "any better mean (point), no error controlled"
        return f"FDR {self.q:g}, {self.control}"


@dataclass(frozen=True, slots=True)
class KnownOfIdeas:
    """What else is known of ideas than their values, by idea.

    `factors`, at least 1, multiply the p-values of ideas that were looked at repeatedly. `planned`
    is how many seeds an idea may have; 0: none were planned. `left` are ideas that were left before
    they had any value, because others did better below the full budget. `exceeded` says which
    tolerance of another metric an idea exceeds.
    """

    factors: Mapping[str, float] = field(default_factory=dict)
    planned: int = 0
    left: Collection[str] = ()
    exceeded: Mapping[str, str] = field(default_factory=dict)


NOTHING_ELSE = KnownOfIdeas()


def findings(
    baseline: Mapping[int, float],
    ideas: Mapping[str, Mapping[int, float] | None],
    metric: MetricSpec,
    rule: Rule,
    known: KnownOfIdeas = NOTHING_ELSE,
) -> dict[str, Finding]:
    """Judge ideas by one metric's values by seed; `ideas` are in the order of their numbers.

    An idea is an improvement if its one-sided p-value, adjusted by the rule, is at most q and it is
    better than the baseline by more than the metric's minimum effect. A decline is the mirror
    image, and every other idea is maintenance. `p_adjusted` is the p-value in the direction of the
    effect, or the two-sided one under a two-sided rule.

    The verdict is None, with a `reason`, in three cases. Too few seeds were scored for a p-value.
    Or fewer than the planned seeds were scored, nothing was found, and the interval includes gains
    beyond the minimum effect. Or, with online control, an earlier idea has not ended yet (its
    values are None): the levels depend on the order of numbers, and must not depend on which idea
    ends first.

    Ideas that were given up have no finding, and count as p = 1 among the others. Ideas that exceed
    a tolerance are no improvement, count as p = 1 among these, and `reason` says so.

    Ideas without values (empty or None), or any idea while the baseline has none, have no finding.
    Raises ValueError if a value is not a finite number, or a factor is below 1.
    """
    if not baseline:
        return {}
    compared = {idea: compare(baseline, values) for idea, values in ideas.items() if values}
    exceeded = {
        idea: why for idea, why in known.exceeded.items() if gain(compared[idea], metric) > 0
    }
    if rule.decision == "point":
        return {
            idea: Finding(
                comparison=comparison,
                p_adjusted=None,
                verdict=Verdict.MAINTENANCE if idea in exceeded else _sign(comparison, metric),
                reason=exceeded.get(idea),
            )
            for idea, comparison in compared.items()
        }
    awaited = _awaited(ideas) if rule.control == "online" else {}
    # An idea given up after a single seed counts as p = 1: others were chosen by that seed.
    counts = {i for i, c in compared.items() if c.p_value is not None or c.n < known.planned}
    counts |= set(known.left)
    tested = {i: compared.get(i) for i in ideas if i in counts and i not in awaited}
    adjusted = _adjust(tested, metric, rule, known.factors, exceeded)
    return {
        idea: Finding(
            comparison=comparison,
            p_adjusted=adjusted.get(idea) if comparison.p_value is not None else None,
            verdict=None if reason else _verdict(comparison, adjusted[idea], metric, rule.q),
            reason=reason or exceeded.get(idea),
        )
        for idea, comparison in compared.items()
        for reason in [
            f"waits for {awaited[idea]}"
            if idea in awaited
            else _undecided(comparison, adjusted.get(idea, 1.0), metric, rule.q, known.planned)
        ]
    }


@dataclass(frozen=True, slots=True)
class Limited:
    """Values by seed of a metric with a tolerance."""

    metric: MetricSpec
    baseline: Mapping[int, float]
    idea: Mapping[int, float]


def exceeded(limits: Iterable[Limited]) -> str:
    """Return which tolerance an idea exceeds on average, "" if none. Limits without values pass."""
    for limit in limits:
        metric, tolerance = limit.metric, limit.metric.tolerance
        assert tolerance is not None
        if limit.baseline and limit.idea:
            worse = -gain(compare(limit.baseline, limit.idea), metric)
            if worse > tolerance:
                return f"{metric.name} is worse by {worse:.3g}, tolerance {tolerance:g}"
    return ""


def one_sided(comparison: Comparison, metric: MetricSpec) -> tuple[float, float]:
    """Return the p-values of "is no better" and "is no worse".

    In the direction of the effect it is half the two-sided p-value, because Student's t and the
    sign-flip test are symmetric. Both are 1 if there is no difference at all, or too few seeds.
    """
    better = gain(comparison, metric)
    if comparison.p_value is None or better == 0:
        return 1.0, 1.0
    half = comparison.p_value / 2
    return (half, 1 - half) if better > 0 else (1 - half, half)


def gain(comparison: Comparison, metric: MetricSpec) -> float:
    """Return by how much the idea is better than the baseline; negative if worse."""
    return better_by(comparison.delta, 0.0, metric)


def _awaited(ideas: Mapping[str, Mapping[int, float] | None]) -> dict[str, str]:
    """Return, for each idea after the first unfinished one, that unfinished idea."""
    awaited: dict[str, str] = {}
    first: str | None = None
    for idea, values in ideas.items():
        if first is not None:
            awaited[idea] = first
        elif values is None:
            first = idea
    return awaited


def _adjust(
    tested: Mapping[str, Comparison | None],
    metric: MetricSpec,
    rule: Rule,
    factors: Mapping[str, float],
    exceeded: Collection[str],
) -> dict[str, float]:
    """Return each idea's adjusted p-value in the direction of its effect; none for None.

    Ideas in `exceeded`, which are better, have p = 1.
    """
    if not all(factor >= 1 for factor in factors.values()):
        raise ValueError("factors of p-values are at least 1")
    if rule.control == "two-sided":
        both = [
            1.0
            if c is None or c.p_value is None or idea in exceeded
            else min(1.0, c.p_value * factors.get(idea, 1.0))
            for idea, c in tested.items()
        ]
        return dict(zip(tested, benjamini_hochberg(both), strict=True))
    found: dict[str, float] = {}
    for side, sign in ((0, 1), (1, -1)):
        p_values: list[float] = []
        disqualified: list[bool] = []
        for idea, comparison in tested.items():
            p = 1.0 if comparison is None else one_sided(comparison, metric)[side]
            # For an idea given up below the full budget, the direction of the effect is unknown.
            effect = math.inf if comparison is None else sign * gain(comparison, metric)
            # ADDIS discards p-values above TAU, where those of true hypotheses are many. With looks
            # they are not: most ideas that go on have small ones. So an idea that was better when
            # it was given up is costly, whatever factor its look has (`bench null`).
            most = statistics.TAU if effect > 0 and rule.control == "online" else 1.0
            p_values.append(min(most, p * factors.get(idea, 1.0)))
            is_over = sign > 0 and idea in exceeded
            disqualified.append(effect <= metric.minimum_effect or is_over)
        if rule.control == "online":
            family = statistics.addis(p_values, rule.q, disqualified)
        else:
            family = benjamini_hochberg(
                [1.0 if b else p for p, b in zip(p_values, disqualified, strict=True)]
            )
        found |= {
            idea: p
            for (idea, comparison), p in zip(tested.items(), family, strict=True)
            if comparison is not None
            if sign * gain(comparison, metric) > 0 or idea not in found
        }
    return found


def _undecided(
    comparison: Comparison, p_adjusted: float, metric: MetricSpec, q: float, planned: int
) -> str | None:
    """Return why an idea cannot be judged yet; None if it can be."""
    if comparison.p_value is None:
        return "too few seeds for a p-value"
    if p_adjusted <= q or comparison.n >= planned:
        return None
    if comparison.ci_low is None or comparison.ci_high is None:
        most = abs(gain(comparison, metric))  # the difference is constant
    else:
        most = max(better_by(end, 0.0, metric) for end in (comparison.ci_low, comparison.ci_high))
    if most <= metric.minimum_effect:
        return None
    return f"undecided after {comparison.n} of {planned} seeds"


def _verdict(comparison: Comparison, p_adjusted: float, metric: MetricSpec, q: float) -> Verdict:
    is_small = abs(gain(comparison, metric)) <= metric.minimum_effect
    return Verdict.MAINTENANCE if is_small or p_adjusted > q else _sign(comparison, metric)


def _sign(comparison: Comparison, metric: MetricSpec) -> Verdict:
    better = gain(comparison, metric)
    if better == 0:
        return Verdict.MAINTENANCE
    return Verdict.IMPROVEMENT if better > 0 else Verdict.DECLINE
