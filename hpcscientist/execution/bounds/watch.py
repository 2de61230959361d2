"""Looks at the bounds of a command while it runs, each as often as it is worth."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from hpcscientist.execution import folders
from hpcscientist.execution.bounds import unlinked_files
from hpcscientist.system.processes import ProcessTree

# How deep processes are nested in user namespaces.
#
# Whoever makes a user namespace may mount file systems in it, and what lies in those is part of
# no process and of no folder that is watched.

_NS_GET_PARENT = 0xB702  # ioctl_ns(2)


def deepest(pids: Iterable[int]) -> int:
    """Return how many user namespaces lie between this process and the deepest of `pids`.

    Namespaces that are not below this process's own count as none, and so does whatever the
    kernel does not tell.
    """
    found: dict[int, str] = {}
    for pid in pids:
        path = f"/proc/{pid}/ns/user"
        try:
            found.setdefault(os.stat(path).st_ino, path)  # noqa: PTH116 (speed)
        except OSError:
            continue  # it ended, or may not be looked at
    own = os.stat("/proc/self/ns/user").st_ino  # noqa: PTH116
    return max((_depth(path, own) for inode, path in found.items() if inode != own), default=0)


def _depth(path: str, own: int) -> int:
    depth = 0
    try:
        here = os.open(path, os.O_RDONLY)
        try:
            while os.fstat(here).st_ino != own:
                above = fcntl.ioctl(here, _NS_GET_PARENT)
                os.close(here)
                here, depth = above, depth + 1
        finally:
            os.close(here)
    except OSError:
        return 0
    return depth


# What processes use: memory, threads, processor time.

_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20
_TICKS = os.sysconf("SC_CLK_TCK")


def memory_mb(
    pids: Iterable[int], limit_mb: float, give_up: Callable[[], bool] = lambda: False
) -> float | None:
    """Return the memory held by processes, MiB; None after `give_up` said so.

    The sum of resident sizes counts a shared page once a process; where it passes
    `limit_mb`, the proportional size decides, which counts it once. To learn it takes long, for
    it waits for each process's memory map: longest of those that fork, meanwhile, without end.
    """
    pids, held = list(pids), 0.0
    for look in (_resident_mb, _proportional_mb):
        held = 0.0
        for pid in pids:
            if give_up():
                return None
            held += look(pid)
        if held <= limit_mb:
            break
    return held


def anonymous_shared_mb(pids: Iterable[int]) -> float:
    """Return the part of processes' resident memory that is in memory-only files, MiB."""
    found = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/status") as file:  # noqa: PTH123 (speed)
            found += sum(int(line.split()[1]) for line in file if line.startswith("RssShmem:"))
    return found / 1024


def tasks_of_all() -> int:
    """Return how many threads this machine has: no user has more, in whatever namespace.

    Counting one user's would take a look at every process.
    """
    with open("/proc/loadavg") as file:  # noqa: PTH123 (speed)
        return int(file.read().split()[3].partition("/")[2])


def cpu_s(pids: Iterable[int]) -> float:
    """Return the processor time of processes and of the children they reaped, seconds."""
    ticks = 0
    for pid in pids:
        # Not by psutil, see `_resident_mb`. One that ended is counted by whoever reaped it.
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 (speed)
            ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:15]))
    return ticks / _TICKS


def _resident_mb(pid: int) -> float:
    # Not by psutil: this is asked of every process twenty times a second.
    try:
        with open(f"/proc/{pid}/statm") as file:  # noqa: PTH123 (speed)
            return int(file.read().split()[1]) * _PAGE_MB
    except (OSError, LookupError):
        return 0.0  # it ended


def _proportional_mb(pid: int) -> float:
    try:
        return float(psutil.Process(pid).memory_full_info().pss) / 2**20
    except (psutil.Error, AttributeError):
        return _resident_mb(pid)


_TICK_S = 0.05
_FOLDERS_EVERY_S = 0.5

_SUSPENDED_S = 1.0


class Reason(StrEnum):
    """Why a command ended."""

    EXITED = "exited"
    DEADLINE = "deadline"
    MEMORY = "memory"
    OUTPUT = "output"
    PROCESSES = "processes"
    NAMESPACE = "namespace"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a command may use. Seconds, MiB, counts.

    `output_mb` holds for the sum of `watched`, `processes` counts threads, `open_files` is for
    each process. `namespaces` is how deep in user namespaces it may be (None: no matter).
    `apart`: it is to see no process but its own, where the machine can (see `pid_namespace`).
    """

    deadline_s: float
    memory_mb: int
    output_mb: int
    watched: tuple[Path, ...] = ()
    processes: int = 1024
    open_files: int = 4096
    namespaces: int | None = None
    apart: bool = False


class Watch:
    """Knows when a command has to end, how much memory it held at most (MiB), and what processor
    time its processes were last seen to have used (`cpu_s`, seconds).

    Set `resumed` when this process was let go on after somebody suspended it, as schedulers do
    with whole jobs: the time in between is not the command's.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        tree: ProcessTree,
        bounds: Bounds,
        stop: threading.Event,
        begun: float,
    ) -> None:
        self._process, self._brood, self._bounds, self._stop = process, tree, bounds, stop
        self._deadline = begun + bounds.deadline_s
        self._next_tick = self._next_folders = self._seen = begun
        self._anonymous_mb = 0.0
        self.peak_mb = self.cpu_s = 0.0
        self.resumed = False

    def reason(self) -> Reason | None:
        """Return why the command has ended or has to, or None."""
        now = time.monotonic()
        if self.resumed:
            self.resumed, now = False, time.monotonic()  # it may be from before the suspension
            if now - self._seen > _SUSPENDED_S:
                self._deadline += now - self._seen
        self._seen = now
        if self._stop.is_set():
            return Reason.STOPPED
        if self._process.poll() is not None:
            # Files it left behind are measured too: a quick writer is still a writer.
            return Reason.OUTPUT if self._is_output_too_large([], lambda: False) else Reason.EXITED
        if now >= self._deadline:
            return Reason.DEADLINE
        if now < self._next_tick:
            return None
        # Counted from the end of a look: one that takes long must not become all we do.
        reason = self._look(now)
        self._next_tick = time.monotonic() + _TICK_S
        return reason

    def timeout(self) -> float:
        """Return the seconds until the next look is due."""
        return max(0.0, min(self._next_tick, self._deadline) - time.monotonic())

    def _look(self, now: float) -> Reason | None:
        limit = self._bounds.processes
        found, threads = self._brood.census(limit, self._is_over)
        if threads > limit:
            return Reason.PROCESSES
        # These are no part of the command: they are this process, forked.
        ours = self._brood.ours()
        pids = [pid for pid in found if pid not in ours]
        if self._bounds.namespaces is not None and deepest(pids) > self._bounds.namespaces:
            return Reason.NAMESPACE
        # Some of what follows waits for each process, and so may take long: long enough for those
        # that fork without end to become too many to be looked at.
        crowd = tasks_of_all() + limit // 4

        def in_hurry() -> bool:
            return self._is_over() or tasks_of_all() > crowd

        self.cpu_s = max(self.cpu_s, cpu_s(itertools.takewhile(lambda _: not in_hurry(), found)))

        if now >= self._next_folders:
            if self._is_output_too_large(pids, in_hurry):
                return Reason.OUTPUT
            self._next_folders = time.monotonic() + _FOLDERS_EVERY_S
        held = memory_mb(pids, self._bounds.memory_mb, in_hurry)
        if held is None:
            return None  # they are counted again first
        held += self._anonymous_mb
        self.peak_mb = max(self.peak_mb, held)
        return Reason.MEMORY if held > self._bounds.memory_mb else None

    def _is_over(self) -> bool:
        """Whether the command has to end now, whatever a look finds that is not finished yet.

        Where thousands of processes want to run, a look takes minutes.
        """
        return self._stop.is_set() or time.monotonic() >= self._deadline

    def _is_output_too_large(self, pids: list[int], in_hurry: Callable[[], bool]) -> bool:
        limit = self._bounds.output_mb * 2**20
        without_name = unlinked_files.held(
            itertools.takewhile(lambda _: not in_hurry(), pids), self._devices()
        )
        self._anonymous_mb = 0.0
        if without_name.in_memory:  # what is mapped is part of somebody's resident size already
            anonymous = without_name.in_memory / 2**20
            self._anonymous_mb = max(0.0, anonymous - anonymous_shared_mb(pids))
        size, entries = folders.measure(self._bounds.watched, limit)
        return size + without_name.on_disk > limit or entries > folders.MAX_ENTRIES

    def _devices(self) -> frozenset[int]:
        found = set()
        for folder in self._bounds.watched:
            with contextlib.suppress(OSError):
                found.add(os.stat(folder).st_dev)  # noqa: PTH116
        return frozenset(found)
