"""The live batches, their array tasks, and which of their trials have ended.

An array task runs its trials in order, so at most one trial per task is under way: the one at
position `at`. All of this is in memory; what must survive the driver is in the batch's folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpcscientist.execution import folders
from hpcscientist.execution.backends.slurm.batches import ArrayRecord, BatchFolder
from hpcscientist.execution.backends.slurm.watching.states import Phase
from hpcscientist.records.trial import EndState, Intent, RunId


def loop_time() -> float:
    """Return seconds by the running event loop's clock. Raises RuntimeError outside of one.

    The backend knows no other clock: controlling the loop's controls every pause.
    """
    return asyncio.get_running_loop().time()


@dataclass(eq=False, slots=True)
class ArrayTask:
    """One array task. `at`: the first trial without a result; `over`: those reported as ended.

    `unwanted` are trials that the driver gave up, and the reason to end the task.
    """

    number: int
    runs: tuple[RunId, ...]
    at: int = 0
    told: set[int] = field(default_factory=set)  # reported as started
    over: set[int] = field(default_factory=set)
    unwanted: set[int] = field(default_factory=set)
    phase: Phase = Phase.WAITING
    state: str = "PENDING"
    reason: str = ""  # Slurm's reason why it waits
    node: str = ""
    cause: EndState | None = None
    ended_at: float = 0.0
    started: bool = False
    stopping: bool = False
    absences: int = 0  # consecutive answers in which Slurm did not know of its end
    missed_at: float | None = None  # since when squeue does not list it
    message: int = 0  # the number of the next message to its inbox; 0: it accepts none
    started_at: float = math.inf  # when it was seen to have started
    idle_since: float | None = None  # since when it was seen to have nothing to do

    def end(self, cause: EndState, state: str) -> None:
        """Note that the task will never run again under its job id."""
        if self.cause is None:
            self.phase, self.cause, self.state = Phase.ENDED, cause, state
            self.ended_at = loop_time()

    def remaining(self) -> list[int]:
        """Return the positions of the trials that have not ended, in order."""
        return [position for position in range(len(self.runs)) if position not in self.over]


@dataclass(eq=False, slots=True)
class LiveBatch:
    """One array. `job_id` None: it is not yet known whether it was submitted.

    `confirmed`: Slurm showed that id with our name. An id that only sbatch printed may be a number
    in a site's notice, and so another job's id: nothing is cancelled by it.
    `by_name`: the array has no record on disk. So its trials' ends were reported before, or we
    ended its tasks, or no task ever found what to run.
    """

    batch: ArrayRecord
    folder: BatchFolder
    job_id: str | None
    tasks: list[ArrayTask]
    hopeless: int = 0  # consecutive answers with a reason that may never pass
    hopeless_at: float = 0.0
    confirmed: bool = False
    by_name: bool = False
    expect_s: float = math.inf  # what one of its trials takes

    def live_tasks(self) -> list[ArrayTask]:
        """Return the tasks that have not ended."""
        return [task for task in self.tasks if task.cause is None]

    def has_ended(self) -> bool:
        """Return whether every task has ended and every trial was reported as ended."""
        return all(task.cause is not None and not task.remaining() for task in self.tasks)


def live_batch(batch: ArrayRecord, folder: BatchFolder, job_id: str | None) -> LiveBatch:
    """Return a batch in the state right after its submission."""
    first = 1 if batch.open_s else 0
    tasks = [ArrayTask(number, runs, message=first) for number, runs in enumerate(batch.tasks)]
    return LiveBatch(batch, folder, job_id, tasks)


class BatchLedger:
    """All live batches, and an index of the trials in them."""

    def __init__(self) -> None:
        self.batches: list[LiveBatch] = []
        self._index: dict[RunId, tuple[ArrayTask, int]] = {}

    def add(self, live: LiveBatch) -> None:
        """Add a batch. A run that is also in an earlier batch belongs to this one from now on."""
        self.batches.append(live)
        for task in live.tasks:
            for position, run in enumerate(task.runs):
                self._index[run] = (task, position)

    def assign(self, task: ArrayTask, runs: Sequence[RunId]) -> None:
        """Note that a running task was assigned further trials."""
        for position, run in enumerate(runs, len(task.runs)):
            self._index[run] = (task, position)
        task.runs += tuple(runs)
        task.message += 1
        task.idle_since = None

    def remove(self, live: LiveBatch) -> None:
        """Forget a batch."""
        self.batches.remove(live)
        for task in live.tasks:
            for run in task.runs:
                if self._index.get(run, (None, 0))[0] is task:
                    del self._index[run]

    def drop_one(self, live: LiveBatch) -> None:
        """Forget a batch and remove its folder; files that cannot be removed stay.

        Its record is removed first: without it, nobody mistakes the rest for a batch.
        """
        self.remove(live)
        with contextlib.suppress(OSError):
            live.folder.record.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folders.remove(live.folder.root)

    def drop(self, everything: bool = False) -> None:
        """Drop the batches that have ended, or all batches."""
        for live in list(self.batches):
            if everything or live.has_ended():
                self.drop_one(live)

    def give_up(self, runs: Collection[RunId]) -> None:
        """Mark runs as unwanted."""
        for run in runs:
            task, position = self._index.get(run, (None, 0))
            if task is not None and position not in task.over:
                task.unwanted.add(position)

    def is_in(self, run: RunId, task: ArrayTask) -> bool:
        """Return whether a run belongs to this task, and not to a later one."""
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
        """Return how many tasks wait in the queue, by Slurm's reason."""
        return Counter(
            task.reason
            for live, task in self.tasks()
            if live.job_id and task.cause is None and not task.started
            if task.phase is Phase.WAITING
        )

    def count_live(self) -> int:
        """Return how many tasks have not ended."""
        return sum(task.cause is None for _, task in self.tasks())


def adopt(ledger: BatchLedger, submission: Path) -> set[str]:
    """Take over the arrays of earlier drivers from their folders.

    Return the ids of the batches that were added to running tasks of these arrays. Close the
    inboxes: what an earlier driver may still write comes too late.
    """
    given: set[str] = set()
    for path in sorted(submission.glob("*/batch.json")):
        folder = BatchFolder(path.parent)
        batch = folder.read()
        if batch is not None:
            live = live_batch(batch, folder, folder.job_id())
            ledger.add(live)
            for task in live.tasks:
                if task.message:
                    for message in folder.inbox(task.number).close():
                        ledger.assign(task, message.runs)
                        given.add(message.batch_id)
                    task.message = 0
    return given


def adopt_by_name(ledger: BatchLedger, submission: Path, campaign_id: str, intent: Intent) -> None:
    """Take over a batch that has no record on disk, to be found in the queue by its name."""
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
    """Return when a batch got its id, which begins with that time in hexadecimal seconds."""
    try:
        return float(int(batch_id[:-6], 16))
    except ValueError:
        return 0.0
