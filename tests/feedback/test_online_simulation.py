"""Where it is known what is true: how much of what is found in order is false.

All ideas of a campaign share the seeds of its baseline, so their p-values depend on each other;
the proof of ADDIS takes them to be independent. Each rate is the mean over simulated campaigns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hpcscientist.feedback import statistics
from hpcscientist.feedback.decision import Rule, findings
from hpcscientist.records.findings import Verdict
from hpcscientist.records.trial import Direction, MetricSpec

METRIC = MetricSpec(name="accuracy", direction=Direction.MAXIMIZE)
Q = 0.05


@dataclass(frozen=True)
class World:
    """`better` and `worse` of the ideas lie `size` off, in units of an idea's noise over a seed;
    `baseline` is the noise of the baseline in the same unit.
    """

    ideas: int
    seeds: int
    better: float
    worse: float
    size: float
    baseline: float = 1.0

    def draw(self, campaigns: int) -> tuple[Any, Any]:
        """Values (campaigns, 1 + ideas, seeds), the baseline first; effects (campaigns, ideas)."""
        random = np.random.default_rng(20260701)
        kinds = random.random((campaigns, self.ideas))
        effects = np.where(kinds < self.better, self.size, 0.0)
        effects[(kinds >= self.better) & (kinds < self.better + self.worse)] = -self.size
        values = random.normal(size=(campaigns, self.ideas + 1, self.seeds))
        values[:, 0] *= self.baseline
        values[:, 1:] += effects[:, :, None]
        return values, effects

    def false_share(self, campaigns: int, **how: float) -> float:
        """The false discovery rate of improvements over their one-sided p-values."""
        values, effects = self.draw(campaigns)
        differences = values[:, 1:] - values[:, :1]
        error = differences.std(axis=2, ddof=1) / math.sqrt(self.seeds)
        p_values = stats.t.sf(differences.mean(axis=2) / error, self.seeds - 1)
        shares = []
        for row, effect in zip(p_values.tolist(), effects, strict=True):
            found = np.array(statistics.addis(row, Q, **how)) <= Q  # type: ignore[arg-type]
            shares.append((found & (effect <= 0)).sum() / max(1, found.sum()))
        return float(np.mean(shares))


NOTHING = World(ideas=200, seeds=5, better=0, worse=0, size=0)
FEW = World(ideas=200, seeds=5, better=0.02, worse=0, size=4, baseline=2)
MANY = World(ideas=200, seeds=5, better=0.1, worse=0.3, size=4)
LONG = World(ideas=200, seeds=10, better=0.05, worse=0, size=2, baseline=2)


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(NOTHING, id="no"),
        pytest.param(FEW, id="few", marks=pytest.mark.full),
        pytest.param(MANY, id="many"),
        pytest.param(LONG, id="long", marks=pytest.mark.full),
    ],
)
def test_false_findings_stay_within_q(world: World) -> None:
    assert world.false_share(4000) <= Q


def test_why_it_is_not_saffron() -> None:
    assert NOTHING.false_share(2000, candidate=0.5, discard=1.0) > Q
    assert LONG.false_share(500, candidate=0.5, discard=1.0) > 2 * Q


@pytest.mark.parametrize(
    "world",
    [
        World(ideas=40, seeds=5, better=0, worse=0, size=0),
        World(ideas=40, seeds=5, better=0.2, worse=0.2, size=5),
    ],
    ids=["nothing", "mixed"],
)
def test_the_verdicts_of_a_campaign_stay_within_q(world: World) -> None:
    """The same through `findings`: improvements and declines each, at twice the rate."""
    campaigns, rule = 300, Rule(q=0.1, control="online")
    values, effects = world.draw(campaigns)
    shares: dict[Verdict, list[float]] = {Verdict.IMPROVEMENT: [], Verdict.DECLINE: []}
    found = 0
    for campaign, effect in zip(values.tolist(), effects, strict=True):
        baseline = dict(enumerate(campaign[0]))
        ideas = {str(i): dict(enumerate(side)) for i, side in enumerate(campaign[1:])}
        judged = findings(baseline, ideas, METRIC, rule)
        for verdict, sign in ((Verdict.IMPROVEMENT, 1), (Verdict.DECLINE, -1)):
            told = [effect[int(i)] * sign for i, f in judged.items() if f.verdict is verdict]
            shares[verdict].append(sum(e <= 0 for e in told) / max(1, len(told)))
            found += len(told)
    assert all(np.mean(side) <= rule.q for side in shares.values())
    if world.better:
        assert found / campaigns > 0.6 * 0.4 * world.ideas  # and most of what is there is found
