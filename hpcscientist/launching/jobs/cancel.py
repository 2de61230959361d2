"""Stops a campaign from another process, with all its jobs and processes."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from hpcscientist.errors import CampaignBusy, SchedulerSilent
from hpcscientist.execution import folders
from hpcscientist.execution.backends.process_backend import clear_submission, sweep
from hpcscientist.execution.backends.slurm import controller_job
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.sweep import PATIENCE_S, cancel_jobs, sweep_jobs
from hpcscientist.files.lock import named
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen, stale_launch, status
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.status import STALE_S, DriverLock, read_holder, read_state
from hpcscientist.launching.jobs.dispatch import open_slurm

# Seconds that a driver may take to see the request, and to stop its own processes.
WAIT_S = STALE_S + 30.0
# On Slurm it also waits for the trials that it gave up (the backend's patience), and then for the
# end of whatever is left (the sweep's). Around both it calls this many commands, and each may be
# silent for as long as the site profile allows.
_STOPPING_S = 90.0
_COMMANDS = 4
POLL_S = 0.1
TOLD_AFTER_S = 3.0  # a longer wait is explained to the user
AWAKE_S = 10.0  # a continued driver that does not react within this time is killed

Wait = Callable[[float], object]
Tell = Callable[[str], object]

_STANDING_STILL = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)


def cancel(
    paths: RunPaths,
    wait: Wait = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    tell: Tell = lambda text: None,
) -> bool:
    """Stop the driver, wherever it runs, and all remaining trials; return whether any was alive.

    A driver on this host gets SIGTERM; a driver elsewhere reads the request file. A suspended
    driver (SIGSTOP) on this host is continued first, and killed if it still does not react. `tell`
    gets what this waits for, and what it does about it. Returns once no process of the campaign
    runs on this host and no job of it is in Slurm's queue.

    Raises RunDirectoryError for a folder that is not a run directory, CampaignBusy when the driver
    does not release its lock within `patience_s`, and SchedulerSilent when Slurm does not answer:
    the request then stays, and a driver that can read it stops.
    """
    launched = _end_launch(paths, wait, clock, tell)
    if not paths.campaign.is_file():
        if launched is not None:
            return launched
        read_state(paths)  # raises an error that names what is missing
    config = frozen.read(paths)
    slurm = open_slurm(config) if config.backend == "slurm" else None
    holder = read_holder(paths.lock)
    alive = holder is not None and bool(holder["alive"])
    if slurm is not None or alive:
        paths.cancel_request.touch()
    if slurm is not None:
        _cancel_waiting(slurm, config)  # or a continuation starts when the driver ends
    if holder is not None and alive:
        if holder["local"]:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(holder["pid"], signal.SIGTERM)
        _Waiting(paths, patience_s(config), wait, clock, tell).until_released()
    swept = 0
    if slurm is not None:
        swept = sweep_jobs(slurm, config.campaign_id, wait=wait)
        # A controller may have started just before the sweep ended it.
        _Waiting(paths, patience_s(config), wait, clock, tell).until_released()
    # No driver is left: hold the lock while sweeping, so that no new driver starts meanwhile.
    lock = DriverLock(paths.lock)
    try:
        if slurm is not None:
            swept += sweep_jobs(slurm, config.campaign_id, wait=wait)
            if paths.submission.is_dir():  # or a resume would think that others cancelled them
                folders.empty(paths.submission)
            status.write_waiting(paths, {})
        sweep(paths)
        if slurm is None:
            clear_submission(paths)
        paths.cancel_request.unlink(missing_ok=True)
    finally:
        lock.release()
    return alive or swept > 0


def _end_launch(paths: RunPaths, wait: Wait, clock: Callable[[], float], tell: Tell) -> bool | None:
    """End a launch that has not started its campaign yet, or clean up after one that was killed.

    Returns whether the launch was alive; None if there is none. Raises CampaignBusy if it does not
    end, for example because it runs on another host.
    """
    holder = read_holder(paths.launching)
    if paths.campaign.exists() or holder is None:
        return None
    if alive := bool(holder["alive"]):
        if holder["local"]:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(holder["pid"], signal.SIGTERM)
        _Waiting(paths, WAIT_S, wait, clock, tell, paths.launching).until_released()
    if stale_launch.are_there(paths):
        stale_launch.clear(paths)
        with contextlib.suppress(OSError):
            paths.root.rmdir()
    return alive


def _cancel_waiting(slurm: Slurm, config: CampaignConfig) -> None:
    """Cancel the controllers that have not started; a sweep follows, so Slurm's silence is fine."""
    with contextlib.suppress(SchedulerSilent):
        rows = controller_job.live(slurm, config.campaign_id)
        cancel_jobs(slurm, controller_job.waiting(rows))


def patience_s(config: CampaignConfig) -> float:
    """Return how many seconds a driver may take to stop after a request."""
    if config.backend != "slurm":
        return WAIT_S
    return WAIT_S + _STOPPING_S + PATIENCE_S + _COMMANDS * config.site.watch.command_s


@dataclass(slots=True)
class _Waiting:
    """A wait until no process holds a campaign's driver lock, or another of its locks (`held`)."""

    paths: RunPaths
    limit_s: float
    wait: Wait
    clock: Callable[[], float]
    tell: Tell
    held: Path | None = None
    woken_at: float | None = None
    told: bool = False

    def until_released(self) -> None:
        """Wait, and wake or kill a suspended driver on this host. Raises CampaignBusy."""
        begun = self.clock()
        while (holder := read_holder(self.held or self.paths.lock)) is not None and holder["alive"]:
            waited = self.clock() - begun
            who = f"the driver ({named(holder)})"
            if waited > self.limit_s:
                raise CampaignBusy(
                    f"{self.paths.root}: {who} does not stop; end that process and try again"
                )
            if _stands_still(holder):
                self._wake(holder, who)
            elif waited > TOLD_AFTER_S and not self.told:
                self.told = True
                self.tell(f"waiting for {who} to stop its trials, {self.limit_s:g} s at most")
            self.wait(POLL_S if holder["local"] else 10 * POLL_S)

    def _wake(self, holder: Mapping[str, Any], who: str) -> None:
        """Continue a suspended driver so that it sees the request to end; later kill it."""
        if self.woken_at is None:
            self.woken_at = self.clock()
            self.tell(f"{who} was stopped (SIGSTOP, or by a debugger); it continues now, to end")
        number = signal.SIGCONT
        if self.clock() - self.woken_at > AWAKE_S:
            self.tell(f"{who} does not react: killing it")
            number = signal.SIGKILL
        with contextlib.suppress(ProcessLookupError):
            os.kill(holder["pid"], number)


def _stands_still(holder: Mapping[str, Any]) -> bool:
    if not holder["local"]:
        return False
    try:
        return psutil.Process(holder["pid"]).status() in _STANDING_STILL
    except psutil.Error:
        return False
