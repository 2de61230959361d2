"""Confirmation: one-sided, on fresh seeds, once; what the search claimed and what is left."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hpcscientist.confirmation.decision import confirm, one_sided
from hpcscientist.feedback.decision import Limited
from hpcscientist.feedback.statistics import compare
from hpcscientist.records.trial import Direction, MetricSpec

UP = MetricSpec(name="accuracy", direction=Direction.MAXIMIZE)
DOWN = MetricSpec(name="loss", direction=Direction.MINIMIZE)
BASE = {0: 0.50, 1: 0.51, 2: 0.49, 3: 0.50, 4: 0.52}

values = st.floats(-100, 100).map(lambda v: round(v, 3))
sides = st.dictionaries(st.integers(0, 5), values, min_size=1, max_size=5)


def shifted(by: float) -> dict[int, float]:
    wobble = (0.001, -0.001, 0.002, 0.0, -0.002)
    return {seed: value + by + wobble[seed] for seed, value in BASE.items()}


def test_only_better_is_confirmed_whichever_way_better_is() -> None:
    assert confirm(BASE, shifted(+0.1), UP, 0.05).confirmed
    assert confirm(BASE, shifted(-0.1), DOWN, 0.05).confirmed
    for idea, metric in ((shifted(-0.1), UP), (shifted(+0.1), DOWN), (BASE, UP)):
        verdict = confirm(BASE, idea, metric, 0.05)
        assert not verdict.confirmed
        assert verdict.reason == "is no better than the baseline on the test split"


def test_a_gain_within_the_noise_is_not_confirmed_and_says_its_p_value() -> None:
    noisy = {
        seed: value + by for (seed, value), by in zip(BASE.items(), (9, -8, 7, -6, 5), strict=True)
    }
    verdict = confirm(BASE, noisy, UP, 0.05)
    assert verdict.comparison is not None
    assert verdict.comparison.delta > 0
    assert verdict.p_one_sided is not None
    assert verdict.p_one_sided > 0.05
    assert not verdict.confirmed
    assert "chance" in str(verdict.reason)


def test_without_values_or_with_one_there_is_no_claim() -> None:
    assert confirm(BASE, {}, UP, 0.05).reason == "the idea has no test score"
    assert confirm({}, BASE, UP, 0.05).reason == "the baseline has no test score"
    one = confirm({1: 0.1}, {1: 9.0}, UP, 0.05)
    assert (one.p_one_sided, one.confirmed) == (None, False)
    assert "too few" in str(one.reason)


def test_a_constant_gain_needs_five_seeds() -> None:
    # The exact sign-flip test: one-sided 2^-n.
    for n, confirmed in ((4, False), (5, True)):
        base = dict.fromkeys(range(n), 0.5)
        verdict = confirm(base, dict.fromkeys(range(n), 0.75), UP, 0.05)
        assert verdict.p_one_sided == pytest.approx(2.0**-n)
        assert verdict.confirmed is confirmed


def test_q_is_a_share() -> None:
    for q in (0.0, 1.0):
        with pytest.raises(ValueError, match="level"):
            confirm(BASE, BASE, UP, q)


@given(sides, sides)
def test_the_one_sided_p_values_of_both_directions_add_up_to_one(
    baseline: dict[int, float], idea: dict[int, float]
) -> None:
    comparison = compare(baseline, idea)
    up, down = one_sided(comparison, UP), one_sided(comparison, DOWN)
    assume(up is not None and comparison.delta != 0)
    assert up is not None
    assert down is not None
    assert up + down == pytest.approx(1.0)


def pairs(
    seed: int, count: int, by: float = 0.0
) -> Iterator[tuple[dict[int, float], dict[int, float]]]:
    """Values of a baseline and of an idea that is larger `by` so much; both are noisy."""
    rng = random.Random(seed)
    for _ in range(count):
        shared = [rng.gauss(0, 1) for _ in range(5)]
        baseline = {s: value + rng.gauss(0, 0.5) for s, value in enumerate(shared)}
        yield baseline, {s: value + by + rng.gauss(0, 0.5) for s, value in enumerate(shared)}


def test_of_ideas_that_do_nothing_at_most_a_share_q_is_confirmed() -> None:
    confirmed, campaigns, q = 0, 4000, 0.05
    for baseline, idea in pairs(7, campaigns):
        confirmed += confirm(baseline, idea, UP, q).confirmed
    assert confirmed / campaigns <= q + 3 * (q * (1 - q) / campaigns) ** 0.5


SECONDS = MetricSpec(name="seconds", direction=Direction.MINIMIZE, tolerance=2.0)


def seconds(by: float, noise: float = 0.0, metric: MetricSpec = SECONDS) -> Limited:
    """By how much an idea takes longer; `noise` differs by seed."""
    sign = 1.0 if metric.direction is Direction.MINIMIZE else -1.0
    wobble = (0.3, -0.1, 0.2, 0.0, -0.4)
    idea = {seed: 10.0 + sign * (by + noise * wobble[seed]) for seed in BASE}
    return Limited(metric, dict.fromkeys(BASE, 10.0), idea)


@pytest.mark.parametrize("direction", list(Direction))
def test_an_idea_is_confirmed_only_within_the_tolerances(direction: Direction) -> None:
    metric = SECONDS.model_copy(update={"direction": direction})
    for by, noise, confirmed in (
        (0.0, 0.0, True),
        (2.0, 0.0, True),  # the same for each seed, so nothing is left to chance
        (2.001, 0.0, False),
        (-5.0, 0.0, True),
        (1.0, 1.0, True),
        (1.0, 10.0, False),  # within it on average, and maybe not
        (2.0, 1.0, False),
        (3.0, 1.0, False),
    ):
        found = confirm(BASE, shifted(0.1), UP, 0.05, [seconds(by, noise, metric)])
        assert found.confirmed is confirmed, (by, noise, found.reason)
        assert (found.reason is None) is confirmed
    # All of them count, and the metric that decides first.
    over = [seconds(0.0), seconds(3.0)]
    assert "seconds" in str(confirm(BASE, shifted(0.1), UP, 0.05, over).reason)
    assert "no better" in str(confirm(BASE, shifted(-0.1), UP, 0.05, over).reason)
    for lacking in (Limited(SECONDS, {}, {}), Limited(SECONDS, {0: 10.0}, {0: 10.0, 1: 10.0})):
        assert not confirm(BASE, shifted(0.1), UP, 0.05, [lacking]).confirmed


def test_of_ideas_at_the_edge_of_a_tolerance_at_most_a_share_q_is_confirmed() -> None:
    confirmed, campaigns, q = 0, 4000, 0.05
    for baseline, idea in pairs(11, campaigns, by=2.0):
        limit = Limited(SECONDS, baseline, idea)
        confirmed += confirm(BASE, shifted(0.1), UP, q, [limit]).confirmed
    assert q / 2 < confirmed / campaigns <= q + 3 * (q * (1 - q) / campaigns) ** 0.5
