"""Runs that each have a task of their own, in a backend that follows processes of this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence

from hpcscientist.execution.backends.told import Told
from hpcscientist.records.runs import Ended, EndState, RunId, run_of
from hpcscientist.records.trial import TrialSpec

Follow = Callable[[TrialSpec], Awaitable[Ended]]


class Crowd:
    """Follows runs by a backend's way of following one, and tells how each ended.

    `follow` takes a run from its start to its end; cancelled, it stops the run before it passes
    the cancellation on.
    """

    def __init__(self, follow: Follow, told: Told) -> None:
        self._follow, self._told = follow, told
        self._tasks: dict[RunId, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, spec: TrialSpec) -> None:
        """Follow a run from now on."""
        run = run_of(spec)
        task = asyncio.create_task(self._one(spec))
        self._tasks[run] = task
        # Not in the task itself: one that is cancelled before its first turn runs nothing at all.
        task.add_done_callback(lambda task: self._over(run, task))

    async def cancel(self, runs: Collection[RunId]) -> None:
        """Stop runs and wait for their end, also when cancelled meanwhile."""
        await _cancel([task for run in runs if (task := self._tasks.get(run)) is not None])

    async def close(self) -> None:
        """Stop what still runs. Idempotent."""
        await _cancel(list(self._tasks.values()))

    async def _one(self, spec: TrialSpec) -> None:
        self._told.tell(await self._follow(spec))

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
