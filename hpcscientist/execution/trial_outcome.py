"""What the end of a run means for its trial: one pure function, for every backend.

The worker writes the outcome of everything it sees. A run without a result had its worker ended,
and only the backend can say why.
"""

from __future__ import annotations

import re

from hpcscientist.records.trial import (
    NOTHING_LOST,
    Ended,
    EndState,
    IdeaFailed,
    IdeaFailure,
    MachineFailed,
    MachineFailure,
    TrialReport,
    TrialSpec,
    Usage,
)

# Messages of Slurm and the kernel about a job's memory, for when the state does not name it.
_MEMORY_WORDS = re.compile(
    r"oom[- _]kill|out of memory|exceeded (job|step|task)? ?memory limit|memory limit.*exceeded",
    re.IGNORECASE,
)


def classify_end(spec: TrialSpec, ended: Ended, result: TrialReport | None) -> TrialReport | None:
    """Return a run's report; None if the trial is to be rerun and nothing was lost.

    `result` is the content of its result file, if that is valid.
    """
    if result is not None and result.run == spec.run:
        return result
    if ended.state in NOTHING_LOST:
        return None
    return TrialReport(
        trial_id=spec.trial_id,
        run=spec.run,
        outcome=_outcome(spec, ended),
        usage=Usage(
            started_at=ended.ended_at if ended.began_at is None else ended.began_at,
            ended_at=ended.ended_at,
            node=ended.node,
            slurm_job=ended.job,
            slurm_state=ended.scheduler_state,
        ),
    )


def _outcome(spec: TrialSpec, ended: Ended) -> IdeaFailed | MachineFailed:
    began = ended.began_at is not None
    ran_s = ended.ended_at - (ended.began_at if ended.began_at is not None else ended.ended_at)
    by_scheduler = ended.job is not None
    if (
        by_scheduler
        and began
        and (ended.state is EndState.OUT_OF_MEMORY or _MEMORY_WORDS.search(ended.said))
    ):
        detail = (
            f"Slurm ended it for its memory: more than {spec.limits.memory_mb} MiB{_where(ended)}"
        )
        return IdeaFailed(failure=IdeaFailure.OUT_OF_MEMORY, detail=detail)
    if ended.state is EndState.TIMEOUT and ran_s >= spec.limits.deadline_s:
        detail = f"it ran into the array task's time limit, past its own deadline{_where(ended)}"
        return IdeaFailed(failure=IdeaFailure.TIMEOUT, detail=detail)
    if not by_scheduler:
        why = ended.why or f"the worker ended without a result; see {spec.trial_id}/log"
        return MachineFailed(failure=MachineFailure.LOST, detail=why)
    where = _where(ended, ended.scheduler_state)
    failure, words = _MACHINE.get(ended.state, _LOST)
    tail = "" if began else "; its worker had not begun"
    # Only the last line: a traceback above may be from another trial of the same element.
    last = ended.said.strip().splitlines()[-1:] if ended.state is EndState.FAILED else []
    said = f": {last[0].strip()[:200]}" if last else ""
    return MachineFailed(failure=failure, detail=f"{ended.why or words}{where}{tail}{said}")


def _where(ended: Ended, state: str | None = None) -> str:
    """Return the job, its node and, if given, the scheduler's `state`, for a message."""
    if ended.job is None:
        return ""
    node = f" on {ended.node}" if ended.node else ""
    called = f", {state}" if state else ""
    return f" (job {ended.job}{node}{called})"


_LOST = (MachineFailure.LOST, "the array task ended without a result")
_MACHINE = {
    EndState.NODE_FAIL: (MachineFailure.NODE, "its node failed"),
    EndState.TIMEOUT: (MachineFailure.WALLTIME, "its array task ran into its time limit"),
    EndState.OUT_OF_MEMORY: (
        MachineFailure.SETUP,
        "its array task ran out of memory at the start",
    ),
    EndState.CANCELLED: (MachineFailure.CANCELLED, "its array task was cancelled from outside"),
    EndState.LOST: (MachineFailure.LOST, "Slurm knows nothing of its array task any more"),
}
