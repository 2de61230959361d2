"""Whatever ends first, and wherever drivers are killed: the same trials, the same ends."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import CONFIRMED, Luck, Shape, World, drive

from hpcscientist.history.state import CampaignState, fold
from hpcscientist.judgement.baseline_drift import rerun_with
from hpcscientist.records.events import SplitSpent, TrialEnded
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import MachineFailed, Scored, Stage

SHAPES = st.builds(
    Shape,
    ideas=st.integers(1, 6),
    rounds=st.sampled_from([0, 0, 2, 3]),
    window=st.integers(1, 4),
    lag=st.integers(1, 4),
    control=st.sampled_from([0.0, 0.4]),
    in_order=st.booleans(),
    follows=st.booleans(),
    grows=st.booleans(),
    analysed=st.booleans(),
    scheduled=st.booleans(),
    early=st.booleans(),
    drift_every=st.integers(0, 3),
    retries=st.integers(1, 2),
)
LUCK = st.builds(
    Luck,
    fails=st.integers(0, 50),
    infra_failed=st.integers(0, 30),
    gives_up=st.integers(0, 30),
    doubles=st.integers(0, 30),
    rejects=st.integers(0, 40),
    unusable=st.integers(0, 20),
    exhausted=st.sampled_from([0, 0, 3]),
)
SEEDS = st.integers(0, 2**20)


def ends(state: CampaignState) -> dict[str, object]:
    return {idea.idea_id: idea.ended for idea in state.ideas.values()}


def trials(world: World) -> dict[str, object]:
    """By trial, how it ended, the machine's failures left out."""
    return {
        name: outcome
        for (name, _), outcome in sorted(world.results.items())
        if not isinstance(outcome, MachineFailed)
    }


def check(world: World, state: CampaignState) -> None:
    """What holds of every campaign that has ended."""
    assert state.ended
    assert fold(world.journal) == state
    keys = [event.key for event in world.journal]
    assert len(set(keys)) == len(keys), "something is on record twice"
    good = [name for (name, _), o in world.results.items() if not isinstance(o, MachineFailed)]
    assert len(set(good)) == len(good), "a trial has two results"
    queued = {name: trial.run for name, trial in state.trials.items()}
    assert all(run <= queued[name] for name, run in world.results)
    assert not state.progress.open
    assert all(idea.ended is not None for idea in state.ideas.values())
    _check_reruns(world, state)
    _check_confirmations(world)


def _check_reruns(world: World, state: CampaignState) -> None:
    """The baseline is run again with the ideas that run seeds, and with no others."""
    seeded = {state.ideas[i].number for i, _ in state.full if i != BASELINE_ID}
    due = {rerun_with(world.rules.settings, number) for number in seeded} - {0}
    attempts = {attempt for i, attempt in state.full if i == BASELINE_ID}
    assert attempts == {1} | {1 + rerun for rerun in due}


def _check_confirmations(world: World) -> None:
    """No idea's look at the test split is spent before the baseline's trials there have ended."""
    ended = 0
    for event in world.journal:
        if isinstance(event, TrialEnded) and event.report.trial_id.startswith("baseline-a1-conf"):
            ended += isinstance(event.report.outcome, Scored)
        if isinstance(event, SplitSpent) and event.idea_id != BASELINE_ID:
            assert ended == len(CONFIRMED)


def check_order_and_kills(shape: Shape, luck: Luck, seed: int) -> None:
    """Neither changes what is run, nor what comes of it."""
    draw = random.Random(seed)
    one, other, killed = (World(shape, luck, seed) for _ in range(3))
    first = drive(one, draw)
    check(one, first)
    for world, kills in ((other, 0), (killed, 25)):
        state = drive(world, draw, kills)
        check(world, state)
        assert trials(world) == trials(one)
        assert ends(state) == ends(first)
        assert {i: s.spent for i, s in state.ideas.items()} == {
            i: s.spent for i, s in first.ideas.items()
        }


@given(SHAPES, LUCK, SEEDS)
def test_neither_order_nor_kills_change_what_is_run(shape: Shape, luck: Luck, seed: int) -> None:
    check_order_and_kills(shape, luck, seed)


@pytest.mark.full
@settings(max_examples=2000)
@given(SHAPES, LUCK, SEEDS)
def test_nor_in_thousands_of_campaigns(shape: Shape, luck: Luck, seed: int) -> None:
    check_order_and_kills(shape, luck, seed)


@given(SHAPES, LUCK, SEEDS, st.integers(0, 30))
def test_a_bad_machine_ends_nothing_but_its_ideas(
    shape: Shape, luck: Luck, seed: int, kills: int
) -> None:
    """It fails trials more often than a driver tries: ideas wait, or are given up; never more."""
    world = World(shape, replace(luck, patience=5, infra_failed=40), seed)
    check(world, drive(world, random.Random(seed), kills))


def test_every_kind_of_event_and_end_is_met() -> None:
    """The worlds above are worth something."""
    types: set[str] = set()
    stages: set[Stage] = set()
    statuses: set[str] = set()
    stops: set[str] = set()
    for seed in range(36):
        shape = Shape(
            ideas=6,
            rounds=2 * (seed % 2),
            control=0.4 * (seed % 3 == 0),
            grows=seed % 2 == 0,
            analysed=seed % 3 == 1,
            scheduled=seed % 4 > 1,
            early=seed % 5 == 0,
            follows=seed % 7 == 0,
            in_order=seed % 11 == 0,
        )
        luck = Luck(patience=5, infra_failed=30, exhausted=5 * (seed % 6 == 0))
        world = World(shape, luck, seed)
        state = drive(world, random.Random(seed), kills=60 * (seed % 2))
        types |= {event.type for event in world.journal}
        stages |= {trial.stage for trial in state.trials.values()}
        statuses |= {idea.ended.status for idea in state.ideas.values() if idea.ended}
        stops |= {e.reason.split(",")[0] for e in world.journal if e.type == "driver_stopped"}
    assert stages == set(Stage)
    assert statuses == {"scored", "failed", "rejected"}
    assert types >= {"idea_set_aside", "proposals_exhausted", "seeds_decided", "budget_decided"}
    assert types >= {"runs_read", "attempt_reviewed", "results_compacted", "split_spent"}
    assert any(stop.startswith("paused: ") for stop in stops)
