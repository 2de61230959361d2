"""What the end of a run means for its trial: one pure function, for every backend.

The worker writes the outcome of everything it sees. A run without a result had its worker ended,
and only the backend can say why.
"""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from pathlib import Path

from hpcscientist.execution.bounds.supervise import CommandEnd, Reason
from hpcscientist.files.atomic import NO_SPACE
from hpcscientist.records.trial import (
    NOTHING_LOST,
    Ended,
    EndState,
    IdeaFailed,
    IdeaFailure,
    Isolation,
    MachineFailed,
    MachineFailure,
    TrialReport,
    TrialSpec,
    Usage,
)
from hpcscientist.system.inherited import limit_met

# Classify how a candidate ended: the one place that separates idea and machine failures.


# One line of a log, for people and for the next prompt.

_LONGEST = 300
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
_TRACEBACK = "Traceback (most recent call last)"


def error_headline(text: str) -> str:
    """Return the exception line of the last traceback, else the last line that is not blank.

    Control characters are removed and long lines cut.
    """
    lines = [line for line in _CONTROL.sub("", text).splitlines() if line.strip()]
    if not lines:
        return ""
    return _exception(lines) or lines[-1].strip()[:_LONGEST]


def _exception(lines: list[str]) -> str | None:
    starts = [number for number, line in enumerate(lines) if _TRACEBACK in line]
    if not starts:
        return None
    after = lines[starts[-1] + 1 :]
    found = next((line for line in after if not line.startswith((" ", "\t"))), None)
    return found.strip()[:_LONGEST] if found else None


_SIGNAL_EXIT = 128  # Apptainer exits with this plus the number of the signal


def idea_failed(failure: IdeaFailure, detail: str) -> IdeaFailed:
    """Return an outcome that blames the candidate."""
    return IdeaFailed(failure=failure, detail=detail)


def machine_failed(failure: MachineFailure, detail: str) -> MachineFailed:
    """Return an outcome that blames the machine."""
    return MachineFailed(failure=failure, detail=detail)


def of_error(error: OSError, full: Path | None = None) -> MachineFailed:
    """Return the failure that an operating system error outside the candidate means.

    `full`: the folder that has no space left, if known.
    """
    place = full or error.filename  # a failed copy may name its source
    said = limit_met(error) or f"{error.strerror or error}" + (f": {place}" if place else "")
    kind = MachineFailure.DISK_FULL if error.errno in NO_SPACE else MachineFailure.SETUP
    return machine_failed(kind, said)


def classify_failure(
    spec: TrialSpec, ended: CommandEnd, tail: str, start_failure: str | None = None
) -> IdeaFailed | MachineFailed | None:
    """Return the failure that a candidate's end means; None if its predictions may be scored.

    `tail` is the end of its log, `start_failure` the reason why its container did not start.
    """
    if ended.survivors:
        pids = ", ".join(map(str, ended.survivors))
        detail = f"processes {pids} of the candidate could not be killed: end them by hand"
        return machine_failed(MachineFailure.SETUP, detail)
    if start_failure is not None and (ended.reason is not Reason.EXITED or ended.exit_code != 0):
        return _not_started(spec, ended, error_headline(start_failure))
    if spec.isolation is Isolation.APPTAINER:
        ended = _with_signal(ended)
    return _by_bound(spec, ended) or _by_exit(spec, ended, error_headline(tail))


def _not_started(spec: TrialSpec, ended: CommandEnd, said: str) -> MachineFailed:
    within = f" within {spec.limits.deadline_s:g} s" if ended.reason is Reason.DEADLINE else ""
    image = spec.sources.image
    detail = f"the container did not start{within}: {said}; try apptainer exec {image} true"
    return machine_failed(MachineFailure.SETUP, detail)


def _with_signal(ended: CommandEnd) -> CommandEnd:
    """Return the end, with the exit code converted if Apptainer reports a signal by it."""
    number = (ended.exit_code or 0) - _SIGNAL_EXIT
    if number not in signal.valid_signals():
        return ended
    return replace(ended, exit_code=None, signal=number)


def _by_bound(spec: TrialSpec, ended: CommandEnd) -> IdeaFailed | MachineFailed | None:
    limits, reason = spec.limits, ended.reason
    if reason is Reason.EXITED and ended.signal == signal.SIGXFSZ:
        reason = Reason.OUTPUT
    if reason is Reason.EXITED and ended.signal == signal.SIGKILL:
        return _killed(limits.memory_mb, ended)
    if reason not in _PASSED:
        return None
    failure, detail = _PASSED[reason]
    return idea_failed(failure, detail.format(limits=limits))


def _killed(limit_mb: int, ended: CommandEnd) -> IdeaFailed | MachineFailed:
    """Return the failure that a SIGKILL from another sender means.

    The kernel counts its out-of-memory kills, both in a job whose memory Slurm limits and on the
    whole node, where memory used by others may get our candidate killed. Any other sender of a
    SIGKILL stays unknown: it may be the code itself or somebody outside. So the trial is rerun if
    it used little memory.
    """
    if ended.starved:
        detail = "killed by signal 9: it used more than the memory that Slurm gave the job"
        return idea_failed(IdeaFailure.OUT_OF_MEMORY, detail)
    by_whom = _BY_WHOM[ended.node_starved]
    detail = f"killed by signal 9, with {ended.peak_mb:.0f} of {limit_mb} MiB in use: {by_whom}"
    if ended.peak_mb < limit_mb / 2:
        return machine_failed(MachineFailure.LOST, detail)
    by_memory = ended.node_starved is not False
    return idea_failed(IdeaFailure.OUT_OF_MEMORY if by_memory else IdeaFailure.ERROR, detail)


# Keys: whether the kernel killed any process on the node for lack of memory meanwhile; None: not
# known.
_BY_WHOM = {
    True: "by the kernel, most likely, for the node's memory ran out meanwhile",
    False: "by its own code, or by you, root or a daemon that frees memory; not by the kernel, "
    "which ended nothing for lack of memory",
    None: "by its own code, by you, root or a daemon, or by the kernel for lack of memory",
}


_PASSED = {
    Reason.DEADLINE: (
        IdeaFailure.TIMEOUT,
        "it ran past its deadline of {limits.deadline_s:g} s",
    ),
    Reason.MEMORY: (
        IdeaFailure.OUT_OF_MEMORY,
        "it used more than the {limits.memory_mb} MiB of memory allowed",
    ),
    Reason.OUTPUT: (
        IdeaFailure.ERROR,
        "it wrote more than the {limits.output_mb} MiB or the number of files allowed",
    ),
    Reason.PROCESSES: (
        IdeaFailure.ERROR,
        "it had more than the {limits.processes} processes and threads allowed",
    ),
    Reason.NAMESPACE: (
        IdeaFailure.ERROR,
        "it made a user namespace of its own, in which nothing it holds can be counted",
    ),
}


# What frameworks raise if a GPU has no memory left: PyTorch, CuPy and CUDA itself, JAX, TensorFlow.
_GPU_MEMORY = re.compile(
    r"(CUDA|HIP|XPU) out of memory|\bOutOfMemoryError\b|CUDA_ERROR_OUT_OF_MEMORY"
    r"|cudaErrorMemoryAllocation|RESOURCE_EXHAUSTED: (Out of memory|OOM)|OOM when allocating"
)


# What Python, OpenMP and others say if the kernel refuses a process or a thread. A candidate that
# starts many at once reads it before its watcher has counted them.
_NO_PROCESS = re.compile(r"can't start new thread|Resource temporarily unavailable")


def _by_exit(spec: TrialSpec, ended: CommandEnd, said: str) -> IdeaFailed | None:
    if ended.signal is not None:
        detail = f"killed by signal {ended.signal}: {said or 'nothing printed'}"
        return idea_failed(IdeaFailure.ERROR, detail)
    if ended.exit_code == 0:
        return None
    if spec.limits.gpus and _GPU_MEMORY.search(said):
        return idea_failed(IdeaFailure.OUT_OF_MEMORY, f"a GPU ran out of memory: {said}")
    if _NO_PROCESS.search(said):
        said = f"{said} ({spec.limits.processes} processes and threads are allowed)"
    return idea_failed(
        IdeaFailure.ERROR, said or f"exit code {ended.exit_code}, with nothing printed"
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
