"""How many seeds are given: schedules, decisions at a look, rungs, and what they do to errors."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.feedback.effort import FUTILE, Schedule, correction, decide, promote
from hpcscientist.feedback.statistics import compare
from hpcscientist.records.trial import Direction, MetricSpec

METRIC = MetricSpec(name="accuracy", direction=Direction.MAXIMIZE)
LOSS = MetricSpec(name="loss", direction=Direction.MINIMIZE)
Q, STRICTEST = 0.05, 0.05 / 20
values = st.floats(-1e3, 1e3).map(lambda value: round(value, 6))


def first(count: int, values: list[float]) -> dict[int, float]:
    return dict(enumerate(values[:count]))


@dataclass(frozen=True)
class Ended:
    seeds: int
    p: float  # one-sided, corrected


def carried_through(differences: list[float], schedule: Schedule) -> Ended:
    """Take an idea through a sequential test; the baseline's values are zeros."""
    baseline = dict.fromkeys(range(schedule.at_most), 0.0)
    seeds = schedule.looks[0]
    while True:
        idea = first(seeds, differences)
        more = decide(baseline, idea, METRIC, Q, schedule, STRICTEST).more
        if not more:
            break
        seeds += more
    comparison = compare(baseline, idea)
    assert comparison.p_value is not None
    half = comparison.p_value / 2
    one_sided = half if comparison.delta > 0 else 1 - half
    return Ended(seeds, min(1.0, one_sided * correction(seeds, schedule)))


# Schedules


@given(st.integers(1, 100), st.integers(0, 200))
def test_looks_grow_up_to_the_most_seeds(seeds: int, at_most: int) -> None:
    for schedule in (Schedule.of(seeds, at_most), Schedule.rungs(seeds, 3.0, at_most)):
        assert all(a < b for a, b in itertools.pairwise(schedule.looks))
    assert Schedule.of(seeds, at_most).at_most == (at_most or 2 * seeds)
    assert Schedule.rungs(seeds, 3.0, at_most).at_most == (at_most or seeds)


@given(st.integers(1, 100), st.integers(0, 200))
def test_the_shares_of_the_error_sum_to_one_and_grow(seeds: int, at_most: int) -> None:
    for schedule in (Schedule.of(seeds, at_most), Schedule.rungs(seeds, 3.0, at_most)):
        looks = [look for look in schedule.looks if look > 1] or [1]
        factors = [correction(look, schedule) for look in looks]
        assert sum(1 / factor for factor in factors) == pytest.approx(1.0)
        assert all(a > b >= 1 for a, b in itertools.pairwise(factors))


def test_the_recipes_number_of_seeds_is_a_look_between_a_few_and_twice_as_many() -> None:
    assert Schedule.of(5).looks == (3, 5, 10)
    assert Schedule.of(8).looks == (4, 8, 16)
    assert Schedule.of(3).looks == (2, 3, 6)
    assert Schedule.of(5, 30).looks == (3, 5, 10, 20, 30)
    assert Schedule.of(5, 11).looks == (3, 5, 11)
    assert Schedule.of(5, 4).looks == (4,)
    assert Schedule.rungs(5, 3.0).looks == (1, 3, 5)
    assert Schedule.rungs(10, 2.0).looks == (1, 2, 4, 10)


def test_a_number_between_two_looks_has_the_smaller_share() -> None:
    schedule = Schedule.of(5)
    assert correction(4, schedule) == correction(3, schedule) > correction(5, schedule)
    assert correction(1, schedule) == correction(3, schedule)
    assert correction(99, schedule) == correction(10, schedule)


def test_looks_that_do_not_grow_are_refused() -> None:
    for looks in ((), (0, 2), (3, 3), (5, 2)):
        with pytest.raises(ValueError, match="grow"):
            Schedule(looks)


# One look


@given(st.lists(values, min_size=12, max_size=12), st.integers(2, 6), st.integers(0, 12))
def test_never_more_seeds_than_allowed(differences: list[float], seeds: int, at_most: int) -> None:
    schedule = Schedule.of(seeds, at_most)
    baseline = dict.fromkeys(range(schedule.at_most), 0.0)
    given_seeds = 0
    for _ in schedule.looks:
        given_seeds += schedule.after(given_seeds)
        idea = first(given_seeds, differences)
        decision = decide(baseline, idea, METRIC, Q, schedule)
        assert given_seeds + decision.more <= schedule.at_most
        assert decision.more in (0, schedule.after(given_seeds))
        assert not (decision.more and decision.given_up)
    assert decide(baseline, first(schedule.at_most, differences), METRIC, Q, schedule).more == 0


def test_a_bad_start_is_given_up_and_a_good_one_goes_on() -> None:
    schedule, baseline = Schedule.of(5), dict.fromkeys(range(10), 0.5)
    bad = decide(baseline, first(3, [0.41, 0.43, 0.4]), METRIC, Q, schedule)
    assert (bad.more, bad.given_up) == (0, True)
    assert re.match(f"after 3 of .* 10 seeds .*chance .* {FUTILE:g} ", bad.reason)
    good = decide(baseline, first(3, [0.52, 0.56, 0.54]), METRIC, Q, schedule)
    assert (good.more, good.given_up) == (2, False)
    assert good.reason.startswith("undecided")


def test_what_is_better_is_told_by_the_metrics_direction() -> None:
    schedule, baseline = Schedule.of(5), dict.fromkeys(range(10), 0.5)
    assert decide(baseline, first(3, [0.41, 0.43, 0.4]), LOSS, Q, schedule).more == 2
    assert decide(baseline, first(3, [0.52, 0.56, 0.54]), LOSS, Q, schedule).given_up


def test_a_great_effect_is_decided_early_if_it_holds_under_the_strictest_correction() -> None:
    schedule, baseline = Schedule.of(5), dict.fromkeys(range(10), 0.5)
    great = first(5, [0.9, 0.901, 0.899, 0.9, 0.902])
    decided = decide(baseline, great, METRIC, Q, schedule, strictest=Q / 20)
    assert (decided.more, decided.given_up) == (0, False)
    assert re.match("decided .* 5 of .* 10 seeds", decided.reason)
    assert decide(baseline, great, METRIC, Q, schedule, strictest=1e-12).more == 5


def test_an_effect_within_the_minimum_is_given_up_however_certain() -> None:
    metric = METRIC.model_copy(update={"minimum_effect": 0.01})
    schedule, baseline = Schedule.of(5), dict.fromkeys(range(10), 0.5)
    small = [0.5021, 0.502, 0.5019, 0.502, 0.502]
    assert decide(baseline, first(5, small), metric, Q, schedule).given_up


def test_seeds_to_come_are_not_taken_to_lie_below_the_minimum_effect() -> None:
    start, schedule = first(3, [0.53, 0.49, 0.5]), Schedule.of(5)
    baseline = dict.fromkeys(range(10), 0.5)
    assert decide(baseline, start, METRIC, Q, schedule).more == 2
    none = first(3, [0.51, 0.49, 0.5])
    assert decide(baseline, none, METRIC, Q, schedule).given_up
    hoped = METRIC.model_copy(update={"minimum_effect": 0.01})
    assert decide(baseline, none, hoped, Q, schedule).more == 2


def test_a_constant_difference_goes_on_for_as_long_as_its_sign_may_tell() -> None:
    schedule, baseline = Schedule.of(5), dict.fromkeys(range(10), 0.5)
    assert decide(baseline, first(3, [0.6] * 3), METRIC, Q, schedule).more == 2
    assert decide(baseline, first(3, [0.5] * 3), METRIC, Q, schedule).given_up
    assert decide(baseline, first(3, [0.4] * 3), METRIC, Q, schedule).given_up
    few = Schedule((2, 4))  # four signs have p = 1/16 at best
    assert decide(baseline, first(2, [0.6] * 2), METRIC, Q, few).given_up


def test_one_seed_tells_nothing_of_the_noise() -> None:
    schedule, baseline = Schedule((1, 4)), dict.fromkeys(range(4), 0.5)
    assert decide(baseline, {0: 0.1}, METRIC, Q, schedule).more == 3
    assert decide(baseline, {}, METRIC, Q, schedule).more == 1


@pytest.mark.parametrize(("q", "strictest"), [(0.0, None), (1.0, None), (0.05, 0.1), (0.05, 0.0)])
def test_levels_that_are_none_are_refused(q: float, strictest: float | None) -> None:
    with pytest.raises(ValueError, match="levels"):
        decide({0: 0.5}, {0: 0.5}, METRIC, q, Schedule.of(5), strictest)


# The whole test, many times


@pytest.mark.parametrize("schedule", [Schedule.of(5), Schedule((2, 3, 4, 5, 6))], ids=str)
def test_the_error_of_the_whole_test_stays_below_every_level(schedule: Schedule) -> None:
    random, runs = np.random.default_rng(20260101), 3000
    noise = random.normal(size=(runs, schedule.at_most)).tolist()
    ended = [carried_through(differences, schedule) for differences in noise]
    for level in (0.01, 0.05, 0.2):
        false = sum(end.p <= level for end in ended)
        assert false / runs <= level


def test_ideas_that_do_nothing_take_half_of_the_seeds_and_great_ones_lose_little() -> None:
    schedule, random, runs = Schedule.of(5), np.random.default_rng(20260102), 1000
    null = [carried_through(row, schedule) for row in random.normal(size=(runs, 10)).tolist()]
    assert sum(end.seeds for end in null) / runs < 5  # of 10; the recipe's number is 5
    one = [carried_through(row, schedule) for row in random.normal(1.0, size=(runs, 10)).tolist()]
    power = sum(end.p <= Q for end in one) / runs
    assert power > 0.78  # five seeds for every idea: 0.58, ten: 0.90
    two = [carried_through(row, schedule) for row in random.normal(2.0, size=(runs, 10)).tolist()]
    assert sum(end.p <= Q for end in two) / runs > 0.99


# Rungs


@given(values, values, st.lists(values, max_size=30), st.sampled_from([1.5, 2.0, 3.0, 4.0]))
def test_a_better_value_never_fares_worse(
    one: float, other: float, earlier: list[float], rate: float
) -> None:
    schedule = Schedule.rungs(9, rate)
    low, high = sorted((one, other))
    below = promote(low, earlier, 1, METRIC, schedule, rate)
    above = promote(high, earlier, 1, METRIC, schedule, rate)
    assert above.more >= below.more
    below, above = (promote(v, earlier, 1, LOSS, schedule, rate) for v in (high, low))
    assert above.more >= below.more


@given(st.lists(values, min_size=1, max_size=60), st.sampled_from([2.0, 3.0, 4.0]))
def test_the_first_go_on_and_of_many_no_more_than_a_share_is_best(
    found: list[float], rate: float
) -> None:
    schedule = Schedule.rungs(9, rate)
    for come, value in enumerate(found, 1):
        decision = promote(value, found[: come - 1], 1, METRIC, schedule, rate)
        rank = 1 + sum(earlier >= value for earlier in found[: come - 1])
        assert bool(decision.more) == (come < rate or rank <= come // rate)
        assert decision.given_up == (not decision.more)


def test_on_a_tie_the_earlier_are_ahead() -> None:
    schedule = Schedule.rungs(5, 3.0)
    assert promote(0.5, [0.5, 0.4], 1, METRIC, schedule, 3.0).given_up
    assert promote(0.5, [0.4, 0.4], 1, METRIC, schedule, 3.0).more == 2
    assert promote(0.5, [0.5, 0.5], 1, METRIC, schedule, 3.0).reason == (
        "rank 3 of 3 after 1 seed, and 1 in 3 goes on"
    )


def test_after_the_last_rung_nothing_is_decided() -> None:
    decision = promote(0.1, [0.5] * 9, 5, METRIC, Schedule.rungs(5, 3.0), 3.0)
    assert (decision.more, decision.given_up) == (0, False)


def test_a_rate_that_keeps_all_is_refused() -> None:
    with pytest.raises(ValueError, match="rate"):
        promote(0.5, [], 1, METRIC, Schedule.rungs(5, 3.0), 1.0)
