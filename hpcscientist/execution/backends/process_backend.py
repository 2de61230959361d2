"""Base of backends that follow processes of this machine, with one asyncio task per run.

It also stops workers: those of a live driver, and those that a killed driver left.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from functools import partial

import psutil

from hpcscientist.execution import folders, presence, scratch
from hpcscientist.files.handed import read_regular
from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.trial import (
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
    TrialSpec,
    run_of,
)
from hpcscientist.system import processes

# A queue of the changes that a backend reports, kept until the driver takes them.


class ChangeQueue:
    """Changes in chronological order; see `changes` in `ports`."""

    def __init__(self) -> None:
        self._changes: list[Change] = []
        self._error: BaseException | None = None
        self._some = asyncio.Event()

    def tell(self, change: Change) -> None:
        """Add a change."""
        self._changes.append(change)
        self._some.set()

    def fail(self, error: BaseException) -> None:
        """Make `take` raise `error`, once everything before was taken."""
        self._error = self._error or error
        self._some.set()

    async def take(self) -> Sequence[Change]:
        """Wait until there are changes, and take all. Raises the error that `fail` was given."""
        await self._some.wait()
        if not self._changes and self._error is not None:
            raise self._error
        taken, self._changes = self._changes, []
        if self._error is None:
            self._some.clear()
        return taken


_IDLE_S = 3600.0


class ProcessBackend(ABC):
    """Follows at most `places` runs at once; a subclass adds `follow` to implement `ports.Backend`.

    A batch is one trial. Create it inside the event loop that uses it.
    """

    outlives_driver = False
    gather_s = 0.0

    def __init__(self, places: int) -> None:
        self._places = places
        self._told = ChangeQueue()
        self._tasks: dict[RunId, asyncio.Task[Ended]] = {}

    @abstractmethod
    async def follow(self, trial: TrialSpec) -> Ended:
        """Carry out a run to its end, calling `began` when it starts.

        If cancelled, stop the run first, then let the cancellation pass. `changes` raises any other
        error that this raises.
        """

    def began(self, trial: TrialSpec) -> None:
        """Report that a run has left the queue."""
        self._told.tell(Started(run_of(trial)))

    async def adopt(self, intents: Sequence[Intent]) -> Collection[RunId]:
        """Adopt nothing: `follow` handles what was left of a run when it is submitted again."""
        return ()

    async def capacity(self, like: TrialSpec, expect_s: float = math.inf) -> Capacity:
        """Return how many places are free; see `ports.Backend`."""
        room = max(0, self._places - len(self._tasks))
        return Capacity(room=room, batch_max=1, at_once=self._places, pause_s=_IDLE_S)

    async def submit(self, batch: Batch) -> Answer:
        """Start following the trials of a batch."""
        for spec in (spec for element in batch.elements for spec in element):
            run = run_of(spec)
            task = asyncio.create_task(self.follow(spec))
            self._tasks[run] = task
            # Not in the task itself: a task that is cancelled before it starts runs no code.
            task.add_done_callback(partial(self._over, run))
        return Accepted()

    async def changes(self) -> Sequence[Change]:
        """Wait for changes; see `ports.Backend`. Raises what `follow` raised."""
        return await self._told.take()

    async def cancel(self, runs: Collection[RunId]) -> None:
        """Stop runs and wait until they have ended, including those already being stopped."""
        await _cancel([task for run in runs if (task := self._tasks.get(run)) is not None])

    async def sweep(self) -> None:
        """Stop all runs."""
        await _cancel(list(self._tasks.values()))

    async def close(self) -> None:
        """Stop all runs, since nothing outlives the driver here. Idempotent."""
        await _cancel(list(self._tasks.values()))

    def _over(self, run: RunId, task: asyncio.Task[Ended]) -> None:
        if self._tasks.get(run) is task:
            del self._tasks[run]
        if task.cancelled():
            self._told.tell(Ended(run, EndState.CANCELLED, ended_at=time.time()))
        elif (error := task.exception()) is not None:
            self._told.fail(error)
        else:
            self._told.tell(task.result())


async def _cancel(tasks: Sequence[asyncio.Task[Ended]]) -> None:
    """Cancel tasks and wait until they have ended, including those already cancelled."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        if not task.cancelling():  # a second request would interrupt its cleanup
            task.cancel()
    if running:
        await asyncio.wait(running)


# Stopping workers: ask first, kill after a while, then remove leftovers.

_PATIENCE_S = 5.0
_REMIND_S = 0.25
_POLL_S = 0.05

Alive = Callable[[], list[psutil.Process]]


class _Stopping:
    """The state of stopping some processes: when to remind them and when to kill them."""

    def __init__(self, alive: Alive) -> None:
        self._alive = alive
        self._until = time.monotonic() + _PATIENCE_S
        self._next_reminder = 0.0

    def step(self) -> bool:
        """Ask or kill the processes still alive; return whether all are gone."""
        found = self._alive()
        now = time.monotonic()
        if found and now > self._until:
            processes.kill_trees([process.pid for process in found])
        elif found and now >= self._next_reminder:
            # Repeat it: a worker that is still starting may miss a signal.
            self._next_reminder = now + _REMIND_S
            for process in found:
                try:
                    process.send_signal(signal.SIGTERM)
                except psutil.Error:
                    continue
        return not found


async def stop_processes(alive: Alive) -> None:
    """Stop the processes that `alive` returns, until it returns none."""
    stopping = _Stopping(alive)
    while not stopping.step():  # noqa: ASYNC110 (nobody signals the end of another's child)
        await asyncio.sleep(_POLL_S)


def clear_submission(paths: RunPaths) -> None:
    """Remove the folders of this machine's jobs that no longer run, and their workers' scratch.

    Folders that cannot be removed stay. Call it only for trials of this machine.
    """
    for folder in sorted(paths.submission.glob("*")):
        trial = paths.trial(folder.name.rpartition("-")[0])
        if presence.live_worker(trial) is None and not processes.naming(folder.absolute()):
            with contextlib.suppress(OSError):
                scratch.remove_of(trial)
                folders.remove(folder)


def sweep(paths: RunPaths) -> int:
    """Stop all workers on this host of a run directory whose driver is gone.

    Returns how many processes had to be stopped. Call it only when no driver runs: it would also
    end that driver's workers.
    """
    stopped: set[int] = set()
    submission = paths.submission.absolute()

    def alive() -> list[psutil.Process]:
        found = [p for t in trials if (p := presence.live_worker(paths.trial(t))) is not None]
        for pid in processes.naming(submission, below=True):
            try:
                found.append(psutil.Process(pid))
            except psutil.NoSuchProcess:
                continue
        stopped.update(process.pid for process in found)
        return found

    trials = sorted(path.parent.name for path in paths.trials.glob("*/worker.json"))
    stopping = _Stopping(alive)
    while not stopping.step():
        psutil.wait_procs(alive(), timeout=_POLL_S)
    for trial in trials:
        presence.withdraw(paths.trial(trial))
        scratch.remove_of(paths.trial(trial))
    campaign = _campaign(paths, trials)
    if campaign is not None:
        stopped |= processes.end_marked(campaign)
    return len(stopped)


def _campaign(paths: RunPaths, trials: list[str]) -> str | None:
    """Return the campaign's id from the specs of its trials, or None."""
    for trial in trials:
        try:
            spec = json.loads(read_regular(paths.trial(trial).spec))
            return str(spec["provenance"]["campaign_id"])
        except (OSError, ValueError, LookupError, TypeError):
            continue
    return None
