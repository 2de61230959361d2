"""Decisions about simulated ideas: how they are drawn, judged, counted and shown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.command_line import run
from benchmarks.decisions import effort, null, plot, power
from benchmarks.decisions.allocating import (
    ALLOCATIONS,
    Allocation,
    allocate,
    most,
    settings_of,
)
from benchmarks.decisions.counting import Share
from benchmarks.decisions.judging import Claim
from benchmarks.decisions.world import FRESH, LEVEL, Ideas, World

from hpcscientist.errors import UsageError

FIELDS = ["name", "value", "unit", "compared_with", "ratio", "target", "spread", "runs"]
Q = 0.05


def same(count: int, effect: float = 0.0, noise: float = 1.0) -> Any:
    return lambda _: Ideas(np.full(count, effect), np.full(count, noise))


def test_values_have_the_moments_they_are_said_to_have() -> None:
    world = World(campaigns=1500, ideas=2, correlation=0.3)
    drawn = list(world.draw(lambda _: Ideas(np.array([0.0, 1.5]), np.array([1.0, 2.0])), 2))
    for split in ("validation", "test"):
        sides = [getattr(campaign, split) for campaign in drawn]
        values = np.array(
            [[list(v.values()) for v in (s.baseline, *s.ideas.values())] for s in sides]
        )
        baseline, alike, noisier = values.transpose(1, 0, 2).reshape(3, -1)
        assert baseline.mean() == pytest.approx(LEVEL, abs=0.06)
        assert noisier.mean() == pytest.approx(LEVEL + 1.5, abs=0.1)
        assert alike.var() == pytest.approx(1.0, abs=0.08)
        assert noisier.var() == pytest.approx(0.3 + 4 * 0.7, abs=0.25)
        assert np.corrcoef(baseline, alike)[0, 1] == pytest.approx(0.3, abs=0.05)
        assert np.corrcoef(values[:, 0, 0], values[:, 0, 1])[0, 1] == pytest.approx(0.0, abs=0.08)


def test_splits_share_neither_seeds_nor_noise() -> None:
    (campaign,) = World(campaigns=1, ideas=3).draw(same(3), 4)
    assert list(campaign.validation.baseline) == [0, 1, 2, 3]
    assert list(campaign.test.ideas["idea-0002"]) == [FRESH + k for k in range(4)]
    assert not set(campaign.test.baseline.values()) & set(campaign.validation.baseline.values())


def test_more_seeds_leave_the_first_ones_as_they_were() -> None:
    world = World(campaigns=2, ideas=5, seed=3)
    few, many = list(world.draw(same(5), 3)), list(world.draw(same(5), 9))
    assert [campaign.first(3) for campaign in many] == few
    assert few != list(World(campaigns=2, ideas=5, seed=4).draw(same(5), 3))


@pytest.mark.parametrize(
    ("world", "seeds"),
    [(World(campaigns=0), 5), (World(), 0), (World(correlation=1.0), 5), (World(ideas=0), 5)],
)
def test_worlds_that_cannot_be(world: World, seeds: int) -> None:
    with pytest.raises(ValueError, match="at least"):
        list(world.draw(same(1), seeds))


@pytest.fixture(scope="module")
def nulls() -> null.Measured:
    return null.measure(World(campaigns=60, seed=1), 5, Q)


def test_our_rules_stay_within_q_and_the_point_rule_does_not(nulls: null.Measured) -> None:
    # 60 campaigns cannot tell 0.04 from 0.06, and need not: the point rule is at 1.
    assert len(nulls) == 3
    for by_rule in nulls.values():
        for rule in ("batch", "online"):
            shares = by_rule[rule].shares
            assert shares["campaigns, found"].interval[0] <= Q
            assert (shares["campaigns, confirmed"].value or 0.0) <= Q
            assert (shares["findings, found"].value or 0.0) <= Q
        point = by_rule["point"].shares
        assert (point["campaigns, found"].value or 0.0) > 0.8
        assert (point["campaigns, confirmed"].value or 0.0) > Q  # it is not fixed by confirming


def test_a_rule_that_does_not_hold_q_is_said_to_fail(nulls: null.Measured) -> None:
    # The point rule in the place of ours.
    wrong = {name: dict.fromkeys(by, by["point"]) for name, by in nulls.items()}
    found = null.figures(wrong, Q)
    assert not any(f.is_met for f in found if f.name.startswith("campaigns, found"))
    assert "NOT met" in null.table(wrong, Q)
    kept = [f for f in null.figures(nulls, Q) if "confirmed" in f.name]
    assert len(kept) == 12
    assert all(f.is_met and f.target == Q for f in kept)
    assert all((f.compared_with or "").startswith("point: ") for f in kept)


def test_ideas_that_are_worse_do_not_make_others_improvements(nulls: null.Measured) -> None:
    claimed = nulls["half noisier and worse"]["batch"]
    assert claimed.findings == 60 * 50
    assert claimed.campaigns_found <= 6  # one family for both directions: a fifth and more


def test_planted_effects_are_equally_many() -> None:
    ideas = power.planted(np.random.default_rng(0), 54)
    values, counts = np.unique(ideas.effects, return_counts=True)
    assert tuple(values) == power.EFFECTS == (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
    assert set(counts) == {6}


def test_a_tally_counts_claims_by_the_truth() -> None:
    tally = power.Tally(ideas=4, opposite=4)
    tally.add(Claim(1.0, 2.0, True, tested=1.0, confirmed=True))
    tally.add(Claim(1.0, 1.5, True, tested=0.5, confirmed=False))
    tally.add(Claim(-1.0, 1.5, True, tested=-1.0, confirmed=False))
    assert [tally.power(stage) for stage in (0, 1)] == [Share(2, 4), Share(1, 4)]
    assert [tally.sign_errors(stage) for stage in (0, 1)] == [Share(1, 3), Share(0, 1)]
    assert tally.mistaken(0) == Share(1, 4)
    assert tally.exaggeration(0, 1.0) == pytest.approx(5 / 3)
    assert tally.exaggeration(1, 1.0) == 1.0
    assert tally.shrinkage == pytest.approx(0.9)
    assert power.Tally().exaggeration(0, 1.0) is power.Tally().shrinkage is None


@pytest.fixture(scope="module")
def powers() -> power.Measured:
    return power.measure(World(campaigns=12, seed=2), (3, 8), Q)


def test_power_grows_with_seeds_and_effect(powers: power.Measured) -> None:
    for rule in ("batch", "online"):
        few, many = powers[rule, 3], powers[rule, 8]
        assert many[2.0].power(0).part > few[2.0].power(0).part
        assert many[2.0].power(0).part > many[0.5].power(0).part > many[0.0].power(0).part
        assert many[0.5].exaggeration(0, 0.5) > 1.2  # type: ignore[operator]
        assert many[1.0].exaggeration(0, 1.0) > many[1.0].exaggeration(1, 1.0)  # type: ignore[operator]
    sloppy = powers["point", 3][0.5].sign_errors(0).value
    assert sloppy is not None
    assert sloppy > 0.1


def test_the_table_has_a_row_each_and_the_figures_no_gaps(powers: power.Measured) -> None:
    rows = power.table(powers).splitlines()
    assert len(rows) == 1 + 3 * 2 * 5 + 2
    assert all(np.isfinite(figure.value) for figure in power.figures(powers))


@pytest.mark.parametrize("name", ["power.png", "power.svg"])
def test_the_figure_is_written_and_the_same_again(
    powers: power.Measured, tmp_path: Path, name: str
) -> None:
    pytest.importorskip("matplotlib")
    plot.check(tmp_path / name)
    plot.draw(powers, tmp_path / name)
    first = (tmp_path / name).read_bytes()
    plot.draw(powers, tmp_path / name)
    assert first == (tmp_path / name).read_bytes()
    assert first[:5] in (b"\x89PNG\r", b"<?xml")


def test_a_figure_that_cannot_be_is_refused_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"power\.pdf: .*\.png .*\.svg"):
        plot.check(tmp_path / "power.pdf")
    with pytest.raises(UsageError, match=r"none/power\.png: .*folder"):
        plot.check(tmp_path / "none" / "power.png")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"install hpcscientist\[plots\]"):
        plot.check(tmp_path / "power.png")


@pytest.fixture(scope="module")
def efforts() -> list[effort.Measured]:
    return effort.measure(World(campaigns=25, seed=5), 5, Q)


def test_adaptive_allocation_saves_trials(efforts: list[effort.Measured]) -> None:
    for measured in efforts:
        equal = effort.saved(measured, "sequential")
        assert equal is not None
        low, high = effort.interval(measured, "sequential")
        assert low < equal.ratio < high < 0.8
        assert equal.seeds > 5
        assert 3 < equal.trials < 10
    lines = effort.table(efforts).splitlines()
    assert sum(f" {effort.TARGET:g}: " in line for line in lines) == 2
    for figure in effort.figures(efforts, Q):
        trials = effort.TARGET if "sequential" in figure.name else None
        assert figure.target == (trials if figure.unit == "an idea" else Q)


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_seeds_are_allocated_as_the_loop_does(allocation: Allocation) -> None:
    seeds = most(allocation, 5)
    effects = np.array([0.0, 0.0, 0.0, 0.0, -5.0, 5.0])
    world = World(campaigns=1, ideas=6, seed=1)
    (campaign,) = world.draw(lambda _: Ideas(effects, np.ones(6)), seeds)
    settings = settings_of("online", Q, 6, allocation)
    known = allocate(campaign.validation, settings, 5)
    given = [len(values) for values in known.split.ideas.values()]
    assert known.trials == sum(given) + len(known.split.baseline)
    for idea, values in known.split.ideas.items():
        assert values == campaign.first(len(values)).validation.ideas[idea]
    if allocation == "fixed":
        assert (given, known.factors, known.planned) == ([5] * 6, {}, 0)
        return
    assert known.planned == seeds == len(known.split.baseline)
    assert given[4] < given[5]  # what is worse is left early
    assert set(known.factors) == set(campaign.effects)
    assert all(factor >= 1 for factor in known.factors.values())


def test_null_holds_where_seeds_are_allocated() -> None:
    measured = null.measure(World(campaigns=25, ideas=20), 5, Q, "halving")
    assert measured["seeds alone"]["point"].findings == 25 * 20
    assert all(by["online"].shares["findings, found"].part <= 5 for by in measured.values())


def test_equal_power_is_interpolated() -> None:
    def searches(found: float, trials: float) -> effort.Searches:
        return effort.Searches(*(np.array([v, v]) for v in (trials, found, 0.0)))

    fixed = {2: searches(1.0, 22.0), 3: searches(3.0, 33.0)}
    ours = {way: searches(2.0, 20.0) for way in effort.ADAPTIVE}
    known = effort.Measured("batch", 10, np.array([4.0, 4.0]), ours, fixed)
    equal = effort.saved(known, "sequential")
    assert equal == effort.Saved(power=0.5, trials=2.0, seeds=2.5, fixed_trials=2.75)
    assert equal.ratio == pytest.approx(2 / 2.75)
    never = {2: searches(1.0, 22.0)}
    nothing = effort.Measured("batch", 10, np.array([4.0, 4.0]), ours, never)
    assert effort.saved(nothing, "sequential") is None
    assert "no fixed" in effort.table([nothing])
    assert {f.unit for f in effort.figures([nothing], Q)} == {"of findings"}


def test_null_prints_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["null", "--campaigns", "3", "--ideas", "8", "--seed", "7", "--json"]
    assert run(command) == 0
    out, err = capsys.readouterr()
    rows = json.loads(out)
    assert all(list(row) == FIELDS for row in rows)
    assert len(rows) == 3 * 2 * 4
    assert re.search(r"\b3 .*\b8 .*, seeds alone$", err, re.MULTILINE)
    assert "null recipe" in err  # the table is for people
    assert run(command) == 0
    assert capsys.readouterr().out == out


def test_power_prints_a_table_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "power.svg"
    command = ["power", "--campaigns", "3", "--ideas", "12", "--seeds", "4"]
    assert run([*command, "--figure", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "sign errors" in out
    assert "false share" in out
    assert f"drawn: {path}" in err
    assert path.stat().st_size > 1000
    assert run([*command, "--json"]) == 0
    assert all(list(row) == FIELDS for row in json.loads(capsys.readouterr().out))
