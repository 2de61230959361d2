"""One `srun` as a process of the driver: its start, its end, its folder.

The worker writes its step's number into the folder, and it is asked to stop by `scancel`,
because `srun` turns a SIGTERM of its own into a SIGKILL for its step.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from hpcscientist.errors import DiskFull, SchedulerError, SchedulerRefused
from hpcscientist.execution import folders
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.files.atomic import read_tail
from hpcscientist.files.space import NO_SPACE

STEP_FILE = "step"  # in a step's folder: JOB.STEP, written by the worker
_LOG = "log"
_LOG_TAIL = 16 * 1024

_POLL_S = 0.1
_PATIENCE_S = 10.0  # for a worker that was asked to stop; then it is killed
_REMIND_S = 2.0


class Step:
    """One `srun`, with its folder: what it says, and its step's number once the worker runs."""

    def __init__(self, folder: Path, slurm: Slurm) -> None:
        self._folder, self._slurm = folder, slurm
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def went_well(self) -> bool:
        """Whether it ended with exit code 0."""
        return self._process is not None and self._process.poll() == 0

    def start(self, command: Sequence[str]) -> None:
        """Start it, apart from the terminal's Ctrl-C. Raises DiskFull, OSError and
        SchedulerRefused (no srun here).
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / _LOG).open("wb") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except FileNotFoundError as error:
            raise SchedulerRefused(
                "there is no srun on PATH: load your site's Slurm module, or leave "
                "serving.trials_inside out"
            ) from error
        except OSError as error:
            if error.errno in NO_SPACE:
                raise DiskFull(f"no space to start a step in {self._folder}: make room") from error
            raise

    def runs(self) -> bool:
        """Tell whether srun is alive."""
        return self._process is not None and self._process.poll() is None

    def said(self) -> str:
        """The end of what srun and the worker printed."""
        return read_tail(self._folder / _LOG, _LOG_TAIL) or "nothing"

    async def ended(self, longest_s: float) -> None:
        """Wait for its end; a worker that hangs for longer is stopped."""
        until = time.monotonic() + longest_s
        while self.runs():
            if time.monotonic() > until:
                await self.stop()
                return
            await asyncio.sleep(_POLL_S)
        if self._process is not None and self._process.returncode < 0:
            await self._signal("KILL")  # srun was killed; its step need not be

    async def stop(self) -> None:
        """End the step: the worker is asked first, and killed after a while."""
        begin = time.monotonic()
        reminded = float("-inf")
        while self.runs():
            now = time.monotonic()
            if now - begin > 2 * _PATIENCE_S and self._process is not None:
                self._process.kill()  # Slurm does not answer; the job's end ends the step
            elif now - reminded > _REMIND_S:
                reminded = now
                await self._signal("TERM" if now - begin < _PATIENCE_S else "KILL")
            await asyncio.sleep(_POLL_S)

    async def end_former(self) -> None:
        """End what a driver that was killed left of this run in the same allocation."""
        if self._folder.exists():
            await self._signal("KILL")
            folders.remove(self._folder)

    async def _signal(self, name: str) -> None:
        try:
            number = (self._folder / STEP_FILE).read_text().strip()
        except OSError:
            number = ""
        if number:
            with contextlib.suppress(SchedulerError):  # it has ended, or we ask again
                await asyncio.to_thread(self._slurm.run, "scancel", f"--signal={name}", number)
        elif self._process is not None and self.runs():
            self._process.terminate()  # no worker yet: srun ends its step at once
