"""What Slurm's job states mean for a trial. Every state has an entry; none is guessed.

Source: the sections "JOB STATE CODES" of squeue(1) and sacct(1).
"""

from __future__ import annotations

import re
from enum import StrEnum

from hpcscientist.records.trial import EndState


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

# Why a job waits: every reason that Slurm has is in one of these, or may end by itself. Source:
# job_state_reason.c. A partition that is down, or has too few nodes up, is no reason for ever:
# PartitionConfig and PartitionNodeLimit are said of nodes that are drained, too.
_NEVER = re.compile(
    r"InvalidAccount|InvalidQOS|ReservationDeleted|ReservationInvalid|DependencyNeverSatisfied"
    r"|DeadLine|AssocMax\w*(PerJob|PerNode|Wall)",
    re.IGNORECASE,
)
# Of a job that may go to several partitions Slurm tells the reason of the last one that it tried.
_NEVER_THERE = re.compile(
    r"Bad ?Constraints|PartitionTimeLimit|AccountNotAllowed|QOSNotAllowed|MaxMemPerLimit|QOSMin"
    r"|QOSMax\w*(PerJob|PerNode|Wall)",
    re.IGNORECASE,
)
# Only the end of the user's own jobs makes room, so with none running nothing ever will.
_OWN = re.compile(r"QOSMax\w*PerUser|Max\w*RunMinsPerUser|AssocMaxJobsLimit", re.IGNORECASE)
_USED_UP = re.compile(r"(Assoc|QOS)Grp(?!\w*Run)\w*Minutes", re.IGNORECASE)
# Slurm looks at a job again some time after what it waited for has changed.
_STALE_S, _LONG_S = 600.0, 1800.0

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


def can_never_run(reason: str, partitions: str = "") -> bool:
    """Tell whether a pending job's reason is one that only people can change."""
    return patience_s(reason, partitions) == 0.0


def patience_s(reason: str, partitions: str = "", is_busy: bool = True) -> float | None:
    """Return after how many seconds of this reason a job will never run; None: it may.

    `partitions`: where it may go. `is_busy`: whether any job of the user's runs.
    """
    if _NEVER.search(reason):
        return 0.0
    if _NEVER_THERE.search(reason):
        return _LONG_S if "," in partitions else 0.0
    return _STALE_S if _OWN.search(reason) and not is_busy else None


def meaning(reason: str) -> str:
    """Return a reason with what it means, where its name does not say it."""
    used_up = ": the hours of the account or QOS are used up, and it waits for new ones"
    return reason + used_up * bool(_USED_UP.search(reason))


def is_held_by_slurm(state: str, reason: str) -> bool:
    """Tell whether Slurm gave a task up after its node could not run it."""
    return _word(state) in _HELD_STATES or bool(_HELD.search(reason))


def _word(state: str) -> str:
    """`CANCELLED by 1000` and `CANCELLED+` are CANCELLED."""
    return re.split(r"[ +]", state.strip(), maxsplit=1)[0].upper()
