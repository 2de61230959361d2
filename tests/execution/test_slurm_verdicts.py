"""What Slurm's account of an array task means for its trial."""

from __future__ import annotations

from pathlib import Path

import pytest
from trialkit import Bench

from hpcscientist.execution.backends.slurm.states import Cause
from hpcscientist.execution.backends.slurm.verdicts import Evidence, judge
from hpcscientist.records.outcome import IdeaFailed, IdeaFailure, MachineFailed, MachineFailure
from hpcscientist.records.trial import TrialSpec


@pytest.fixture
def spec(tmp_path: Path) -> TrialSpec:
    return Bench(tmp_path).prepare().trial("predict()")


def evidence(cause: Cause, ran_s: float | None = 1.0, said: str = "") -> Evidence:
    return Evidence(cause, cause.name, "n1", "7_3", said, ran_s)


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (Cause.MEMORY, ""),
        (Cause.FAILED, "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.batch"),
        (Cause.CANCELLED, "slurmstepd: error: Exceeded job memory limit"),
        (
            Cause.FAILED,
            "slurmstepd: error: StepId=7.batch exceeded memory limit (9 > 8), being killed",
        ),
    ],
)
def test_memory_is_the_ideas(spec: TrialSpec, cause: Cause, said: str) -> None:
    outcome = judge(spec, evidence(cause, said=said)).outcome
    assert isinstance(outcome, IdeaFailed)
    assert outcome.failure is IdeaFailure.OUT_OF_MEMORY


def test_the_time_limit_is_the_ideas_only_past_its_own_deadline(spec: TrialSpec) -> None:
    late = judge(spec, evidence(Cause.WALLTIME, spec.limits.deadline_s + 1)).outcome
    early = judge(spec, evidence(Cause.WALLTIME, spec.limits.deadline_s / 2)).outcome
    assert isinstance(late, IdeaFailed)
    assert late.failure is IdeaFailure.TIMEOUT
    assert isinstance(early, MachineFailed)
    assert early.failure is MachineFailure.WALLTIME


@pytest.mark.parametrize(
    ("cause", "failure"),
    [
        (Cause.NODE, MachineFailure.NODE),
        (Cause.CANCELLED, MachineFailure.CANCELLED),
        (Cause.PREEMPTED, MachineFailure.PREEMPTED),
        (Cause.VANISHED, MachineFailure.LOST),
        (Cause.FAILED, MachineFailure.LOST),
        (Cause.DONE, MachineFailure.LOST),
    ],
)
def test_the_machines_failures(spec: TrialSpec, cause: Cause, failure: MachineFailure) -> None:
    report = judge(spec, evidence(cause))
    assert isinstance(report.outcome, MachineFailed)
    assert report.outcome.failure is failure
    assert (report.usage.node, report.usage.slurm_job) == ("n1", "7_3")
    assert report.usage.slurm_state == cause.name
    assert "7_3 on n1" in report.outcome.detail


def test_nothing_is_the_ideas_before_it_began(spec: TrialSpec) -> None:
    for cause in Cause:
        report = judge(spec, evidence(cause, ran_s=None, said="out of memory"))
        assert isinstance(report.outcome, MachineFailed)
        assert "had not begun" in report.outcome.detail
