"""The guard before the test split, the seeds of confirmations, and whose predictions are whose."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedTrials, scored
from event_kit import idea_proposed, trial_queued
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.campaign.specs import SpecFactory, fresh_seeds, trial_seeds
from hpcscientist.campaign.trial_runner import TrialRunner
from hpcscientist.confirmation import looks
from hpcscientist.errors import SplitGuarded
from hpcscientist.feedback import duplicates
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.records.events import (
    AttemptWritten,
    IdeaEnded,
    IdeaProposed,
    SplitSpent,
    TrialEnded,
)
from hpcscientist.records.idea import BASELINE_ID, Arm, Attempt, Idea, Proposal
from hpcscientist.records.trial import (
    MachineFailed,
    MachineFailure,
    Scored,
    Split,
    Stage,
    TrialReport,
    TrialSpec,
    Usage,
)

SEEDS = (11, 12, 13)
USAGE = Usage(started_at=1.0, ended_at=2.0)
PROPOSAL = Proposal(title="t", hypothesis="h", method="m", experiment_plan="p", summary="s")
IDEA = Idea(idea_id="idea-0001", number=1, round=1, proposal=PROPOSAL, model="m", seed=1)
SECOND = Attempt(idea_id="idea-0001", number=2, code_hash="c", note="")


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(0, 60))
def test_fresh_seeds_are_none_of_the_search(campaign_seed: int, count: int, searched: int) -> None:
    fresh = fresh_seeds(campaign_seed, count, searched)
    assert len(set(fresh)) == count
    assert not set(fresh) & set(trial_seeds(campaign_seed, searched))
    assert fresh == fresh_seeds(campaign_seed, count + 3, searched)[:count]
    assert all(0 <= seed < 2**31 for seed in fresh)


def specs_of(bench: CampaignBench) -> SpecFactory:
    return SpecFactory(config=bench.config, recipe=bench.recipe, paths=bench.paths)


def state_with(*events: SplitSpent) -> CampaignState:
    state = CampaignState()
    for number in (1, 2):
        state.apply(proposed(number))
    for event in events:
        state.apply(event)
    return state


def proposed(number: int, arm: Arm = "model") -> IdeaProposed:
    return idea_proposed(number, arm=arm)


def confirmations(specs: SpecFactory, seeds: Sequence[int]) -> list[TrialSpec]:
    return [specs.confirm(IDEA, SECOND, index, seed) for index, seed in enumerate(seeds)]


def test_confirmations_alone_see_the_test_split_with_seeds_of_their_own(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    views = {Split.VALIDATION: "/v/validation", Split.TEST: "/v/test"}
    bench.config = bench.config.model_copy(update={"views": views, "labels": views})
    specs = specs_of(bench)
    fresh = specs.fresh_seeds()
    confirm = confirmations(specs, fresh)
    confirm += [specs.confirm_baseline(index, seed) for index, seed in enumerate(fresh)]
    search = [*specs.baseline(), specs.baseline_pilot(), *specs.full(IDEA, SECOND)]
    assert {spec.sources.data for spec in confirm} == {"/v/test"}
    assert {spec.sources.labels for spec in confirm} == {"/v/test"}
    assert {spec.sources.data for spec in search} == {"/v/validation"}
    assert not {spec.seed for spec in confirm} & {spec.seed for spec in search}
    assert confirm[0].trial_id == "idea-0001-a2-confirm-0"
    assert len(fresh) == bench.seeds
    bench.configure(loop={"confirm_seeds": 7})
    assert specs_of(bench).fresh_seeds()[: bench.seeds] == fresh
    assert len(specs_of(bench).fresh_seeds()) == 7


def test_nobody_sees_the_test_split_before_the_journal_says_so(tmp_path: Path) -> None:
    specs = specs_of(CampaignBench(tmp_path, ideas=1))
    own = specs.confirm(IDEA, SECOND, 0, SEEDS[0])
    theirs = specs.confirm_baseline(0, SEEDS[0])
    mine = SplitSpent(idea_id="idea-0001", attempt=2, seeds=SEEDS)
    for spec in (own, theirs):
        looks.guard_test_split(spec, state_with(mine))
        with pytest.raises(SplitGuarded, match="journal"):
            looks.guard_test_split(spec, state_with())
    for other in ({"idea_id": "idea-0002"}, {"attempt": 1}, {"seeds": (12, 13)}):
        with pytest.raises(SplitGuarded, match="idea-0001-a2-confirm-0"):
            looks.guard_test_split(own, state_with(mine.model_copy(update=other)))
    looks.guard_test_split(theirs, state_with(mine.model_copy(update={"idea_id": "idea-0002"})))
    baseline = state_with(SplitSpent(idea_id=BASELINE_ID, attempt=1, seeds=SEEDS))
    looks.guard_test_split(theirs, baseline)
    with pytest.raises(SplitGuarded, match="journal"):
        looks.guard_test_split(own, baseline)
    for changed in ({"stage": Stage.SEEDS}, {"split": Split.VALIDATION}):
        wrong = own.model_copy(update=changed)
        with pytest.raises(SplitGuarded, match=rf"\b{wrong.stage}\b.*\b{wrong.split}\b"):
            looks.guard_test_split(wrong, state_with(mine))


def test_a_trial_that_is_guarded_is_neither_queued_nor_run(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    state, ran = CampaignState(), ScriptedTrials(bench.paths, lambda spec: scored(0.5))
    journal = Journal(bench.paths.journal, state.apply)
    runner = TrialRunner(bench.paths, journal, state, ran, generation=1, retries=0, pause_s=0.0)
    specs = confirmations(specs_of(bench), SEEDS)
    journal.record(proposed(1))
    with pytest.raises(SplitGuarded):
        asyncio.run(runner.run(specs))
    assert ran.ran == []
    assert not state.trials
    assert not any(bench.paths.trials.iterdir())
    journal.record(SplitSpent(idea_id="idea-0001", attempt=2, seeds=SEEDS))
    assert len(asyncio.run(runner.run(specs))) == len(SEEDS)
    journal.close()


def written(idea_id: str, code_hash: str) -> AttemptWritten:
    return AttemptWritten(
        idea_id=idea_id, attempt=1, code_hash=code_hash, parent=0, kind="draft", note_hash=""
    )


def ran(state: CampaignState, idea_id: str, hashes: dict[int, str], stage: Stage) -> None:
    for seed, predicted in hashes.items():
        name = f"{idea_id}-{stage.value}-{seed}"
        state.apply(trial_queued(name, idea_id, stage, seed))
        outcome = Scored(metrics={"accuracy": 0.5})
        report = TrialReport(
            trial_id=name, run=1, outcome=outcome, usage=USAGE, predictions_hash=predicted
        )
        state.apply(TrialEnded(idea_id=idea_id, report=report))


def campaign(
    reference: dict[int, str], *ideas: dict[int, str], arm: Arm = "model"
) -> CampaignState:
    """A campaign whose ideas predicted so, with code of their own."""
    state = CampaignState()
    ran(state, BASELINE_ID, reference, Stage.BASELINE)
    for number, hashes in enumerate(ideas, 1):
        idea_id = f"idea-{number:04}"
        state.apply(proposed(number, arm))
        state.apply(written(idea_id, f"code {number}"))
        ran(state, idea_id, hashes, Stage.SEEDS)
        state.apply(IdeaEnded(idea_id=idea_id, status="scored", reason=None, attempt=1))
    return state


def test_the_later_of_two_ideas_with_the_same_predictions_is_the_copy() -> None:
    first = {1: "a", 2: "b", 3: "c"}
    cases: list[tuple[dict[int, str], bool]] = [
        (first, True),
        ({1: "a", 2: "b", 3: "x"}, False),
        ({1: "a", 2: "b"}, True),  # of it fewer seeds were run
        (first | {4: "d"}, True),  # and of this more
        ({1: "b", 2: "b", 3: "b"}, True),  # one file of it, for every seed
        ({1: "x", 2: "y", 3: "z"}, False),
        ({}, False),
    ]
    for hashes, is_copy in cases:
        state = campaign({1: "r", 2: "s", 3: "t"}, first, hashes, hashes)
        found = duplicates.repeated(state)
        assert ("idea-0002" in found) is is_copy, hashes
        assert "idea-0001" not in found
        if is_copy:
            assert found["idea-0003"] == "idea-0001", "the copy of a copy has the same original"
            said = duplicates.said(state, "idea-0002", "idea-0001")
            assert said == "its predictions are those of idea-0001"


def test_one_seed_of_several_makes_no_copy() -> None:
    left_early = {1: "a"}
    assert duplicates.repeated(campaign({1: "r"}, left_early, {1: "a", 2: "b"})) == {}
    found = duplicates.repeated(campaign({1: "r"}, {1: "a", 2: "b"}, left_early))
    assert found == {"idea-0002": "idea-0001"}, "all that it ran are the other's"


def test_what_repeats_the_reference_is_no_finding_but_the_control_arm_may() -> None:
    reference = {1: "r", 2: "s"}
    found = duplicates.repeated(campaign(reference, reference))
    assert found == {"idea-0001": BASELINE_ID}
    said = duplicates.said(campaign(reference, reference), "idea-0001", BASELINE_ID)
    assert "unchanged reference" in said
    assert duplicates.repeated(campaign(reference, reference, arm="control")) == {}


def test_on_the_test_split_those_that_were_let_to_it_are_compared() -> None:
    state = campaign({1: "r"}, {1: "a"}, {1: "b"})
    for idea_id in ("idea-0001", "idea-0002"):
        state.apply(SplitSpent(idea_id=idea_id, attempt=1, seeds=(7, 8)))
        ran(state, idea_id, {7: "x", 8: "y"}, Stage.CONFIRM)
    assert duplicates.repeated(state) == {}
    assert duplicates.repeated_on_test(state) == {"idea-0002": "idea-0001"}


@pytest.mark.parametrize(
    ("failure", "avoided"), [(MachineFailure.SCORER, set()), (MachineFailure.NODE, {"n1"})]
)
def test_a_scorer_that_fails_is_not_the_nodes_fault(
    tmp_path: Path, failure: MachineFailure, avoided: set[str]
) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    failed = MachineFailed(failure=failure, detail="x")
    state, backend = CampaignState(), ScriptedTrials(bench.paths, lambda spec: failed, node="n1")
    journal = Journal(bench.paths.journal, state.apply)
    runner = TrialRunner(bench.paths, journal, state, backend, generation=1, retries=2, pause_s=0.0)
    asyncio.run(runner.run(specs_of(bench).baseline()[:1]))
    journal.close()
    assert backend.avoided == avoided
