"""A backend whose runs each have a task of their own: it follows processes of this machine."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from functools import partial

from hpcscientist.execution.backends.change_queue import ChangeQueue
from hpcscientist.records.runs import (
    Accepted,
    Answer,
    Batch,
    Capacity,
    Change,
    Ended,
    EndState,
    Intent,
    RunId,
    Started,
    run_of,
)
from hpcscientist.records.trial import TrialSpec

_IDLE_S = 3600.0


class ProcessBackend(ABC):
    """Follows at most `places` runs at once; implements `ports.backend.Backend` but for one run.

    A batch is one trial. Make it inside the event loop that uses it.
    """

    outlives_driver = False
    gather_s = 0.0

    def __init__(self, places: int) -> None:
        self._places = places
        self._told = ChangeQueue()
        self._tasks: dict[RunId, asyncio.Task[None]] = {}

    @abstractmethod
    async def follow(self, trial: TrialSpec) -> Ended:
        """Take a run from its start, which it tells by `began`, to its end.

        Cancelled, it stops the run before it passes the cancellation on. What else it raises is
        raised by `changes`.
        """

    def began(self, trial: TrialSpec) -> None:
        """Tell that a run has left the queue."""
        self._told.tell(Started(run_of(trial)))

    async def adopt(self, intents: Sequence[Intent]) -> Collection[RunId]:
        """Nothing yet: what was left of a run is met when that is submitted again."""
        return ()

    async def capacity(self, like: TrialSpec) -> Capacity:
        """Say how many places are free; see the port."""
        room = max(0, self._places - len(self._tasks))
        return Capacity(room=room, batch_max=1, at_once=self._places, pause_s=_IDLE_S)

    async def submit(self, batch: Batch) -> Answer:
        """Follow the trials of a batch from now on."""
        for spec in (spec for element in batch.elements for spec in element):
            run = run_of(spec)
            task = asyncio.create_task(self._one(spec))
            self._tasks[run] = task
            # Not in the task itself: one that is cancelled before its first turn runs nothing.
            task.add_done_callback(partial(self._over, run))
        return Accepted()

    async def changes(self) -> Sequence[Change]:
        """Wait for something to tell; see the port. Raises what `follow` raised."""
        return await self._told.take()

    async def cancel(self, runs: Collection[RunId]) -> None:
        """Stop runs and wait for their end, also when cancelled meanwhile."""
        await _cancel([task for run in runs if (task := self._tasks.get(run)) is not None])

    async def sweep(self) -> None:
        """Stop what still runs."""
        await _cancel(list(self._tasks.values()))

    async def close(self) -> None:
        """Stop what still runs: nothing outlives the driver here. Idempotent."""
        await _cancel(list(self._tasks.values()))

    async def _one(self, spec: TrialSpec) -> None:
        self._told.tell(await self.follow(spec))

    def _over(self, run: RunId, task: asyncio.Task[None]) -> None:
        if self._tasks.get(run) is task:
            del self._tasks[run]
        if task.cancelled():
            self._told.tell(Ended(run, EndState.CANCELLED, ended_at=time.time()))
        elif (error := task.exception()) is not None:
            self._told.fail(error)


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for their end, also when cancelled meanwhile."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        if not task.cancelling():  # a second request would interrupt its stopping
            task.cancel()
    if running:
        await asyncio.wait(running)
