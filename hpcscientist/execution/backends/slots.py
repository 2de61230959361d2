"""A machine's slots, GPUs and memory, given to trials first come, first served."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from hpcscientist.errors import UsageError


@dataclass(frozen=True, slots=True)
class TrialNeeds:
    """What a trial requests besides a slot. MiB. `alone`: nothing runs beside it."""

    gpus: int = 0
    memory_mb: int = 0
    alone: bool = False


@dataclass(eq=False, slots=True)
class SlotHeld:
    """What a trial has been given; `gpus` are exclusively its own."""

    need: TrialNeeds
    gpus: tuple[str, ...] = ()


_NONE = TrialNeeds()


class Slots:
    """Slots of one event loop, with the GPUs (by name) and the memory that they share.

    A trial that requests more than the machine has gets all of it, and so waits until no other
    trial holds any. `take_now` may overdraw; until that is given back, nothing else starts.
    """

    def __init__(self, total: int, gpus: Sequence[str] = (), memory_mb: float = math.inf) -> None:
        self.total, self._used = total, 0
        self._all_gpus, self._free = len(gpus), list(gpus)
        self._gpus_used = 0
        self._memory_mb, self._memory_used = memory_mb, 0.0
        self._alone = False
        self._waiting: deque[tuple[asyncio.Future[SlotHeld], TrialNeeds]] = deque()

    async def take(self, need: TrialNeeds = _NONE) -> SlotHeld:
        """Wait for a slot and the other resources needed; earlier calls go first."""
        if not self._waiting and self._fits(need):
            return self.take_now(need)
        turn: asyncio.Future[SlotHeld] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, need))
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(turn.result())  # it was granted just before the cancellation
            else:
                self._waiting = deque(one for one in self._waiting if one[0] is not turn)
                self._serve()  # the next in the queue may fit
            raise

    def take_now(self, need: TrialNeeds = _NONE, gpus: Sequence[str] = ()) -> SlotHeld:
        """Take resources without waiting; `gpus` are those that a running trial already has."""
        self._used += 1
        self._gpus_used += need.gpus
        self._memory_used += need.memory_mb
        self._alone = self._alone or need.alone
        taken = [name for name in gpus if name in self._free] or self._free[: need.gpus]
        taken = taken if need.gpus else []
        self._free = [name for name in self._free if name not in taken]
        return SlotHeld(need, tuple(taken))

    def give_back(self, held: SlotHeld | None = None) -> None:
        """Release what a trial had, and serve the queue, longest wait first."""
        held = held or SlotHeld(_NONE)
        self._used -= 1
        self._gpus_used -= held.need.gpus
        self._memory_used -= held.need.memory_mb
        self._alone = self._alone and not held.need.alone
        self._free += held.gpus
        self._serve()

    def _serve(self) -> None:
        while self._waiting and (self._waiting[0][0].done() or self._fits(self._waiting[0][1])):
            turn, need = self._waiting.popleft()
            if not turn.done():  # done means cancelled, but its task has not run since
                turn.set_result(self.take_now(need))

    def _fits(self, need: TrialNeeds) -> bool:
        if self._used >= self.total or self._alone:
            return False
        if need.alone:
            return self._used == 0
        # If nobody holds a resource, grant any request for it, or the trial would wait forever.
        return (not need.gpus or not self._gpus_used or self._gpus_left() >= need.gpus) and (
            not self._memory_used or self._memory_used + need.memory_mb <= self._memory_mb
        )

    def _gpus_left(self) -> int:
        return self._all_gpus - self._gpus_used


# This machine's resources, shared by the trials that run on it at once.

_DEVICES = Path("/proc/driver/nvidia/gpus")
_LIMIT = Path("/sys/fs/cgroup/memory.max")


def gpu_names(environment: Mapping[str, str], devices: Path = _DEVICES) -> tuple[str, ...]:
    """Return this machine's GPUs as CUDA_VISIBLE_DEVICES names them; () if none are known."""
    given = environment.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return tuple(name.strip() for name in given.split(",") if name.strip())
    if not devices.is_dir():
        return ()
    return tuple(str(number) for number, _ in enumerate(devices.iterdir()))


def memory_mb() -> float:
    """Return the memory available to trials, in MiB: the machine's, or its control group's."""
    total = float(psutil.virtual_memory().total)
    with contextlib.suppress(OSError, ValueError):  # there is no limit, or it is not visible here
        total = min(total, float(_LIMIT.read_text()))
    return total / 2**20


# Paths that Slurm and submitit do not take literally.


def refuse_patterns(root: Path) -> None:
    """Raise UsageError for a folder below which nothing can be submitted.

    submitit replaces %j and the like anywhere in a path, and Slurm replaces even more patterns, so
    files would end up in other folders.
    """
    if "%" in str(root.absolute()):
        raise UsageError(
            f"{root.absolute()}: Slurm and submitit read the % in this path as the start of a "
            "pattern; give a folder without one (--run-dir, or --out of a rerun)"
        )
