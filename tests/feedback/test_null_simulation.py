"""Where no idea changes anything, few campaigns find something: at most a share of q."""

from __future__ import annotations

import numpy as np
import pytest

from hpcscientist.feedback.decision import Rule, findings
from hpcscientist.feedback.statistics import compare
from hpcscientist.records.findings import Verdict
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
        verdicts = (f.verdict for f in findings(baseline, ideas, METRIC, Rule(q=q)).values())
        found += Verdict.IMPROVEMENT in verdicts
    return found / CAMPAIGNS


@pytest.mark.parametrize("n", [5, pytest.param(10, marks=pytest.mark.full)])
@pytest.mark.parametrize("noise", ["ties", "coarse", "heavy"])
def test_p_values_are_not_too_small_far_out_in_the_tail(noise: str, n: int) -> None:
    random = np.random.default_rng(20260703)
    many = 20_000
    values = {
        "ties": lambda: random.binomial(400, 0.995, size=(2, many, n)) / 400,
        "coarse": lambda: random.binomial(400, 0.98, size=(2, many, n)) / 400,
        "heavy": lambda: np.exp(random.normal(size=(2, many, n))),
    }[noise]()
    compared = (
        compare(dict(enumerate(a)), dict(enumerate(b)))
        for a, b in zip(values[0].tolist(), values[1].tolist(), strict=True)
    )
    p_values = np.array([c.p_value for c in compared])
    for level in (0.05, 0.01, 0.002):
        share = float(np.mean(p_values <= level))
        assert share <= level + 3 * (level / many) ** 0.5


@pytest.mark.parametrize(
    ("q", "seed_effect", "shared"),
    [(0.1, 1.0, True), pytest.param(0.1, 0.0, False, marks=pytest.mark.full)],
)
def test_false_findings_stay_within_q(q: float, seed_effect: float, shared: bool) -> None:
    assert share_of_campaigns_with_an_improvement(q, seed_effect, shared) <= q
