from __future__ import annotations

from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedProposer, scored
from event_kit import driver_started, idea_proposed, trial_queued

from hpcscientist.errors import NoRunDirectory, RunDirectoryError
from hpcscientist.history import frozen, journal
from hpcscientist.history.state import fold
from hpcscientist.history.status import read_state, status
from hpcscientist.judgement.summary import read_rows
from hpcscientist.records.events import (
    BatchQueued,
    CampaignEnded,
    DriverStopped,
    Event,
    ReplyRecorded,
    TrialEnded,
    TrialStarted,
)
from hpcscientist.records.trial import (
    Intent,
    MachineFailed,
    MachineFailure,
    Outcome,
    RunId,
    Stage,
    TrialReport,
    TrialSpec,
    Usage,
)

PROPOSED = idea_proposed()
QUEUED = trial_queued("t", "idea-0001", Stage.PILOT)
STARTED = TrialStarted(trial_id="t", run=1, generation=1)
STOPPED = DriverStopped(generation=1, reason="SIGTERM", failed=False, lets_go=False)


def test_stopped_trials_wait_again() -> None:
    assert fold([PROPOSED, QUEUED]).trials["t"].phase == "queued"
    assert fold([PROPOSED, QUEUED, STARTED]).trials["t"].phase == "running"
    assert fold([PROPOSED, QUEUED, STARTED, STOPPED]).trials["t"].phase == "queued"


def test_a_trial_that_its_driver_did_not_stop_goes_on() -> None:
    let_go = STOPPED.model_copy(update={"lets_go": True})
    killed = [PROPOSED, QUEUED, STARTED, driver_started(2)]
    for events in ([PROPOSED, QUEUED, STARTED, let_go], killed):
        state = fold(events)
        assert state.trials["t"].phase == "running"
        assert state.count_trials("running") == 1


def test_tokens_add_up() -> None:
    reply = ReplyRecorded(
        idea_id="idea-0001",
        call="propose/1",
        prompt_tokens=3,
        completion_tokens=4,
        tokens_estimated=False,
        latency_s=1.0,
        role="code",
        asked=1,
    )
    state = fold([reply, reply.model_copy(update={"call": "code/1"})])
    assert (state.prompt_tokens, state.completion_tokens) == (6, 8)


async def test_fold_of_the_file_is_the_state_of_the_driver(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2)

    def judge(spec: TrialSpec) -> Outcome | None:
        return None if spec.stage is Stage.PILOT and spec.run == 1 else scored(0.5)

    await bench.drive(judge, ScriptedProposer("one two", "three four"))
    assert fold(journal.read(bench.paths.journal)) == bench.state
    for phase in ("queued", "running", "scored", "failed"):
        counted = sum(trial.phase == phase for trial in bench.state.trials.values())
        assert bench.state.count_trials(phase) == counted


@pytest.mark.parametrize(
    ("last", "phase"),
    [
        (None, "stopped"),
        (STOPPED, "stopped"),
        (STOPPED.model_copy(update={"failed": True}), "failed"),
        (CampaignEnded(), "finished"),
    ],
)
def test_phase_without_a_driver(last: object, phase: str, tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    opened = journal.Journal(bench.paths.journal, lambda event: None)
    for event in (PROPOSED, last):
        if event is not None:
            opened.record(event)  # type: ignore[arg-type]
    opened.close()
    assert status(bench.paths)["state"] == phase


def test_folder_that_is_no_run_directory(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    bench.paths.campaign.unlink()
    with pytest.raises(NoRunDirectory, match=str(bench.paths.root)):
        read_state(bench.paths)
    with pytest.raises(NoRunDirectory, match=str(bench.paths.root)):
        frozen.read(bench.paths)


def test_frozen_configuration_comes_back(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=3)
    assert frozen.read(bench.paths) == bench.config
    assert bench.paths.campaign.stat().st_mode & 0o077 == 0
    bench.paths.campaign.write_text("[broken")
    with pytest.raises(RunDirectoryError, match="restore"):
        frozen.read(bench.paths)


def test_journal_with_a_hole_is_refused_in_one_line() -> None:
    with pytest.raises(RunDirectoryError, match=f"{STARTED.key} .*order"):
        fold([STARTED])


@pytest.mark.parametrize(
    ("trial", "idea"), [("t", "idea-0001"), ("u", "idea-0002")], ids=["again", "of another"]
)
def test_an_end_that_cannot_be_is_refused(trial: str, idea: str) -> None:
    """A changed id leaves another trial without an end: its idea would have a seed less."""
    other = trial_queued("u", "idea-0001", Stage.PILOT)
    ends = [
        TrialEnded(
            idea_id=idea_id,
            report=TrialReport(
                trial_id=trial_id,
                run=1,
                outcome=scored(0.5),
                usage=Usage(started_at=1.0, ended_at=2.0),
            ),
        )
        for trial_id, idea_id in (("t", "idea-0001"), (trial, idea))
    ]
    assert fold([PROPOSED, QUEUED, other, ends[0]]).count_trials("scored") == 1
    with pytest.raises(RunDirectoryError, match=ends[1].key):
        fold([PROPOSED, QUEUED, other, *ends])


async def test_a_journalled_score_beyond_any_metric_was_not_measured(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2)

    def judge(spec: TrialSpec) -> Outcome:
        diverges = spec.trial_id == "idea-0001-a1-search-0"
        return scored(1e160 if diverges else 0.5 + spec.seed % 7 / 100)

    await bench.drive(judge, ScriptedProposer("one two", "three four"))
    assert {status for status, _ in bench.ended().values()} == {"scored"}
    assert len(bench.state.scores("idea-0001", 1, "accuracy")) == bench.seeds - 1
    row = read_rows(bench.paths).rows[1]
    assert (row.idea_id, row.n) == ("idea-0001", bench.seeds - 1)
    assert read_rows(bench.paths).missing.count == 0


def test_a_batch_is_an_intent_until_each_of_its_runs_has_ended() -> None:
    def queued(trial: str, run: int = 1) -> Event:
        return trial_queued(trial, "idea-0001", Stage.PILOT).model_copy(update={"run": run})

    def batch(name: str, *runs: tuple[str, int]) -> BatchQueued:
        elements = tuple((RunId(trial_id=trial, run=run),) for trial, run in runs)
        return BatchQueued(batch_id=name, generation=1, elements=elements)

    def ended(trial: str, run: int = 1, lost: bool = False) -> TrialEnded:
        gone = MachineFailed(failure=MachineFailure.LOST, detail="gone")
        report = TrialReport(
            trial_id=trial,
            run=run,
            outcome=gone if lost else scored(0.5),
            usage=Usage(started_at=1.0, ended_at=2.0),
        )
        return TrialEnded(idea_id="idea-0001", report=report)

    state = fold([PROPOSED, queued("a"), queued("b")])
    assert state.intents.open() == []
    first = batch("b1", ("a", 1), ("b", 1))
    state.apply(first)
    assert state.intents.open() == [Intent("b1", first.elements)]
    state.apply(ended("a", lost=True))
    assert [intent.batch_id for intent in state.intents.open()] == ["b1"]
    state.apply(batch("b2", ("b", 1)))  # nothing of it was queued in the first, or it was unbegun
    assert [intent.batch_id for intent in state.intents.open()] == ["b2"]
    state.apply(queued("a", run=2))
    state.apply(batch("b3", ("a", 2)))
    state.apply(ended("b"))
    assert [intent.batch_id for intent in state.intents.open()] == ["b3"]
    state.apply(ended("a", run=2))
    assert state.intents.open() == []
