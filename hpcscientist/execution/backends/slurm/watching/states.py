"""What Slurm's job states and reasons mean for a trial. Every known state has an entry.

Source: the sections "JOB STATE CODES" of squeue(1) and sacct(1).
"""

from __future__ import annotations

import re
from enum import StrEnum

from hpcscientist.records.trial import EndState


class Phase(StrEnum):
    """The phase of an array task."""

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

# Why a job waits: each of Slurm's reasons is in one of these, or may pass by itself. Source:
# job_state_reason.c. A partition that is down or has too few nodes up may recover. So may
# PartitionConfig and PartitionNodeLimit, which Slurm also reports for drained nodes.
_NEVER = re.compile(
    r"InvalidAccount|InvalidQOS|ReservationDeleted|ReservationInvalid|DependencyNeverSatisfied"
    r"|DeadLine|AssocMax\w*(PerJob|PerNode|Wall)",
    re.IGNORECASE,
)
# For a job with several partitions, Slurm reports the reason of the last one that it tried.
_NEVER_THERE = re.compile(
    r"Bad ?Constraints|PartitionTimeLimit|AccountNotAllowed|QOSNotAllowed|MaxMemPerLimit|QOSMin"
    r"|QOSMax\w*(PerJob|PerNode|Wall)",
    re.IGNORECASE,
)
# Only ends of the user's own jobs make room, so if none of them runs, there never will be room.
_OWN = re.compile(r"QOSMax\w*PerUser|Max\w*RunMinsPerUser|AssocMaxJobsLimit", re.IGNORECASE)
_USED_UP = re.compile(r"(Assoc|QOS)Grp(?!\w*Run)\w*Minutes", re.IGNORECASE)
# Slurm updates a job's reason some time after the cause has changed.
_STALE_S, _LONG_S = 600.0, 1800.0

# Slurm itself holds a job that it could not start, or requeued too often: nobody will release it.
_HELD = re.compile(r"launch failed requeued held|JobHoldMaxRequeue", re.IGNORECASE)
_HELD_STATES = {"REQUEUE_HOLD", "SPECIAL_EXIT"}


def phase(state: str) -> Phase:
    """Return the phase of a task with this state. An unknown state counts as running.

    A state that a newer Slurm introduces must not end a trial. The trial's files end it, or its
    disappearance from the queue.
    """
    word = _word(state)
    if word in _WAITING:
        return Phase.WAITING
    return Phase.ENDED if word in _ENDED else Phase.RUNNING


def cause(state: str) -> EndState:
    """Return why a task with this state ended; LOST if the state is not an end."""
    return _ENDED.get(_word(state), EndState.LOST)


def can_never_run(reason: str, partitions: str = "") -> bool:
    """Return whether only people can remove a pending job's reason to wait."""
    return patience_s(reason, partitions) == 0.0


def patience_s(reason: str, partitions: str = "", is_busy: bool = True) -> float | None:
    """Return the seconds after which a job with this reason counts as stuck; None: it may run.

    `partitions`: those that it may go to. `is_busy`: whether any of the user's jobs runs.
    """
    if _NEVER.search(reason):
        return 0.0
    if _NEVER_THERE.search(reason):
        return _LONG_S if "," in partitions else 0.0
    return _STALE_S if _OWN.search(reason) and not is_busy else None


def meaning(reason: str) -> str:
    """Return a reason, with an explanation if its name does not suffice."""
    used_up = ": the hours of the account or QOS are used up, and it waits for new ones"
    return reason + used_up * bool(_USED_UP.search(reason))


def is_held_by_slurm(state: str, reason: str) -> bool:
    """Return whether Slurm holds a task because its node could not run it."""
    return _word(state) in _HELD_STATES or bool(_HELD.search(reason))


def _word(state: str) -> str:
    """Return a state's name: CANCELLED for `CANCELLED by 1000` and `CANCELLED+`."""
    return re.split(r"[ +]", state.strip(), maxsplit=1)[0].upper()
