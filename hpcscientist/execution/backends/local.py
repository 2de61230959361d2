"""Run trials as processes of this machine, each worker in a session of its own.

This does not use submitit's LocalExecutor. That needs a second interpreter per trial to enforce a
deadline, which is enforced here anyway. It also imports NumPy before it loads a call, which starts
threads in a process that forks.

Without a namespace of its own (see `pid_namespace`), a candidate may stop or trace its worker,
which then enforces no deadline. So the driver enforces it from outside.

Not covered: such a candidate that stops the driver, too; a second host. A worker.json of another
host without a result counts as lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias

import psutil

from hpcscientist.errors import DiskFull
from hpcscientist.execution import folders, presence, scratch
from hpcscientist.execution.backends.process_backend import (
    ProcessBackend,
    clear_submission,
    stop_processes,
    sweep,
)
from hpcscientist.execution.backends.slots import (
    SlotHeld,
    Slots,
    TrialNeeds,
    gpu_names,
    memory_mb,
    refuse_patterns,
)
from hpcscientist.execution.trial import node_name
from hpcscientist.files.atomic import NO_SPACE, read_tail
from hpcscientist.files.rundir import RunPaths, TrialPaths
from hpcscientist.records.trial import Ended, EndState, TrialSpec, run_of
from hpcscientist.system import gpus, processes

__all__ = ["LocalBackend", "sweep"]

_POLL_S = 0.05
_SLACK_S = 120.0  # for the worker, beyond the limits of its candidate and its scorer
_LOG = "log"
_LOG_TAIL = 16 * 1024
_OVERTIME_S = 10.0  # past the deadline; a running worker ends its candidate within a tick
_HELD_S = 3.0  # how long a worker must be stopped or traced before it is ended
_STANDING_STILL = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)

Job: TypeAlias = "subprocess.Popen[bytes] | psutil.Process"


# To import what it needs takes a worker half a second of CPU time, more than a short trial itself.
# So one process imports it once and forks each worker.

_FORK = "--fork"  # see `worker.__main__`
_READY_S = 60.0
_ANSWER_S = 5.0  # a fork takes milliseconds
_ENDS_S = 1.0
_TRIES = 3


class WorkerForks:
    """A process that forks workers. It ends with the driver, and the workers go on.

    Whatever fails here, `start` returns None: then the worker has to be started by itself.
    """

    def __init__(self, module: str) -> None:
        self._command = [sys.executable, "-P", "-m", module, _FORK]
        self._server: socket.socket | None = None
        self._end: Callable[[], object] = lambda: None
        self._begins = asyncio.Lock()
        self._tries = _TRIES

    async def start(
        self, words: Sequence[str], log: Path, environment: Mapping[str, str]
    ) -> psutil.Process | None:
        """Start a worker with these arguments; `environment` is added to the driver's."""
        async with self._begins:
            if self._server is None and self._tries:
                self._tries -= 1
                with contextlib.suppress(OSError):
                    await self._begin()
        if self._server is None:
            return None
        request = {"words": words, "log": str(log), "environment": environment}
        # No await from here on: whoever cancels the caller can then stop the worker.
        try:
            self._server.settimeout(_ANSWER_S)
            self._server.sendall(json.dumps(request).encode() + b"\n")
            return psutil.Process(int(self._server.recv(64)))
        except (OSError, ValueError, psutil.Error):
            self.close()
            processes.kill_trees(processes.naming(log.parent))  # it may have forked after all
            return None

    async def _begin(self) -> None:
        """Start the process, and wait until it can fork. Raises OSError."""
        ours, theirs = socket.socketpair()
        with theirs, contextlib.ExitStack() as undo:
            undo.callback(ours.close)
            process = subprocess.Popen(  # noqa: ASYNC220 (it returns at once)
                self._command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            undo.pop_all()
        self._end = weakref.finalize(self, _end, process, ours)
        ours.setblocking(False)
        try:
            async with asyncio.timeout(_READY_S):
                if await asyncio.get_running_loop().sock_recv(ours, 64):
                    self._server = ours
        finally:
            if self._server is None:
                self.close()

    def close(self) -> None:
        """End the process; not the workers."""
        self._server = None
        self._end()


def _end(process: subprocess.Popen[bytes], ours: socket.socket) -> None:
    ours.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_ENDS_S)
    process.kill()
    process.wait()


class LocalBackend(ProcessBackend):
    """Runs at most `slots` trials at once, first come, first served, each with GPUs of its own.

    A trial starts as soon as there are enough memory and GPUs.
    """

    def __init__(
        self, paths: RunPaths, slots: int, module: str, gpus: Sequence[str] | None = None
    ) -> None:
        """Start nothing yet. `module` is the module that runs a trial: see `worker.__main__`.

        `gpus` are those that trials may use, as CUDA_VISIBLE_DEVICES names them; None: all GPUs.
        Raises UsageError for a run directory that a campaign could not use on Slurm.
        """
        refuse_patterns(paths.root)
        super().__init__(slots)
        self._paths, self._module = paths, module
        self._forks = WorkerForks(module)
        self._slots = Slots(slots, gpu_names(os.environ) if gpus is None else gpus, memory_mb())

    async def close(self) -> None:
        """Stop all runs; see `ports.Backend`."""
        await super().close()
        self._forks.close()

    async def sweep(self) -> None:
        """Stop all runs, and remove what killed drivers left of ended jobs."""
        await super().sweep()
        clear_submission(self._paths)

    async def follow(self, trial: TrialSpec) -> Ended:
        """Run a trial, or wait for a worker that already runs it; see `ProcessBackend`."""
        paths = self._paths.trial(trial.trial_id)
        folder = (self._paths.submission / f"{trial.trial_id}-{trial.run}").absolute()
        if presence.died(paths, trial.run):  # and so did the driver that started it
            said = self._clear_up(trial, paths, folder)
            return _ended(trial, paths, "the worker and the driver ended while it ran", said)
        need = _need(trial)
        adopted = presence.live_worker(paths, trial.run)
        # A worker that already runs does not have to wait for a slot.
        held = await self._slots.take(need) if adopted is None else self._take_over(need, paths)
        job: Job | None = None
        try:
            if adopted is None:
                words = [str(paths.root.absolute()), str(trial.run), str(folder)]
                with _begun(folder) as log:
                    job = await self._forks.start(words, folder / _LOG, _gpus_of(held))
                    job = job or self._started(words, log, held)
            self.began(trial)
            why = await self._waited(trial, paths, job)
            said = self._clear_up(trial, paths, folder)
        except BaseException:
            await self._stop(trial, paths, job)
            self._clear_up(trial, paths, folder)
            presence.withdraw(paths)
            raise
        finally:
            self._slots.give_back(held)
        return _ended(trial, paths, why, said)

    def _started(self, words: Sequence[str], log: BinaryIO, held: SlotHeld) -> Job:
        return subprocess.Popen(
            # -P: do not import what a candidate put into the driver's working directory.
            [sys.executable, "-P", "-m", self._module, *words],
            env=os.environ | _gpus_of(held),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # the terminal's Ctrl-C does not reach it
        )

    def _take_over(self, need: TrialNeeds, paths: TrialPaths) -> SlotHeld:
        """Take the slot and the GPUs of a worker that already runs."""
        known = presence.read(paths)
        return self._slots.take_now(need, known.gpus if known is not None else ())

    async def _waited(self, trial: TrialSpec, paths: TrialPaths, job: Job | None) -> str:
        """Wait until no worker of this run is alive.

        Return why they had to be ended; "" if they ended by themselves.
        """
        begun = moving = last = time.monotonic()
        overtime = begun + trial.limits.deadline_s + _OVERTIME_S
        while (job is not None and _runs(job)) or presence.live_worker(paths, trial.run):
            now = time.monotonic()
            # If this process stood still, too, somebody suspended driver and worker together.
            both_stood = now - last > _HELD_S / 2
            if now <= overtime or both_stood or not self._stands_still(trial, paths, job):
                moving = now
            last = now
            if now > moving + _HELD_S:
                await self._stop(trial, paths, job)
                return "the worker was stopped or traced past its candidate's deadline"
            if now > begun + _longest_s(trial):
                await self._stop(trial, paths, job)
                return "" if paths.result.exists() else "the worker hung"
            await asyncio.sleep(_POLL_S)
        return ""

    def _stands_still(self, trial: TrialSpec, paths: TrialPaths, job: Job | None) -> bool:
        """Return whether the worker is stopped or traced."""
        pids = [] if job is None else [job.pid]
        worker = presence.live_worker(paths, trial.run)
        if worker is not None:
            pids.append(worker.pid)
        for pid in pids:
            with contextlib.suppress(psutil.Error):
                if psutil.Process(pid).status() in _STANDING_STILL:
                    return True
        return False

    async def _stop(self, trial: TrialSpec, paths: TrialPaths, job: Job | None) -> None:
        """End the worker and its process tree: ask first, kill after a while."""

        def alive() -> list[psutil.Process]:
            if job is not None and _runs(job):
                return [psutil.Process(job.pid)]
            worker = presence.live_worker(paths, trial.run)
            return [] if worker is None else [worker]

        await stop_processes(alive)
        _end_marked(trial)

    def _clear_up(self, trial: TrialSpec, paths: TrialPaths, folder: Path) -> str:
        """Remove what an ended or killed worker left; return the output of a lost worker."""
        said = ""
        if not paths.result.exists():
            said = read_tail(folder / _LOG, _LOG_TAIL)
            _end_marked(trial)
            scratch.remove_of(paths)
        folders.remove(folder)
        return said


def _longest_s(trial: TrialSpec) -> float:
    """Return the seconds after which a worker of this trial must be hanging."""
    return trial.limits.deadline_s + trial.limits.scorer_s + _SLACK_S


def _need(trial: TrialSpec) -> TrialNeeds:
    return TrialNeeds(trial.limits.gpus, trial.limits.memory_mb, trial.alone)


@contextmanager
def _begun(folder: Path) -> Iterator[BinaryIO]:
    """Make a worker's folder, and yield its log; undo it on an error. Raises DiskFull, OSError."""
    if folder.exists():  # a killed driver left a worker that has not begun
        _end_named(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / _LOG).open("wb") as log:
            yield log
    except OSError as error:
        _end_named(folder)
        if error.errno in NO_SPACE:
            raise DiskFull(f"no space to submit below {folder.parent}: make room") from error
        raise


def _runs(job: Job) -> bool:
    """Whether a worker's process runs."""
    if isinstance(job, subprocess.Popen):
        return job.poll() is None
    return job.is_running() and processes.is_alive(job.pid)


def _gpus_of(held: SlotHeld) -> dict[str, str]:
    """Return the variables that show a worker its GPUs."""
    if not held.gpus:
        return {}
    shown = {"CUDA_VISIBLE_DEVICES": ",".join(held.gpus)}
    return shown | gpus.order(os.environ | shown)


def _ended(trial: TrialSpec, paths: TrialPaths, why: str, said: str) -> Ended:
    """Return the end of a run. `why` its worker had to be ended; "" if it ended by itself."""
    lost = bool(why) and not paths.result.exists()
    return Ended(
        run_of(trial),
        EndState.LOST if lost else EndState.ENDED,
        ended_at=time.time(),
        began_at=presence.began(paths, trial.run),
        node=node_name(os.environ),
        why=why if lost else "",
        said=said,
    )


def _end_named(folder: Path) -> None:
    processes.kill_trees(processes.naming(folder))
    folders.remove(folder)


def _end_marked(trial: TrialSpec) -> None:
    processes.end_marked(trial.provenance.campaign_id, trial.trial_id)
