"""How many seeds ideas will be given: guesses and bounds before a launch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.config.settings import LoopSettings, Settings
from hpcscientist.errors import UsageError
from hpcscientist.feedback.effort import Schedule, promote
from hpcscientist.launching.costs import estimate as costs
from hpcscientist.launching.costs.estimate import Seeding, seeding, seeds_said
from hpcscientist.launching.launch import check as planned
from hpcscientist.launching.launch_plan import LaunchPlan
from hpcscientist.recipe.create import create
from hpcscientist.records.trial import Direction, MetricSpec

METRIC = MetricSpec(name="accuracy", direction=Direction.MAXIMIZE)
SEEDS = 5  # of the recipe that `create` makes


def checked_of(folder: Path, ideas: int, **loop: object) -> LaunchPlan:
    recipe = create("plain", folder)
    settings = Settings.model_validate(
        {
            "recipe": str(recipe),
            "model": "search",
            "ideas": ideas,
            "backend": "local",
            "allow_unsandboxed": True,
            "loop": {"confirm": False, "drift_every": 0, **loop},
        }
    )
    return planned(settings, folder)


@given(
    st.sampled_from(["fixed", "sequential", "halving"]),
    st.integers(2, 20),
    st.integers(2, 40),
    st.integers(1, 300),
    st.floats(1.1, 10),
)
def test_a_guess_lies_between_the_bounds(
    allocation: Literal["fixed", "sequential", "halving"],
    seeds: int,
    at_most: int,
    ideas: int,
    rate: float,
) -> None:
    loop = LoopSettings(allocation=allocation, seeds_at_most=at_most, halving=rate)
    found = seeding(loop, seeds, ideas)
    assert found.least <= found.likely <= found.most
    assert 0 < found.whole <= ideas


def test_fixed_is_known() -> None:
    assert seeding(LoopSettings(), SEEDS, 10) == Seeding(50, 50, 50, 10)


def test_a_sequential_test_is_built_around_the_recipes_number() -> None:
    found = seeding(LoopSettings(allocation="sequential"), SEEDS, 10)
    assert found == Seeding(least=30, likely=50, most=100, whole=10)


def test_halving_takes_as_many_as_ideas_in_any_order_do() -> None:
    loop, ideas, random = LoopSettings(allocation="halving"), 60, np.random.default_rng(7)
    schedule = Schedule.rungs(SEEDS, loop.halving)
    taken, ended = [], []
    for _ in range(200):
        means: dict[int, list[float]] = {rung: [] for rung in schedule.looks}
        total = whole = 0
        for values in random.normal(size=(ideas, SEEDS)):
            seeds, more = 0, 1
            while more:
                seeds += more
                value = float(values[:seeds].mean())
                more = promote(value, means[seeds], seeds, METRIC, schedule, loop.halving).more
                means[seeds].append(value)
            total += seeds
            whole += seeds == SEEDS
        taken.append(total)
        ended.append(whole)
    found = seeding(loop, SEEDS, ideas)
    assert found.least <= min(taken)
    assert found.most >= max(taken)
    # Means of more seeds are not in any order: what did well once does well again.
    assert found.likely == pytest.approx(np.mean(taken), rel=0.1)
    assert found.whole == pytest.approx(np.mean(ended), abs=3)


def test_in_words() -> None:
    assert seeds_said(LoopSettings(), 5) == "5 seeds"
    assert seeds_said(LoopSettings(allocation="sequential"), 5) == "3 to 10 seeds (sequential)"
    assert seeds_said(LoopSettings(allocation="halving"), 5) == "1 to 5 seeds (halving)"
    assert seeds_said(LoopSettings(allocation="sequential", seeds_at_most=2), 2) == (
        "2 seeds (sequential)"
    )


def test_what_a_launch_may_cost(tmp_path: Path) -> None:
    fixed = costs.estimate(checked_of(tmp_path / "fixed", 10))
    assert (fixed.trials, fixed.trials_at_most) == ((66, 66), 66)
    # The baseline's pilot, its ten seeds, and a pilot of each idea; then three to ten seeds.
    tested = costs.estimate(checked_of(tmp_path / "tested", 10, allocation="sequential"))
    assert tested.trials == (1 + 10 + 10 + 30, 1 + 10 + 10 + 50)
    assert tested.trials_at_most == 1 + 10 + 10 + 100
    # The first two ideas have all seeds; the rest may have one each, or all.
    halved = costs.estimate(checked_of(tmp_path / "halved", 10, allocation="halving"))
    assert halved.trials[0] == 1 + 5 + 10 + 2 * 5 + 8
    assert halved.trials[0] < halved.trials[1] < halved.trials_at_most == 66


def test_further_runs_have_the_recipes_seeds(tmp_path: Path) -> None:
    loop = {"allocation": "sequential", "debug_rounds": 1}
    checked = checked_of(tmp_path, 10, **loop)
    checked = replace(checked, model_spec="http://127.0.0.1:1/v1#m", steps=("analyse",))
    assert checked.trials_at_most == 11 + 10 * 2 * (1 + 10) + 10 * 5 * 2 * (1 + 5)
    assert costs.estimate(checked).trials[1] == 11 + 10 * (1 + 1 + 5) + 10 * 2 * (1 + 5)


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        ({"allocation": "sequential", "seeds_at_most": 1}, "one seed"),
        ({"allocation": "halving", "seeds_at_most": 1}, "one seed"),
        ({"seeds_at_most": 8}, "loop.allocation is fixed"),
    ],
)
def test_bounds_that_decide_nothing_are_refused(
    loop: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=said):
        checked_of(tmp_path, 2, **loop)
