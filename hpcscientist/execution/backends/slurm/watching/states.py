"""What Slurm's job states mean for a trial. Every state has an entry; none is guessed.

Source: the sections "JOB STATE CODES" of squeue(1) and sacct(1).
"""

from __future__ import annotations

import re
from enum import StrEnum

from hpcscientist.records.runs import EndState


class Phase(StrEnum):
    """Where an array task stands."""

    WAITING = "waiting"  # it will run, or run again
    RUNNING = "running"
    ENDED = "ended"  # it will never run again under this job id


_WAITING = {
    "PENDING",
    "CONFIGURING",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "SPECIAL_EXIT",
    "RESV_DEL_HOLD",
    "RECONFIG_FAIL",
    "POWER_UP_NODE",
    "EXPEDITING",
}
_RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"}
_ENDED = {
    "COMPLETED": EndState.ENDED,
    "FAILED": EndState.FAILED,
    "TIMEOUT": EndState.TIMEOUT,
    "DEADLINE": EndState.TIMEOUT,
    "OUT_OF_MEMORY": EndState.OUT_OF_MEMORY,
    "NODE_FAIL": EndState.NODE_FAIL,
    "BOOT_FAIL": EndState.NODE_FAIL,
    "LAUNCH_FAILED": EndState.NODE_FAIL,
    "PREEMPTED": EndState.PREEMPTED,
    "CANCELLED": EndState.CANCELLED,
    "REVOKED": EndState.CANCELLED,
}
STATES = frozenset(_WAITING | _RUNNING | set(_ENDED))

# Reasons of a pending job that no waiting mends: what was asked for can never be granted. A
# partition that is down or drained is no such reason: it will be up again.
_NEVER = re.compile(
    r"Bad ?Constraints|Invalid|PartitionTimeLimit|AssocMax\w*(PerJob|Wall)|QOSMax\w*(PerJob|Wall)"
    r"|QOSMin|AccountNotAllowed|QOSNotAllowed|DependencyNeverSatisfied",
    re.IGNORECASE,
)

# Slurm itself holds what it could not start, or started too often: nobody will release it.
_HELD = re.compile(r"launch failed requeued held|JobHoldMaxRequeue", re.IGNORECASE)
_HELD_STATES = {"REQUEUE_HOLD", "SPECIAL_EXIT"}


def phase(state: str) -> Phase:
    """Return where a task with this state stands. An unknown state counts as running.

    A state that a newer Slurm invents must not end a trial: its files, or its disappearance
    from the queue, will.
    """
    word = _word(state)
    if word in _WAITING:
        return Phase.WAITING
    return Phase.ENDED if word in _ENDED else Phase.RUNNING


def cause(state: str) -> EndState:
    """Return why a task with this state ended; LOST for one that did not end."""
    return _ENDED.get(_word(state), EndState.LOST)


def can_never_run(reason: str) -> bool:
    """Tell whether a pending job's reason is one that only people can mend."""
    return bool(_NEVER.search(reason))


def is_held_by_slurm(state: str, reason: str) -> bool:
    """Tell whether Slurm gave a task up after its node could not run it."""
    return _word(state) in _HELD_STATES or bool(_HELD.search(reason))


def _word(state: str) -> str:
    """`CANCELLED by 1000` and `CANCELLED+` are CANCELLED."""
    return re.split(r"[ +]", state.strip(), maxsplit=1)[0].upper()
