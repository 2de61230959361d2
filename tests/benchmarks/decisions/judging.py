"""The rules that are compared, each as a campaign applies it: search, then confirmation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from benchmarks.decisions.world import Campaign, Split
from hpcscientist.confirmation import decision
from hpcscientist.feedback.decision import KnownOfIdeas, Rule, findings
from hpcscientist.records.findings import Finding, Verdict
from hpcscientist.records.trial import Direction, MetricSpec

METRIC: Final = MetricSpec(name="score", direction=Direction.MAXIMIZE)
Name = Literal["batch", "online", "point"]
OURS: Final[tuple[Name, ...]] = ("batch", "online")
POINT: Final[Name] = "point"
RULES: Final = (*OURS, POINT)


@dataclass(frozen=True, slots=True)
class Claim:
    """An idea of which the search says that it is better, or worse, than the baseline.

    `effect` is the true one, `found` the difference on the validation split. Of a claimed
    improvement `tested` is the difference on the test split, and `confirmed` what came of it.
    """

    effect: float
    found: float
    improvement: bool
    tested: float | None = None
    confirmed: bool = False


def search(
    split: Split,
    name: Name,
    q: float,
    factors: Mapping[str, float] | None = None,
    planned: int = 0,
) -> dict[str, Finding]:
    """Judge the ideas of a campaign by their values on the validation split, in order.

    `factors` and `planned` as of `findings`: where ideas were looked at repeatedly.
    """
    rule = Rule(q, decision="point") if name == "point" else Rule(q, control=name)
    return findings(split.baseline, split.ideas, METRIC, rule, KnownOfIdeas(factors or {}, planned))


def claims(campaign: Campaign, found: Mapping[str, Finding], q: float) -> list[Claim]:
    """Return what a search claims, each improvement with its confirmation at level `q`."""
    made = []
    for idea, finding in found.items():
        if finding.verdict not in (Verdict.IMPROVEMENT, Verdict.DECLINE):
            continue
        true, delta = campaign.effects[idea], finding.comparison.delta
        if finding.verdict is Verdict.DECLINE:
            made.append(Claim(true, delta, improvement=False))
            continue
        test = campaign.test
        judged = decision.confirm(test.baseline, test.ideas[idea], METRIC, q)
        tested = judged.comparison.delta if judged.comparison else None
        made.append(Claim(true, delta, True, tested, judged.confirmed))
    return made
