"""What a candidate's end means: the one place that tells idea failures from machine failures."""

from __future__ import annotations

import errno
import signal

from hpcscientist.execution.supervise import Ended, Reason
from hpcscientist.execution.words import headline
from hpcscientist.records.outcome import IdeaFailed, IdeaFailure, MachineFailed, MachineFailure
from hpcscientist.records.trial import Isolation, TrialSpec

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_APPTAINER_FATAL_EXIT = 255


def idea_failed(failure: IdeaFailure, detail: str) -> IdeaFailed:
    """Blame the candidate."""
    return IdeaFailed(failure=failure, detail=detail)


def machine_failed(failure: MachineFailure, detail: str) -> MachineFailed:
    """Blame what is around the candidate."""
    return MachineFailed(failure=failure, detail=detail)


def of_error(error: OSError) -> MachineFailed:
    """Return what an operating system error outside the candidate means."""
    said = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
    full = error.errno in NO_SPACE
    return machine_failed(MachineFailure.DISK_FULL if full else MachineFailure.SETUP, said)


def classify(spec: TrialSpec, ended: Ended, tail: str) -> IdeaFailed | MachineFailed | None:
    """Return why a candidate's end is a failure; None when its predictions may be scored.

    `tail` is the end of its log.
    """
    if ended.survivors:
        pids = ", ".join(map(str, ended.survivors))
        detail = f"processes {pids} of the candidate could not be killed: end them by hand"
        return machine_failed(MachineFailure.SETUP, detail)
    return _by_bound(spec, ended) or _by_exit(spec, ended, headline(tail))


def _by_bound(spec: TrialSpec, ended: Ended) -> IdeaFailed | None:
    limits = spec.limits
    if ended.reason is Reason.DEADLINE:
        detail = f"it ran past its deadline of {limits.deadline_s:g} s"
        return idea_failed(IdeaFailure.TIMEOUT, detail)
    if ended.reason is Reason.MEMORY:
        detail = f"it used more than the {limits.memory_mb} MiB of memory allowed"
        return idea_failed(IdeaFailure.OUT_OF_MEMORY, detail)
    if ended.reason is Reason.OUTPUT or ended.signal == signal.SIGXFSZ:
        detail = f"it wrote more than the {limits.output_mb} MiB or the number of files allowed"
        return idea_failed(IdeaFailure.ERROR, detail)
    if ended.signal == signal.SIGKILL:
        detail = "killed by signal 9, most often for lack of memory"
        return idea_failed(IdeaFailure.OUT_OF_MEMORY, detail)
    return None


def _by_exit(spec: TrialSpec, ended: Ended, said: str) -> IdeaFailed | MachineFailed | None:
    if ended.signal is not None:
        detail = f"killed by signal {ended.signal}: {said or 'nothing printed'}"
        return idea_failed(IdeaFailure.ERROR, detail)
    if ended.exit_code == 0:
        return None
    contained = spec.isolation is Isolation.APPTAINER
    if contained and ended.exit_code == _APPTAINER_FATAL_EXIT and said.startswith("FATAL"):
        return machine_failed(MachineFailure.SETUP, f"the container did not start: {said}")
    return idea_failed(
        IdeaFailure.ERROR, said or f"exit code {ended.exit_code}, with nothing printed"
    )
