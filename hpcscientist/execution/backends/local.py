"""Trials as local processes, on submitit's LocalExecutor: one job a trial.

submitit's defaults that bite, and what is done about them: it throttles submissions by
sleeping (an executor a job), names files by process id, which is reused (a folder a job),
never cleans up (we do), overwrites CUDA_VISIBLE_DEVICES (handed on by `Launch`), imports NumPy
before it loads a call (`submitted`; no setting for that, so a private property is replaced), and
its controller dies noisily of the terminal's Ctrl-C (submitted with SIGINT blocked).

Not covered: a second host. A worker.json of another host without a result counts as lost.
"""

from __future__ import annotations

import asyncio
import math
import os
import shlex
import signal
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import submitit

from hpcscientist.errors import DiskFull
from hpcscientist.execution import folders, presence, scratch
from hpcscientist.execution.backends.crowd import Crowd
from hpcscientist.execution.backends.leftovers import keep_log
from hpcscientist.execution.backends.patterns import refuse_patterns
from hpcscientist.execution.backends.slots import Slots
from hpcscientist.execution.backends.stopping import stop_processes, sweep
from hpcscientist.execution.backends.submitted import MODULE as SUBMITTED
from hpcscientist.execution.scoring import DEADLINE_S as SCORING_S
from hpcscientist.files.atomic import read_tail
from hpcscientist.files.rundir import RunPaths, TrialPaths
from hpcscientist.files.space import NO_SPACE
from hpcscientist.ports.backend import OnEnd, OnTrial
from hpcscientist.records.trial import TrialSpec
from hpcscientist.system import processes

__all__ = ["Launch", "LocalBackend", "sweep"]

_POLL_S = 0.05
_SLACK_S = 120.0  # our own deadlines come first; submitit's is for a worker that hangs
_LOG_TAIL = 16 * 1024


@dataclass(frozen=True, slots=True)
class Launch:
    """What a job runs: the worker's entry, with the GPUs as the driver has them."""

    entry: Callable[[str], None]
    visible_gpus: str | None

    def __call__(self, trial_dir: str) -> None:
        """Run one trial."""
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        if self.visible_gpus is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = self.visible_gpus
        self.entry(trial_dir)


class _Executor(submitit.LocalExecutor):
    """submitit's executor, whose jobs start without NumPy."""

    @property
    def _submitit_command_str(self) -> str:
        return f"{self.python} -u -m {SUBMITTED} {shlex.quote(str(self.folder))}"


class LocalBackend:
    """Runs at most `slots` trials at once, first come first served."""

    def __init__(self, paths: RunPaths, slots: int, entry: Callable[[str], None]) -> None:
        """Submit nothing yet. Raises UsageError for a run directory that no job can lie in."""
        refuse_patterns(paths.root)
        self._paths, self._entry = paths, entry
        self._slots = Slots(slots)
        self._crowd = Crowd(self._run)

    @property
    def slots(self) -> int:
        """How many trials run at once."""
        return self._slots.total

    async def run(self, trials: Sequence[TrialSpec], on_start: OnTrial, on_end: OnEnd) -> None:
        """Run trials to their end; see the port."""
        await self._crowd.run(trials, on_start, on_end)

    async def close(self) -> None:
        """Stop what still runs. Idempotent."""
        await self._crowd.close()

    def avoid(self, nodes: Collection[str]) -> None:
        """There is but one node."""

    def let_go(self) -> None:
        """Nothing outlives the driver here: what runs is stopped."""

    async def _run(self, trial: TrialSpec, on_start: OnTrial, on_end: OnEnd) -> None:
        paths = self._paths.trial(trial.trial_id)
        folder = (self._paths.submission / f"{trial.trial_id}-{trial.run}").absolute()
        adopted = presence.live_worker(paths, trial.run)
        if adopted is None:
            await self._slots.take()
        else:
            self._slots.take_now()  # it runs already, whoever waits
        job: submitit.Job[None] | None = None
        try:
            if adopted is None:
                job = self._submit(trial, folder)
            on_start(trial)
            await self._ended(trial, paths, job)
            self._clear_up(trial, paths, folder)
        except BaseException:
            await self._stop(trial, paths, job)
            self._clear_up(trial, paths, folder, log=False)
            raise
        finally:
            self._slots.give_back()
        on_end(trial, None)

    def _submit(self, trial: TrialSpec, folder: Path) -> submitit.Job[None]:
        if folder.exists():  # a driver killed while it submitted left a job that has not begun
            _end_named(folder)
        launch = Launch(self._entry, os.environ.get("CUDA_VISIBLE_DEVICES"))
        try:
            executor = _Executor(folder=folder)
            executor.update_parameters(
                timeout_min=math.ceil(_longest_s(trial) / 60),
                stderr_to_stdout=True,
                signal_delay_s=1,
            )
            with _sigint_blocked():
                return executor.submit(launch, str(self._paths.trial(trial.trial_id).root))
        except OSError as error:
            _end_named(folder)
            if error.errno in NO_SPACE:
                raise DiskFull(f"no space to submit below {folder.parent}: make room") from error
            raise

    async def _ended(
        self, trial: TrialSpec, paths: TrialPaths, job: submitit.Job[None] | None
    ) -> None:
        """Wait until neither the job nor a worker of this run is alive."""
        until = time.monotonic() + _longest_s(trial) + 60
        while (job is not None and not job.done()) or presence.live_worker(paths, trial.run):
            if time.monotonic() > until:  # a hung worker whose controller is gone
                await self._stop(trial, paths, job)
                return
            await asyncio.sleep(_POLL_S)

    async def _stop(
        self, trial: TrialSpec, paths: TrialPaths, job: submitit.Job[None] | None
    ) -> None:
        """End the worker and its tree: asked first, killed after a while."""
        controller = [] if job is None or job.done() else [psutil.Process(int(job.job_id))]

        def alive() -> list[psutil.Process]:
            worker = presence.live_worker(paths, trial.run)
            return ([] if worker is None else [worker]) + [p for p in controller if _runs(p)]

        await stop_processes(alive)
        if job is not None:
            job.done()  # reaps the controller
        _end_marked(trial)

    def _clear_up(
        self, trial: TrialSpec, paths: TrialPaths, folder: Path, log: bool = True
    ) -> None:
        """Remove what submitit, or a worker that was killed, left of an ended trial."""
        if log and not paths.result.exists():
            _keep_log(paths, folder)
        if not paths.result.exists():
            _end_marked(trial)
            scratch.remove_of(paths)
        folders.remove(folder)


def _longest_s(trial: TrialSpec) -> float:
    """Return the seconds after which a job of this trial can only be hanging."""
    return trial.limits.deadline_s + SCORING_S + _SLACK_S


def _end_named(folder: Path) -> None:
    processes.kill_trees(processes.naming(folder))
    folders.remove(folder)


def _end_marked(trial: TrialSpec) -> None:
    processes.end_marked(trial.provenance.campaign_id, trial.trial_id)


def _runs(process: psutil.Process) -> bool:
    return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)


def _keep_log(paths: TrialPaths, folder: Path) -> None:
    """Keep what a lost worker said; submitit's files are about to go."""
    keep_log(
        paths, "".join(read_tail(path, _LOG_TAIL) for path in sorted(folder.glob("*_log.out")))
    )


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block SIGINT, as children inherit; one that arrives meanwhile is delivered after."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
