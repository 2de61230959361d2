"""What the end of a run means for its trial."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from trialkit import Bench

from hpcscientist.execution.trial_outcome import classify_end
from hpcscientist.records.trial import (
    NOTHING_LOST,
    Ended,
    EndState,
    IdeaFailed,
    IdeaFailure,
    MachineFailed,
    MachineFailure,
    Outcome,
    Scored,
    TrialReport,
    TrialSpec,
    Usage,
    run_of,
)


@pytest.fixture
def spec(tmp_path: Path) -> TrialSpec:
    return Bench(tmp_path).prepare().trial("predict()")


def ended(
    spec: TrialSpec, state: EndState, ran_s: float | None = 1.0, said: str = "", why: str = ""
) -> Ended:
    """An end in an array task."""
    began = None if ran_s is None else 1000.0 - ran_s
    return Ended(
        run_of(spec),
        state,
        ended_at=1000.0,
        began_at=began,
        node="n1",
        job="7_3",
        scheduler_state=state.name,
        said=said,
        why=why,
    )


def outcome(spec: TrialSpec, end: Ended) -> Outcome:
    report = classify_end(spec, end, None)
    assert report is not None
    return report.outcome


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (EndState.OUT_OF_MEMORY, ""),
        (EndState.FAILED, "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.batch"),
        (EndState.CANCELLED, "slurmstepd: error: Exceeded job memory limit"),
        (
            EndState.FAILED,
            "slurmstepd: error: StepId=7.batch exceeded memory limit (9 > 8), being killed",
        ),
    ],
)
def test_memory_is_the_ideas(spec: TrialSpec, state: EndState, said: str) -> None:
    found = outcome(spec, ended(spec, state, said=said))
    assert isinstance(found, IdeaFailed)
    assert found.failure is IdeaFailure.OUT_OF_MEMORY
    memory_mb = spec.limits.memory_mb
    assert found.detail == (
        f"Slurm ended it for its memory: more than {memory_mb} MiB (job 7_3 on n1)"
    )


def test_the_time_limit_is_the_ideas_only_past_its_own_deadline(spec: TrialSpec) -> None:
    late = outcome(spec, ended(spec, EndState.TIMEOUT, spec.limits.deadline_s + 1))
    early = outcome(spec, ended(spec, EndState.TIMEOUT, spec.limits.deadline_s / 2))
    assert isinstance(late, IdeaFailed)
    assert late.failure is IdeaFailure.TIMEOUT
    assert late.detail.endswith("(job 7_3 on n1)")
    assert isinstance(early, MachineFailed)
    assert early.failure is MachineFailure.WALLTIME


@pytest.mark.parametrize(
    ("state", "failure"),
    [
        (EndState.NODE_FAIL, MachineFailure.NODE),
        (EndState.CANCELLED, MachineFailure.CANCELLED),
        (EndState.LOST, MachineFailure.LOST),
        (EndState.FAILED, MachineFailure.LOST),
        (EndState.ENDED, MachineFailure.LOST),
    ],
)
def test_the_machines_failures(spec: TrialSpec, state: EndState, failure: MachineFailure) -> None:
    report = classify_end(spec, ended(spec, state), None)
    assert report is not None
    assert isinstance(report.outcome, MachineFailed)
    assert report.outcome.failure is failure
    assert (report.usage.node, report.usage.slurm_job) == ("n1", "7_3")
    assert report.usage.slurm_state == state.name
    assert (report.usage.started_at, report.usage.ended_at) == (999.0, 1000.0)
    assert f"(job 7_3 on n1, {state.name})" in report.outcome.detail


def test_nothing_is_the_ideas_before_it_began(spec: TrialSpec) -> None:
    for state in set(EndState) - set(NOTHING_LOST):
        found = outcome(spec, ended(spec, state, ran_s=None, said="out of memory"))
        assert isinstance(found, MachineFailed)
        assert "not begun" in found.detail


def test_what_cost_nothing_is_no_outcome(spec: TrialSpec) -> None:
    for state, ran_s in itertools.product(NOTHING_LOST, (None, 1.0)):
        assert classify_end(spec, ended(spec, state, ran_s), None) is None


def test_a_valid_result_stands_however_its_run_ended(spec: TrialSpec) -> None:
    result = TrialReport(
        trial_id=spec.trial_id,
        run=spec.run,
        outcome=Scored(metrics={"accuracy": 0.5}),
        usage=Usage(started_at=1.0, ended_at=2.0),
    )
    earlier = result.model_copy(update={"run": spec.run + 1})
    for state in EndState:
        assert classify_end(spec, ended(spec, state), result) is result
        assert classify_end(spec, ended(spec, state), earlier) is not earlier


@pytest.mark.parametrize(("why", "detail"), [("the worker hung", "the worker hung"), ("", "/log")])
def test_without_a_scheduler_the_backend_says_why(spec: TrialSpec, why: str, detail: str) -> None:
    end = Ended(run_of(spec), EndState.LOST, ended_at=2.0, began_at=1.0, why=why)
    found = outcome(spec, end)
    assert isinstance(found, MachineFailed)
    assert found.failure is MachineFailure.LOST
    assert detail in found.detail
