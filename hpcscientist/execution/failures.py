"""Classify how a candidate ended: the one place that separates idea and machine failures."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from pathlib import Path

from hpcscientist.execution.bounds.supervise import CommandEnd, Reason
from hpcscientist.files.atomic import NO_SPACE
from hpcscientist.records.trial import (
    IdeaFailed,
    IdeaFailure,
    Isolation,
    MachineFailed,
    MachineFailure,
    TrialSpec,
)
from hpcscientist.system.inherited import limit_met

# One line of a log, for people and for the next prompt.

_LONGEST = 300
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
_TRACEBACK = "Traceback (most recent call last)"


def headline(text: str) -> str:
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


def classify(
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
        return _not_started(spec, ended, headline(start_failure))
    if spec.isolation is Isolation.APPTAINER:
        ended = _with_signal(ended)
    return _by_bound(spec, ended) or _by_exit(ended, headline(tail))


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


def _by_exit(ended: CommandEnd, said: str) -> IdeaFailed | None:
    if ended.signal is not None:
        detail = f"killed by signal {ended.signal}: {said or 'nothing printed'}"
        return idea_failed(IdeaFailure.ERROR, detail)
    if ended.exit_code == 0:
        return None
    return idea_failed(
        IdeaFailure.ERROR, said or f"exit code {ended.exit_code}, with nothing printed"
    )
