"""Stopping workers: asked first, killed after a while, leftovers included."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Callable

import psutil

from hpcscientist.execution import folders, presence, scratch
from hpcscientist.files.handed import read_regular
from hpcscientist.files.rundir import RunPaths
from hpcscientist.system import processes

_PATIENCE_S = 5.0
_REMIND_S = 0.25
_POLL_S = 0.05

Alive = Callable[[], list[psutil.Process]]


class _Stopping:
    """The state of one stop: whom we asked, and since when."""

    def __init__(self, alive: Alive) -> None:
        self._alive = alive
        self._until = time.monotonic() + _PATIENCE_S
        self._next_reminder = 0.0

    def step(self) -> bool:
        """Ask or kill whoever is still alive; tell whether all are gone."""
        found = self._alive()
        now = time.monotonic()
        if found and now > self._until:
            processes.kill_trees([process.pid for process in found])
        elif found and now >= self._next_reminder:
            # Repeated, because until a worker has set itself up it may miss a signal.
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
    """Remove the folders of jobs here that nobody runs any more, and their workers' scratch.

    What a file system will not let go of stays. Call it only for trials of this machine.
    """
    for folder in sorted(paths.submission.glob("*")):
        trial = paths.trial(folder.name.rpartition("-")[0])
        if presence.live_worker(trial) is None and not processes.naming(folder.absolute()):
            with contextlib.suppress(OSError):
                scratch.remove_of(trial)
                folders.remove(folder)


def sweep(paths: RunPaths) -> int:
    """Stop all workers of a run directory whose driver is gone, on this host.

    Returns how many processes had to be stopped. Call it only when no driver runs: it ends
    what a driver would take for its own.
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
    """Return the campaign's id, as its trials know it."""
    for trial in trials:
        try:
            spec = json.loads(read_regular(paths.trial(trial).spec))
            return str(spec["provenance"]["campaign_id"])
        except (OSError, ValueError, LookupError, TypeError):
            continue
    return None
