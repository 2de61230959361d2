"""Verdicts over all ideas of a campaign."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from hpcscientist.config.settings import LoopSettings
from hpcscientist.feedback.decision import KnownOfIdeas, Rule, findings, gain
from hpcscientist.records.findings import Verdict
from hpcscientist.records.trial import Direction, MetricSpec

UP = MetricSpec(name="accuracy", direction=Direction.MAXIMIZE)
DOWN = MetricSpec(name="loss", direction=Direction.MINIMIZE)

values = st.floats(-100, 100).map(lambda v: round(v, 3))
sides = st.dictionaries(st.integers(0, 5), values, min_size=1, max_size=5)
campaigns = st.dictionaries(st.sampled_from("abcdefgh"), sides, max_size=8)

FDR = Rule(q=0.05)
BASE = {0: 0.50, 1: 0.51, 2: 0.49, 3: 0.50, 4: 0.52}


def shifted(by: float) -> dict[int, float]:
    wobble = (0.001, -0.001, 0.002, 0.0, -0.002)
    return {seed: value + by + wobble[seed] for seed, value in BASE.items()}


def verdict(idea: dict[int, float], metric: MetricSpec) -> Verdict | None:
    return findings(BASE, {"x": idea}, metric, FDR)["x"].verdict


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
        finding = findings(BASE, {"x": shifted(by)}, metric, FDR)["x"]
        assert finding.comparison.p_value is not None
        assert finding.comparison.p_value < 0.05
        assert finding.p_adjusted == 1.0  # counted, and never claimed
        assert finding.verdict is Verdict.MAINTENANCE


def test_a_single_seed_gives_no_verdict_and_does_not_count_among_the_tests() -> None:
    # The AI Scientist compares single seeds.
    found = findings(BASE, {"one": {0: 9.0}, "many": shifted(0.1)}, UP, FDR)
    assert found["one"].verdict is None
    assert found["one"].p_adjusted is None
    assert "p-value" in (found["one"].reason or "")
    assert found["many"].comparison.p_value is not None
    assert found["many"].p_adjusted == found["many"].comparison.p_value / 2


def test_other_metrics_need_not_rise() -> None:
    # Dolphin wanted every mean to rise, the epoch counter included: here one metric decides,
    # and an idea is judged by that metric's values alone.
    loss = dict.fromkeys(BASE, 1.0)
    assert verdict(shifted(+0.1), UP) is Verdict.IMPROVEMENT
    assert findings(loss, {"x": loss}, DOWN, FDR)["x"].verdict is Verdict.MAINTENANCE


def test_ideas_without_values_have_no_finding() -> None:
    assert findings(BASE, {"failed": {}, "x": shifted(0.1)}, UP, FDR).keys() == {"x"}
    assert findings({}, {"x": shifted(0.1)}, UP, FDR) == {}
    assert findings(BASE, {}, UP, FDR) == {}


@pytest.mark.parametrize("q", [0.0, 1.0, -1.0, float("nan")])
def test_q_is_a_rate(q: float) -> None:
    with pytest.raises(ValueError, match="rate q"):
        Rule(q=q)


def test_more_ideas_ask_more_of_each() -> None:
    weak = {0: 0.53, 1: 0.52, 2: 0.52, 3: 0.51, 4: 0.56}
    alone = findings(BASE, {"weak": weak}, UP, FDR)["weak"]
    assert alone.verdict is Verdict.IMPROVEMENT
    noise = {f"n{i}": {s: BASE[(s + i) % 5] for s in BASE} for i in range(1, 8)}
    among = findings(BASE, {"weak": weak, **noise}, UP, FDR)["weak"]
    assert among.comparison == alone.comparison
    assert among.verdict is Verdict.MAINTENANCE


@given(sides, campaigns, st.floats(0, 5))
def test_minimising_negated_values_mirrors_nothing_away(
    baseline: dict[int, float], ideas: dict[str, dict[int, float]], least: float
) -> None:
    up = MetricSpec(name="m", direction=Direction.MAXIMIZE, minimum_effect=least)
    down = MetricSpec(name="m", direction=Direction.MINIMIZE, minimum_effect=least)
    plain = findings(baseline, ideas, up, Rule(q=0.2))
    negated = {idea: {s: -v for s, v in side.items()} for idea, side in ideas.items()}
    mirror = findings({s: -v for s, v in baseline.items()}, negated, down, Rule(q=0.2))
    assert {i: (f.verdict, f.p_adjusted) for i, f in plain.items()} == {
        i: (f.verdict, f.p_adjusted) for i, f in mirror.items()
    }
    other = findings(baseline, ideas, down, Rule(q=0.2))
    swap = {Verdict.IMPROVEMENT: Verdict.DECLINE, Verdict.DECLINE: Verdict.IMPROVEMENT}
    assert all(swap.get(f.verdict, f.verdict) == other[i].verdict for i, f in plain.items())


@given(sides, campaigns)
def test_in_a_batch_the_order_of_ideas_decides_nothing(
    baseline: dict[int, float], ideas: dict[str, dict[int, float]]
) -> None:
    backwards = dict(reversed(ideas.items()))
    assert findings(baseline, backwards, UP, Rule(q=0.2)) == findings(
        baseline, ideas, UP, Rule(q=0.2)
    )


@given(sides, campaigns)
def test_a_verdict_follows_from_its_numbers(
    baseline: dict[int, float], ideas: dict[str, dict[int, float]]
) -> None:
    for finding in findings(baseline, ideas, UP, Rule(q=0.2)).values():
        better = gain(finding.comparison, UP)
        if finding.verdict is Verdict.IMPROVEMENT:
            assert better > 0
        if finding.verdict in (Verdict.IMPROVEMENT, Verdict.DECLINE):
            assert finding.p_adjusted is not None
            assert finding.p_adjusted <= 0.2


ONLINE = Rule(q=0.05, control="online")
POINT = Rule(q=0.05, decision="point")


def weak(by: float) -> dict[int, float]:
    """An effect with p-values that are neither small nor large."""
    wobble = (0.02, -0.02, 0.03, 0.0, -0.03)
    return {seed: value + by + wobble[seed] for seed, value in BASE.items()}


def test_the_rule_follows_from_the_settings() -> None:
    assert Rule.of(LoopSettings(), rounds=0) == ONLINE
    assert Rule.of(LoopSettings(), rounds=3) == FDR
    assert Rule.of(LoopSettings(error_control="batch", q=0.1), rounds=0) == Rule(q=0.1)
    assert Rule.of(LoopSettings(error_control="online"), rounds=3) == ONLINE
    fdr, point = (str(Rule.of(LoopSettings(decision=d), 0)) for d in ("fdr", "point"))
    assert fdr == "FDR 0.05, online"
    assert "(point)" in point


@pytest.mark.parametrize("control", ["batch", "online"])
def test_true_declines_do_not_loosen_the_bound_on_improvements(control: str) -> None:
    rule = Rule(q=0.05, control=control)  # type: ignore[arg-type]
    declines = {f"worse{i}": shifted(-0.1 - 0.01 * i) for i in range(40)}
    alone = findings(BASE, {"x": weak(0.028)}, UP, rule)["x"]
    among = findings(BASE, {**declines, "x": weak(0.028)}, UP, rule)
    assert among["x"].verdict is Verdict.MAINTENANCE
    assert among["x"].p_adjusted is not None
    assert alone.p_adjusted is not None
    assert among["x"].p_adjusted >= alone.p_adjusted
    assert [among[i].verdict for i in declines] == [Verdict.DECLINE] * 40


@given(sides, st.lists(sides, max_size=8), sides, st.floats(0, 5))
def test_online_a_later_idea_changes_no_verdict(
    baseline: dict[int, float], ideas: list[dict[int, float]], more: dict[int, float], least: float
) -> None:
    metric = MetricSpec(name="m", direction=Direction.MAXIMIZE, minimum_effect=least)
    before = {f"idea-{i:04}": values for i, values in enumerate(ideas)}
    first = findings(baseline, before, metric, ONLINE)
    after = findings(baseline, {**before, "last": more}, metric, ONLINE)
    assert {i: after[i] for i in first} == first


@given(sides, st.lists(sides | st.just({}), max_size=8), st.sets(st.integers(0, 7)))
def test_online_verdicts_do_not_depend_on_which_idea_ends_first(
    baseline: dict[int, float], ideas: list[dict[int, float]], running: set[int]
) -> None:
    ended = {str(i): values for i, values in enumerate(ideas)}
    going = {i: None if int(i) in running else values for i, values in ended.items()}
    final = findings(baseline, ended, UP, ONLINE)
    for idea, finding in findings(baseline, going, UP, ONLINE).items():
        assert finding.verdict is None or finding == final[idea]


def test_the_first_release_s_rule_is_one_family_of_two_sided_values() -> None:
    """Twice the one-sided ones, adjusted together; an effect within the minimum counts in it."""
    metric = MetricSpec(name="a", direction=Direction.MAXIMIZE, minimum_effect=0.05)
    baseline = {0: 0.5, 1: 0.52, 2: 0.48}
    ideas = {
        "idea-0001": {0: 0.9, 1: 0.93, 2: 0.885},
        "idea-0002": {0: 0.51, 1: 0.531, 2: 0.49},
        "idea-0003": {0: 0.1, 1: 0.11, 2: 0.085},
    }
    found = findings(baseline, ideas, metric, Rule(q=0.05, control="two-sided"))
    p_values = [finding.comparison.p_value for finding in found.values()]
    assert None not in p_values
    adjusted = false_discovery_control(p_values)
    assert [finding.p_adjusted for finding in found.values()] == pytest.approx(list(adjusted))
    assert [finding.verdict for finding in found.values()] == [
        Verdict.IMPROVEMENT,
        Verdict.MAINTENANCE,
        Verdict.DECLINE,
    ]


def test_an_idea_behind_one_that_has_not_ended_waits() -> None:
    ideas = {"idea-0001": shifted(0.1), "idea-0002": None, "idea-0003": shifted(0.1)}
    found = findings(BASE, ideas, UP, ONLINE)
    assert found["idea-0001"].verdict is Verdict.IMPROVEMENT
    assert "idea-0002" not in found
    assert (found["idea-0003"].verdict, found["idea-0003"].p_adjusted) == (None, None)
    assert found["idea-0003"].reason == "waits for idea-0002"
    assert findings(BASE, ideas, UP, FDR)["idea-0003"].verdict is Verdict.IMPROVEMENT
    failed = findings(BASE, ideas | {"idea-0002": {}}, UP, ONLINE)
    assert failed["idea-0003"].verdict is Verdict.IMPROVEMENT


@pytest.mark.parametrize("rule", [FDR, ONLINE], ids=["batch", "online"])
def test_an_idea_that_was_looked_at_repeatedly_pays_for_it(rule: Rule) -> None:
    plain = findings(BASE, {"x": weak(0.04)}, UP, rule)["x"]
    paid = findings(BASE, {"x": weak(0.04)}, UP, rule, KnownOfIdeas(factors={"x": 2.5}))["x"]
    assert plain.p_adjusted is not None
    assert paid.p_adjusted == pytest.approx(min(1.0, 2.5 * plain.p_adjusted))
    assert paid.comparison == plain.comparison
    with pytest.raises(ValueError, match="at least 1"):
        findings(BASE, {"x": weak(0.04)}, UP, rule, KnownOfIdeas(factors={"x": 0.5}))


def test_an_idea_that_was_left_early_is_costly_online_if_it_was_better() -> None:
    # Were it discarded, levels would hardly fall: of ideas that go on, most have small p-values.
    def last(others: float) -> float:
        ideas = {f"idea-{k:04d}": weak(others) for k in range(1, 11)}
        factors = dict.fromkeys(ideas, 100.0)
        found = findings(BASE, ideas | {"last": weak(0.04)}, UP, ONLINE, KnownOfIdeas(factors))[
            "last"
        ]
        assert found.p_adjusted is not None
        return found.p_adjusted

    assert last(-0.001) == findings(BASE, {"x": weak(0.04)}, UP, ONLINE)["x"].p_adjusted
    assert last(0.001) > 5 * last(-0.001)


def test_an_idea_left_early_is_undecided_unless_a_gain_is_ruled_out() -> None:
    metric = UP.model_copy(update={"minimum_effect": 0.01})
    ideas = {"open": weak(0.005), "closed": shifted(0.0), "found": shifted(0.1), "one": {0: 0.6}}
    found = findings(BASE, ideas, metric, FDR, KnownOfIdeas(planned=10))
    assert {i: f.verdict for i, f in found.items()} == {
        "open": None,
        "closed": Verdict.MAINTENANCE,
        "found": Verdict.IMPROVEMENT,
        "one": None,
    }
    assert found["open"].reason == "undecided after 5 of 10 seeds"
    assert "p-value" in (found["one"].reason or "")
    whole = findings(BASE, ideas, metric, FDR, KnownOfIdeas(planned=5))
    assert whole["open"].verdict is Verdict.MAINTENANCE
    down = metric.model_copy(update={"direction": Direction.MINIMIZE})
    assert findings(BASE, ideas, down, FDR, KnownOfIdeas(planned=10))["open"].verdict is None


def test_ideas_left_after_one_seed_count_among_the_others() -> None:
    # The rest were chosen by that seed: as if only they had been tried would be too bold.
    ones = {f"one{i}": {0: 0.4} for i in range(9)}
    alone = findings(BASE, {"x": weak(0.04)}, UP, FDR, KnownOfIdeas(planned=5))["x"].p_adjusted
    among = findings(BASE, {"x": weak(0.04), **ones}, UP, FDR, KnownOfIdeas(planned=5))[
        "x"
    ].p_adjusted
    assert alone is not None
    assert among == pytest.approx(min(1.0, 10 * alone))


@pytest.mark.parametrize("rule", [FDR, ONLINE, Rule(q=0.05, control="two-sided"), POINT])
def test_an_idea_that_exceeds_a_tolerance_is_no_improvement(rule: Rule) -> None:
    ideas = {"slow": shifted(0.1), "fast": shifted(0.1), "worse": shifted(-0.1)}
    known = KnownOfIdeas(exceeded={"slow": "seconds", "worse": "seconds"})
    found = findings(BASE, ideas, UP, rule, known)
    assert {i: f.verdict for i, f in found.items()} == {
        "slow": Verdict.MAINTENANCE,
        "fast": Verdict.IMPROVEMENT,
        "worse": Verdict.DECLINE,
    }
    assert (found["slow"].reason, found["worse"].reason) == ("seconds", None)
    assert found["slow"].p_adjusted in (1.0, None)
    plain = findings(BASE, ideas, UP, rule)
    assert (found["fast"].p_adjusted or 0.0) >= (plain["fast"].p_adjusted or 0.0)


def test_the_point_rule_is_dolphin_s() -> None:
    metric = UP.model_copy(update={"minimum_effect": 0.2})
    ideas = {"up": weak(0.001), "down": weak(-0.001), "same": dict(BASE), "one": {0: 0.6}}
    found = findings(BASE, {**ideas, "open": None}, metric, POINT)
    assert {i: f.verdict for i, f in found.items()} == {
        "up": Verdict.IMPROVEMENT,
        "down": Verdict.DECLINE,
        "same": Verdict.MAINTENANCE,
        "one": Verdict.IMPROVEMENT,
    }
    assert {f.p_adjusted for f in found.values()} == {None}


@given(sides, campaigns, st.floats(0, 5), st.sampled_from([FDR, ONLINE]))
def test_found_is_what_has_a_small_adjusted_p_value(
    baseline: dict[int, float], ideas: dict[str, dict[int, float]], least: float, rule: Rule
) -> None:
    metric = MetricSpec(name="m", direction=Direction.MAXIMIZE, minimum_effect=least)
    for finding in findings(baseline, ideas, metric, rule).values():
        small = finding.p_adjusted is not None and finding.p_adjusted <= rule.q
        assert small == (finding.verdict in (Verdict.IMPROVEMENT, Verdict.DECLINE))
        assert (finding.verdict is None) == (finding.reason is not None)
        if small:
            assert abs(gain(finding.comparison, metric)) > least
