"""Verdicts over all ideas of a campaign."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.feedback.decision import findings, gain
from hpcscientist.records.finding import Verdict
from hpcscientist.records.trial import Direction, MetricSpec

UP = MetricSpec(name="accuracy", direction=Direction.MAXIMIZE)
DOWN = MetricSpec(name="loss", direction=Direction.MINIMIZE)

values = st.floats(-100, 100).map(lambda v: round(v, 3))
sides = st.dictionaries(st.integers(0, 5), values, min_size=1, max_size=5)
campaigns = st.dictionaries(st.sampled_from("abcdefgh"), sides, max_size=8)

BASE = {0: 0.50, 1: 0.51, 2: 0.49, 3: 0.50, 4: 0.52}


def shifted(by: float) -> dict[int, float]:
    wobble = (0.001, -0.001, 0.002, 0.0, -0.002)
    return {seed: value + by + wobble[seed] for seed, value in BASE.items()}


def verdict(idea: dict[int, float], metric: MetricSpec) -> Verdict | None:
    return findings(BASE, {"x": idea}, metric, 0.05)["x"].verdict


def test_up_is_better_only_where_the_metric_says_so() -> None:
    # Dolphin took higher for better, whatever the metric.
    assert verdict(shifted(+0.1), UP) is Verdict.IMPROVEMENT
    assert verdict(shifted(-0.1), UP) is Verdict.DECLINE
    assert verdict(shifted(+0.1), DOWN) is Verdict.DECLINE
    assert verdict(shifted(-0.1), DOWN) is Verdict.IMPROVEMENT
    assert verdict(shifted(0.0), UP) is Verdict.MAINTENANCE


@pytest.mark.parametrize("metric", [UP, DOWN])
def test_an_effect_within_the_minimum_is_maintenance(metric: MetricSpec) -> None:
    metric = metric.model_copy(update={"minimum_effect": 0.2})
    for by in (0.1, -0.1):
        finding = findings(BASE, {"x": shifted(by)}, metric, 0.05)["x"]
        assert finding.p_adjusted is not None
        assert finding.p_adjusted < 0.05
        assert finding.verdict is Verdict.MAINTENANCE


def test_a_single_seed_gives_no_verdict_and_does_not_count_among_the_tests() -> None:
    # The AI Scientist compares single seeds.
    found = findings(BASE, {"one": {0: 9.0}, "many": shifted(0.1)}, UP, 0.05)
    assert found["one"].verdict is None
    assert found["one"].p_adjusted is None
    assert found["many"].p_adjusted == found["many"].comparison.p_value


def test_other_metrics_need_not_rise() -> None:
    # Dolphin wanted every mean to rise, the epoch counter included: here one metric decides,
    # and an idea is judged by that metric's values alone.
    loss = dict.fromkeys(BASE, 1.0)
    assert verdict(shifted(+0.1), UP) is Verdict.IMPROVEMENT
    assert findings(loss, {"x": loss}, DOWN, 0.05)["x"].verdict is Verdict.MAINTENANCE


def test_ideas_without_values_have_no_finding() -> None:
    assert findings(BASE, {"failed": {}, "x": shifted(0.1)}, UP, 0.05).keys() == {"x"}
    assert findings({}, {"x": shifted(0.1)}, UP, 0.05) == {}
    assert findings(BASE, {}, UP, 0.05) == {}


@pytest.mark.parametrize("q", [0.0, 1.0, -1.0, float("nan")])
def test_q_is_a_rate(q: float) -> None:
    with pytest.raises(ValueError, match="false discovery rate"):
        findings(BASE, {}, UP, q)


def test_more_ideas_ask_more_of_each() -> None:
    weak = {0: 0.53, 1: 0.52, 2: 0.52, 3: 0.51, 4: 0.56}
    alone = findings(BASE, {"weak": weak}, UP, 0.05)["weak"]
    assert alone.verdict is Verdict.IMPROVEMENT
    noise = {f"n{i}": {s: BASE[(s + i) % 5] for s in BASE} for i in range(1, 5)}
    among = findings(BASE, {"weak": weak, **noise}, UP, 0.05)["weak"]
    assert among.comparison == alone.comparison
    assert among.verdict is Verdict.MAINTENANCE


@given(sides, campaigns, st.floats(0, 5))
def test_minimising_negated_values_mirrors_nothing_away(
    baseline: dict[int, float], ideas: dict[str, dict[int, float]], least: float
) -> None:
    up = MetricSpec(name="m", direction=Direction.MAXIMIZE, minimum_effect=least)
    down = MetricSpec(name="m", direction=Direction.MINIMIZE, minimum_effect=least)
    plain = findings(baseline, ideas, up, 0.2)
    negated = {idea: {s: -v for s, v in side.items()} for idea, side in ideas.items()}
    mirror = findings({s: -v for s, v in baseline.items()}, negated, down, 0.2)
    assert {i: (f.verdict, f.p_adjusted) for i, f in plain.items()} == {
        i: (f.verdict, f.p_adjusted) for i, f in mirror.items()
    }
    other = findings(baseline, ideas, down, 0.2)
    swap = {Verdict.IMPROVEMENT: Verdict.DECLINE, Verdict.DECLINE: Verdict.IMPROVEMENT}
    assert all(swap.get(f.verdict, f.verdict) == other[i].verdict for i, f in plain.items())


@given(sides, campaigns)
def test_the_order_of_ideas_decides_nothing(
    baseline: dict[int, float], ideas: dict[str, dict[int, float]]
) -> None:
    backwards = dict(reversed(ideas.items()))
    assert findings(baseline, backwards, UP, 0.2) == findings(baseline, ideas, UP, 0.2)


@given(sides, campaigns)
def test_a_verdict_follows_from_its_numbers(
    baseline: dict[int, float], ideas: dict[str, dict[int, float]]
) -> None:
    for finding in findings(baseline, ideas, UP, 0.2).values():
        better = gain(finding.comparison, UP)
        if finding.verdict is Verdict.IMPROVEMENT:
            assert better > 0
        if finding.verdict in (Verdict.IMPROVEMENT, Verdict.DECLINE):
            assert finding.p_adjusted is not None
            assert finding.p_adjusted <= 0.2
