"""Trials that each have a task of their own: started together, waited for, and stopped whole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from hpcscientist.ports.backend import OnEnd, OnTrial
from hpcscientist.records.trial import TrialSpec

RunOne = Callable[[TrialSpec, OnTrial, OnEnd], Awaitable[None]]


class Crowd:
    """Runs trials concurrently by a backend's way of running one; see `ports.backend`."""

    def __init__(self, run_one: RunOne) -> None:
        self._run_one = run_one
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, trials: Sequence[TrialSpec], on_start: OnTrial, on_end: OnEnd) -> None:
        """Run trials to their end; when one raises, or this is cancelled, all are stopped."""
        tasks = [asyncio.ensure_future(self._one(trial, on_start, on_end)) for trial in trials]
        self._tasks.update(tasks)
        try:
            await asyncio.gather(*tasks)
        finally:
            await _cancel(tasks)
            self._tasks.difference_update(tasks)

    async def close(self) -> None:
        """Stop what still runs. Idempotent."""
        await _cancel(list(self._tasks))

    async def _one(self, trial: TrialSpec, on_start: OnTrial, on_end: OnEnd) -> None:
        await self._run_one(trial, on_start, on_end)


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for their end, also when cancelled meanwhile."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        if not task.cancelling():  # a second request would interrupt its stopping
            task.cancel()
    if running:
        await asyncio.wait(running)
