"""Where no idea changes anything, few campaigns find something: at most a share of q."""

from __future__ import annotations

import numpy as np
import pytest

from hpcscientist.feedback.decision import findings
from hpcscientist.records.finding import Verdict
from hpcscientist.records.trial import Direction, MetricSpec

METRIC = MetricSpec(name="accuracy", direction=Direction.MAXIMIZE)
CAMPAIGNS, IDEAS, SEEDS = 2000, 50, 5


def share_of_campaigns_with_an_improvement(q: float, seed_effect: float, shared: bool) -> float:
    random = np.random.default_rng(20240501)
    noise = random.normal(size=(CAMPAIGNS, IDEAS + 1, SEEDS))
    noise += seed_effect * random.normal(size=(CAMPAIGNS, 1, SEEDS))
    first = 0 if shared else SEEDS
    found = 0
    for campaign in noise.tolist():
        baseline = dict(enumerate(campaign[0]))
        ideas = {f"i{k}": dict(enumerate(side, first)) for k, side in enumerate(campaign[1:])}
        verdicts = (f.verdict for f in findings(baseline, ideas, METRIC, q).values())
        found += Verdict.IMPROVEMENT in verdicts
    return found / CAMPAIGNS


@pytest.mark.parametrize(("q", "seed_effect", "shared"), [(0.1, 1.0, True), (0.1, 0.0, False)])
def test_false_findings_stay_within_q(q: float, seed_effect: float, shared: bool) -> None:
    assert share_of_campaigns_with_an_improvement(q, seed_effect, shared) <= q
