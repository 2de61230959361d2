"""What is live: batches, their array tasks, and who waits for which trial.

An array task runs its trials in order, so of each task one trial at most is under way: the
one at `at`. Everything here is memory; what must survive the driver is in the batch's folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hpcscientist.execution import folders
from hpcscientist.execution.backends.slurm import clock
from hpcscientist.execution.backends.slurm.batches import Batch, BatchFolder, Slot
from hpcscientist.execution.backends.slurm.states import Cause, Phase
from hpcscientist.ports.backend import OnEnd, OnTrial
from hpcscientist.records.trial import TrialReport, TrialSpec

_REMEMBERED = 200


@dataclass(eq=False, slots=True)
class Entry:
    """One trial that a caller of `run` waits for. `gone` is set once nothing of it can run."""

    spec: TrialSpec
    on_start: OnTrial
    on_end: OnEnd
    done: asyncio.Future[None]
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    since: float = field(default_factory=clock.now)
    began: bool = False
    stopping: bool = False

    @property
    def key(self) -> tuple[str, int]:
        """The trial's run."""
        return self.spec.trial_id, self.spec.run

    def start(self) -> None:
        """Tell the caller, once."""
        if not self.began:
            self.began = True
            self.on_start(self.spec)

    def fail(self, error: BaseException) -> None:
        """Pass an error on to the caller."""
        if not self.done.done():
            self.done.set_exception(error)

    def end(self, report: TrialReport | None) -> None:
        """Tell the caller that the trial has ended, and let it go on."""
        if not self.stopping and not self.done.done():
            try:
                self.start()
                self.on_end(self.spec, report)
            except Exception as error:  # noqa: BLE001 (the caller's own, passed back to it)
                self.fail(error)
            else:
                self.done.set_result(None)
        self.gone.set()

    def give_up(self) -> None:
        """Nothing of it can run any more, and nobody wants to know how it ended."""
        self.gone.set()
        self.done.cancel()


@dataclass(eq=False, slots=True)
class ArrayTask:
    """One array task. `entries`: who waits, by position; `at`: the first trial not ended."""

    number: int
    slots: tuple[Slot, ...]
    entries: dict[int, Entry] = field(default_factory=dict)
    at: int = 0
    phase: Phase = Phase.WAITING
    state: str = "PENDING"
    reason: str = ""
    node: str = ""
    cause: Cause | None = None
    killed_by: int = 0
    ended_at: float = 0.0
    started: bool = False
    stopping: bool = False
    absences: int = 0  # rounds in a row in which Slurm did not know it

    def end(self, cause: Cause, state: str, killed_by: int = 0) -> None:
        """Note that the task will never run again under its job id."""
        if self.cause is None:
            self.phase, self.cause, self.state = Phase.ENDED, cause, state
            self.killed_by, self.ended_at = killed_by, clock.now()

    def remaining(self) -> list[tuple[int, Entry]]:
        """Return who still waits, in order."""
        return sorted((p, entry) for p, entry in self.entries.items() if not entry.gone.is_set())


@dataclass(eq=False, slots=True)
class LiveBatch:
    """One array. `job_id` None: whether it was submitted is still to be found out."""

    batch: Batch
    folder: BatchFolder
    job_id: str | None
    tasks: list[ArrayTask]
    hopeless: int = 0

    def live_tasks(self) -> list[ArrayTask]:
        """Return the tasks that have not ended."""
        return [task for task in self.tasks if task.cause is None]

    def has_ended(self) -> bool:
        """Whether every task has ended and nobody waits for any."""
        return all(task.cause is not None and not task.remaining() for task in self.tasks)


def live_batch(batch: Batch, folder: BatchFolder, job_id: str | None) -> LiveBatch:
    """Return a batch as it is right after submission."""
    tasks = [ArrayTask(number, slots) for number, slots in enumerate(batch.tasks)]
    return LiveBatch(batch, folder, job_id, tasks)


class Ledger:
    """All live batches, and an index of the trials in them."""

    def __init__(self) -> None:
        self.batches: list[LiveBatch] = []
        self._index: dict[tuple[str, int], tuple[ArrayTask, int]] = {}

    def add(self, live: LiveBatch) -> None:
        """Take a batch in."""
        self.batches.append(live)
        for task in live.tasks:
            for position, slot in enumerate(task.slots):
                self._index[slot.trial_id, slot.run] = (task, position)

    def remove(self, live: LiveBatch) -> None:
        """Forget a batch."""
        self.batches.remove(live)
        for task in live.tasks:
            for slot in task.slots:
                if self._index.get((slot.trial_id, slot.run), (None, 0))[0] is task:
                    del self._index[slot.trial_id, slot.run]

    def drop_one(self, live: LiveBatch) -> None:
        """Forget a batch and remove its folder; what a file system will not let go of stays."""
        self.remove(live)
        with contextlib.suppress(OSError):
            folders.remove(live.folder.root)

    def drop(self, everything: bool = False) -> None:
        """Drop the batches that have ended, or all."""
        for live in list(self.batches):
            if everything or live.has_ended():
                self.drop_one(live)

    def attach(self, entry: Entry) -> bool:
        """Let an entry wait for a trial that is in a live task already; tell whether one is."""
        task, position = self._index.get(entry.key, (None, 0))
        if task is None or (task.cause is not None and position < task.at):
            return False
        task.entries[position] = entry
        return True

    def tasks(self) -> Iterator[tuple[LiveBatch, ArrayTask]]:
        """Yield every task with its batch."""
        for live in self.batches:
            for task in live.tasks:
                yield live, task

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


class Durations:
    """How long trials took, by their deadline; what packing goes by. Seconds."""

    def __init__(self) -> None:
        self._seen: dict[float, deque[float]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))

    def add(self, spec: TrialSpec, seconds: float) -> None:
        """Remember one."""
        self._seen[spec.limits.deadline_s].append(max(0.0, seconds))

    def expect(self, spec: TrialSpec) -> float:
        """Return the median of trials like this one; its deadline while there is none."""
        seen = self._seen.get(spec.limits.deadline_s)
        return statistics.median(seen) if seen else spec.limits.deadline_s
