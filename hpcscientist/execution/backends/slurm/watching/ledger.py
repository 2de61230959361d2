"""What is live: batches and their array tasks, and which of the trials in them have ended.

An array task runs its trials in order, so of each task one trial at most is under way: the
one at `at`. Everything here is memory; what must survive the driver is in the batch's folder.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from hpcscientist.execution import folders
from hpcscientist.execution.backends.slurm import clock
from hpcscientist.execution.backends.slurm.batches import ArrayRecord, BatchFolder
from hpcscientist.records.trial import EndState, Intent, RunId

# What Slurm's job states mean for a trial. Every state has an entry; none is guessed.
#
# Source: the sections "JOB STATE CODES" of squeue(1) and sacct(1).


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


@dataclass(eq=False, slots=True)
class ArrayTask:
    """One array task. `at`: the first trial without a result; `over`: those that were told ended.

    `unwanted` are those that were given up: the task is ended for them.
    """

    number: int
    runs: tuple[RunId, ...]
    at: int = 0
    told: set[int] = field(default_factory=set)  # as started
    over: set[int] = field(default_factory=set)
    unwanted: set[int] = field(default_factory=set)
    phase: Phase = Phase.WAITING
    state: str = "PENDING"
    reason: str = ""  # Slurm's, for which it waits
    node: str = ""
    cause: EndState | None = None
    ended_at: float = 0.0
    started: bool = False
    stopping: bool = False
    absences: int = 0  # answers in a row in which Slurm did not know it
    missed_at: float | None = None  # when squeue began to know nothing of it

    def end(self, cause: EndState, state: str) -> None:
        """Note that the task will never run again under its job id."""
        if self.cause is None:
            self.phase, self.cause, self.state = Phase.ENDED, cause, state
            self.ended_at = clock.now()

    def remaining(self) -> list[int]:
        """Return the positions of the trials that have not ended, in order."""
        return [position for position in range(len(self.runs)) if position not in self.over]


@dataclass(eq=False, slots=True)
class LiveBatch:
    """One array. `job_id` None: whether it was submitted is still to be found out.

    `confirmed`: Slurm showed that id with our name. One that sbatch alone named may be a number of
    a notice beside it, and another job's: nothing is cancelled by it.
    `by_name`: there was no record of it, so what its tasks came to was told before, or was ended
    by us, or no task ever found what to run.
    """

    batch: ArrayRecord
    folder: BatchFolder
    job_id: str | None
    tasks: list[ArrayTask]
    hopeless: int = 0  # answers in a row in which it waited for what never comes
    hopeless_at: float = 0.0
    confirmed: bool = False
    by_name: bool = False

    def live_tasks(self) -> list[ArrayTask]:
        """Return the tasks that have not ended."""
        return [task for task in self.tasks if task.cause is None]

    def has_ended(self) -> bool:
        """Whether every task has ended and every trial was told."""
        return all(task.cause is not None and not task.remaining() for task in self.tasks)


def live_batch(batch: ArrayRecord, folder: BatchFolder, job_id: str | None) -> LiveBatch:
    """Return a batch as it is right after submission."""
    tasks = [ArrayTask(number, runs) for number, runs in enumerate(batch.tasks)]
    return LiveBatch(batch, folder, job_id, tasks)


class Ledger:
    """All live batches, and an index of the trials in them."""

    def __init__(self) -> None:
        self.batches: list[LiveBatch] = []
        self._index: dict[RunId, tuple[ArrayTask, int]] = {}

    def add(self, live: LiveBatch) -> None:
        """Take a batch in. A run that is in an earlier one too is in this one from now on."""
        self.batches.append(live)
        for task in live.tasks:
            for position, run in enumerate(task.runs):
                self._index[run] = (task, position)

    def remove(self, live: LiveBatch) -> None:
        """Forget a batch."""
        self.batches.remove(live)
        for task in live.tasks:
            for run in task.runs:
                if self._index.get(run, (None, 0))[0] is task:
                    del self._index[run]

    def drop_one(self, live: LiveBatch) -> None:
        """Forget a batch and remove its folder; what a file system will not let go of stays.

        Its record goes first: without it nobody takes the rest for a batch.
        """
        self.remove(live)
        with contextlib.suppress(OSError):
            live.folder.record.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folders.remove(live.folder.root)

    def drop(self, everything: bool = False) -> None:
        """Drop the batches that have ended, or all."""
        for live in list(self.batches):
            if everything or live.has_ended():
                self.drop_one(live)

    def give_up(self, runs: Collection[RunId]) -> None:
        """Note that nobody wants these runs."""
        for run in runs:
            task, position = self._index.get(run, (None, 0))
            if task is not None and position not in task.over:
                task.unwanted.add(position)

    def is_in(self, run: RunId, task: ArrayTask) -> bool:
        """Whether a run is in this task, and not in a later one since."""
        return self._index.get(run, (None, 0))[0] is task

    def runs(self) -> set[RunId]:
        """Return the runs that have not ended."""
        return {run for run, (task, position) in self._index.items() if position not in task.over}

    def tasks(self) -> Iterator[tuple[LiveBatch, ArrayTask]]:
        """Yield every task with its batch."""
        for live in self.batches:
            for task in live.tasks:
                yield live, task

    def waiting(self) -> Counter[str]:
        """Count the tasks that wait in the queue, by Slurm's reason."""
        return Counter(
            task.reason
            for live, task in self.tasks()
            if live.job_id and task.cause is None and not task.started
            if task.phase is Phase.WAITING
        )

    def count_live(self) -> int:
        """Return how many tasks have not ended."""
        return sum(task.cause is None for _, task in self.tasks())


def adopt(ledger: Ledger, submission: Path) -> None:
    """Take the arrays of earlier drivers over from their folders."""
    for path in sorted(submission.glob("*/batch.json")):
        folder = BatchFolder(path.parent)
        batch = folder.read()
        if batch is not None:
            ledger.add(live_batch(batch, folder, folder.job_id()))


def adopt_by_name(ledger: Ledger, submission: Path, campaign_id: str, intent: Intent) -> None:
    """Take over a batch of which there is no record: the queue is asked for its name."""
    if any(live.batch.batch_id == intent.batch_id for live in ledger.batches):
        return
    record = ArrayRecord(
        batch_id=intent.batch_id,
        campaign_id=campaign_id,
        trials_folder="",
        tasks=intent.elements,
        cpus=1,
        gpus=0,
        memory_mb=1,
        minutes=1,
        created_at=_created(intent.batch_id),
    )
    live = live_batch(record, BatchFolder(submission / intent.batch_id), None)
    live.by_name = True
    ledger.add(live)


def _created(batch_id: str) -> float:
    """Return when a batch got its id: the hexadecimal seconds that it begins with."""
    try:
        return float(int(batch_id[:-6], 16))
    except ValueError:
        return 0.0
