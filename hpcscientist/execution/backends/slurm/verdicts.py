"""What Slurm's account of an array task means for the trial that was under way in it.

The worker writes the outcome of whatever it sees. This is for the rest: the worker itself was
killed, so there is no result, and only Slurm knows why.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from hpcscientist.execution.backends.slurm.states import Cause
from hpcscientist.records.outcome import (
    IdeaFailed,
    IdeaFailure,
    MachineFailed,
    MachineFailure,
)
from hpcscientist.records.trial import TrialReport, TrialSpec, Usage

# Slurm's and the kernel's words where a job's memory ran out and the state does not say so.
_MEMORY_WORDS = re.compile(
    r"oom[- _]kill|out of memory|exceeded (job|step|task)? ?memory limit|memory limit.*exceeded",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a task that ended without its trial's result.

    `ran_s`: seconds since the trial began in it; None: it had not begun. `said`: the end of
    the task's log.
    """

    cause: Cause
    state: str
    node: str
    job: str
    said: str
    ran_s: float | None
    killed_by: int = 0


def judge(spec: TrialSpec, seen: Evidence) -> TrialReport:
    """Return the report of a trial that left no result."""
    now = time.time()
    return TrialReport(
        trial_id=spec.trial_id,
        run=spec.run,
        outcome=_outcome(spec, seen),
        usage=Usage(
            started_at=now - (seen.ran_s or 0.0),
            ended_at=now,
            node=seen.node,
            slurm_job=seen.job,
            slurm_state=seen.state,
        ),
    )


def _outcome(spec: TrialSpec, seen: Evidence) -> IdeaFailed | MachineFailed:
    where = f"job {seen.job}" + (f" on {seen.node}" if seen.node else "")
    began = seen.ran_s is not None
    if began and (seen.cause is Cause.MEMORY or _MEMORY_WORDS.search(seen.said)):
        detail = f"Slurm ended it for its memory: more than {spec.limits.memory_mb} MiB ({where})"
        return IdeaFailed(failure=IdeaFailure.OUT_OF_MEMORY, detail=detail)
    if seen.cause is Cause.WALLTIME and (seen.ran_s or 0.0) >= spec.limits.deadline_s:
        detail = f"it ran into the array task's time limit, past its own deadline ({where})"
        return IdeaFailed(failure=IdeaFailure.TIMEOUT, detail=detail)
    failure, words = _MACHINE.get(seen.cause, _LOST)
    tail = "" if began else "; its worker had not begun"
    last = seen.said.strip().splitlines()[-1:] if seen.cause is Cause.FAILED else []
    said = f": {last[0].strip()[:200]}" if last else ""
    return MachineFailed(failure=failure, detail=f"{words} ({where}, {seen.state}){tail}{said}")


_LOST = (MachineFailure.LOST, "the array task ended without a result")
_MACHINE = {
    Cause.NODE: (MachineFailure.NODE, "its node failed"),
    Cause.WALLTIME: (MachineFailure.WALLTIME, "its array task ran into its time limit"),
    Cause.MEMORY: (MachineFailure.SETUP, "its array task ran out of memory at the start"),
    Cause.CANCELLED: (MachineFailure.CANCELLED, "its array task was cancelled from outside"),
    Cause.PREEMPTED: (MachineFailure.PREEMPTED, "its array task was preempted"),
    Cause.VANISHED: (MachineFailure.LOST, "Slurm knows nothing of its array task any more"),
}
