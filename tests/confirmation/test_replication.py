from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.confirmation.decision import agreement, is_same, shows
from hpcscientist.feedback.statistics import compare
from hpcscientist.records.findings import Verdict
from hpcscientist.records.trial import Direction, MetricSpec

ACCURACY = MetricSpec(name="accuracy", direction=Direction.MAXIMIZE, minimum_effect=0.01)
LOSS = MetricSpec(name="loss", direction=Direction.MINIMIZE)
EFFECTS = {1: 0.10, 2: 0.12, 3: 0.09, 4: 0.11, 5: 0.13}


def shifted(by: float) -> dict[int, float]:
    return {seed: value + by for seed, value in EFFECTS.items()}


def test_effects_that_are_equal_agree() -> None:
    found = agreement(EFFECTS, EFFECTS, 0.0)
    assert found.agrees
    assert found.difference == 0


def test_a_shift_beyond_what_seeds_explain_does_not_agree() -> None:
    assert agreement(EFFECTS, shifted(0.01), 0.0).agrees
    found = agreement(EFFECTS, shifted(-0.06), 0.0)
    assert not found.agrees
    assert found.high is not None
    assert found.high < 0


def test_a_difference_within_the_minimum_effect_is_none() -> None:
    constant, other = dict.fromkeys(range(5), 0.1), dict.fromkeys(range(5), 0.105)
    assert not agreement(constant, other, 0.0).agrees
    assert agreement(constant, other, 0.01).agrees


def test_one_seed_can_only_agree_within_the_minimum_effect() -> None:
    assert agreement({1: 0.1}, {1: 0.1}, 0.0).agrees
    assert not agreement({1: 0.1}, {1: 0.2}, 0.0).agrees
    assert agreement({1: 0.1}, {1: 0.2}, 0.2).agrees


def test_honest_reruns_agree_in_at_least_95_of_100_cases() -> None:
    draw, agreed, runs = random.Random(7), 0, 2000
    for _ in range(runs):
        sides = [{seed: draw.gauss(0.1, 0.05) for seed in range(5)} for _ in range(2)]
        agreed += agreement(*sides, 0.0).agrees
    assert 0.94 <= agreed / runs <= 0.975  # three standard errors below; Welch is conservative


@given(
    st.lists(st.floats(-1, 1, allow_nan=False), min_size=2, max_size=8),
    st.lists(st.floats(-1, 1, allow_nan=False), min_size=2, max_size=8),
)
def test_it_does_not_matter_which_came_first(first: list[float], second: list[float]) -> None:
    one, other = dict(enumerate(first)), dict(enumerate(second))
    there, back = agreement(one, other, 0.0), agreement(other, one, 0.0)
    assert there.difference == pytest.approx(-back.difference, abs=1e-12)
    if abs(there.difference) > 1e-6:
        assert there.agrees is back.agrees


def test_an_improvement_has_to_show_again() -> None:
    baseline = {1: 0.70, 2: 0.72, 3: 0.71}
    better = {seed: value + 0.1 for seed, value in zip(baseline, (0.70, 0.73, 0.71), strict=True)}
    comparison = compare(baseline, better)
    assert shows(comparison, Verdict.IMPROVEMENT, ACCURACY, 0.05)
    assert not shows(comparison, Verdict.DECLINE, ACCURACY, 0.05)
    assert shows(comparison, Verdict.MAINTENANCE, ACCURACY, 0.05)
    assert shows(comparison, Verdict.DECLINE, LOSS, 0.05)
    slight = compare(baseline, {1: 0.702, 2: 0.729, 3: 0.714})
    assert not shows(slight, Verdict.IMPROVEMENT, ACCURACY, 0.05), "within the minimum effect"
    assert shows(slight, Verdict.IMPROVEMENT, ACCURACY, None), "any better mean"
    assert not shows(slight, Verdict.DECLINE, ACCURACY, None)


def test_rounding_is_no_difference() -> None:
    assert is_same(0.1 + 0.2, 0.3)
    assert is_same(0.0, 0.0)
    assert not is_same(0.3, 0.3001)
