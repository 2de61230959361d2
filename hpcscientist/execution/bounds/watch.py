"""Check a command's limits while it runs, cheap checks more often than expensive ones."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from hpcscientist.execution import folders
from hpcscientist.system.processes import ProcessTree

# Measure files that no folder shows: deleted or anonymous, but still open or mapped.


_DELETED = " (deleted)"
_IN_MEMORY = "/memfd:"

_Sizes = dict[tuple[int, int], int]  # by device and inode: processes may share a file


@dataclass(frozen=True, slots=True)
class UnlinkedBytes:
    """Bytes in deleted files on disk, and in anonymous files that exist only in memory."""

    on_disk: int
    in_memory: int


def unlinked_bytes(pids: Iterable[int], devices: frozenset[int]) -> UnlinkedBytes:
    """Return the bytes that processes hold in files without a name; on disk, only on `devices`.

    Limitation: if a file is mapped but no longer open, only the mapped part counts.
    """
    on_disk: _Sizes = {}
    in_memory: _Sizes = {}
    mapped: _Sizes = {}
    for pid in pids:
        # A process that ends meanwhile holds nothing any more.
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 (speed)
                with contextlib.suppress(OSError):
                    _look(f"/proc/{pid}/fd/{number}", on_disk, in_memory)
        with contextlib.suppress(OSError):
            for key, size in _mapped(pid).items():
                mapped[key] = max(mapped.get(key, 0), size)
    on_disk = mapped | on_disk  # for an open file, the size on disk is known
    return UnlinkedBytes(
        sum(size for (device, _), size in on_disk.items() if device in devices),
        sum(in_memory.values()),
    )


def _look(path: str, on_disk: _Sizes, in_memory: _Sizes) -> None:
    name = os.readlink(path)  # noqa: PTH115 (speed)
    if not name.endswith(_DELETED):
        return
    info = os.stat(path)  # noqa: PTH116 (speed)
    if stat.S_ISREG(info.st_mode) and info.st_nlink == 0:
        kind = in_memory if name.startswith(_IN_MEMORY) else on_disk
        kind[info.st_dev, info.st_ino] = info.st_blocks * 512


def _mapped(pid: int) -> _Sizes:
    """Return the mapped bytes of a process's deleted files, by file. Raises OSError."""
    found: _Sizes = {}
    with open(f"/proc/{pid}/maps") as file:  # noqa: PTH123 (speed)
        for line in file:
            if not line.endswith(_DELETED + "\n") or _IN_MEMORY in line:
                continue
            span, _, _, device, inode, *_ = line.split(maxsplit=5)
            begin, end = (int(part, 16) for part in span.split("-"))
            major, minor = (int(part, 16) for part in device.split(":"))
            key = (os.makedev(major, minor), int(inode))
            found[key] = found.get(key, 0) + end - begin
    return found


# How deep processes are nested in user namespaces.
#
# A process that creates a user namespace may mount file systems in it. What they hold belongs to no
# process and to no watched folder.

_NS_GET_PARENT = 0xB702  # ioctl_ns(2)


def deepest(pids: Iterable[int]) -> int:
    """Return how many user namespaces the deepest of `pids` is below this process's own.

    Namespaces that are not below this process's own count as 0, and so do those that the kernel
    does not show.
    """
    found: dict[int, str] = {}
    for pid in pids:
        path = f"/proc/{pid}/ns/user"
        try:
            found.setdefault(os.stat(path).st_ino, path)  # noqa: PTH116 (speed)
        except OSError:
            continue  # it ended, or we have no permission
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


# Resources that processes use: memory, threads, processor time.

_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20
_TICKS = os.sysconf("SC_CLK_TCK")


def memory_mb(
    pids: Iterable[int], limit_mb: float, give_up: Callable[[], bool] = lambda: False
) -> float | None:
    """Return the memory held by processes, in MiB; None if `give_up` returned true.

    The sum of resident sizes counts a shared page once per process. If it exceeds `limit_mb`, the
    proportional sizes decide, which count a shared page once. They take long to read, because the
    kernel waits for each process's memory map, longest for processes that fork endlessly.
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
    """Return how much resident memory of processes is in memory-only files, in MiB."""
    found = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/status") as file:  # noqa: PTH123 (speed)
            found += sum(int(line.split()[1]) for line in file if line.startswith("RssShmem:"))
    return found / 1024


def tasks_of_all() -> int:
    """Return the number of threads on this machine, an upper bound for any user or namespace.

    Counting one user's threads would require a look at every process.
    """
    with open("/proc/loadavg") as file:  # noqa: PTH123 (speed)
        return int(file.read().split()[3].partition("/")[2])


def cpu_s(pids: Iterable[int]) -> float:
    """Return the processor time of processes and of the children they reaped, in seconds."""
    ticks = 0
    for pid in pids:
        # Not psutil, see `_resident_mb`. A process that ended counts for the one that reaped it.
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 (speed)
            ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:15]))
    return ticks / _TICKS


def _resident_mb(pid: int) -> float:
    # Not psutil, which is slower: this runs for every process twenty times a second.
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

    `output_mb` limits the sum of `watched`, `processes` counts threads, `open_files` is per
    process. `namespaces` is how deep it may be nested in user namespaces (None: no limit). `apart`:
    run it in a process id namespace if the machine allows that (see `pid_namespace`).
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
    """Decides when a command has to end, and records its peak memory (`peak_mb`, MiB) and the
    processor time its processes were last seen to have used (`cpu_s`, seconds).

    Set `resumed` when this process continues after a suspension, as schedulers suspend whole jobs:
    the suspended time does not count towards the command's deadline.
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
        """Return why the command has ended or must end, or None."""
        now = time.monotonic()
        if self.resumed:
            self.resumed, now = False, time.monotonic()  # `now` may be from before the suspension
            if now - self._seen > _SUSPENDED_S:
                self._deadline += now - self._seen
        self._seen = now
        if self._stop.is_set():
            return Reason.STOPPED
        if self._process.poll() is not None:
            # Also measure the files it left, since it may have written them after the last look.
            return Reason.OUTPUT if self._is_output_too_large([], lambda: False) else Reason.EXITED
        if now >= self._deadline:
            return Reason.DEADLINE
        if now < self._next_tick:
            return None
        # Count from the end of a look, so that slow looks do not take all our time.
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
        # Our own forks are no part of the command.
        ours = self._brood.ours()
        pids = [pid for pid in found if pid not in ours]
        if self._bounds.namespaces is not None and deepest(pids) > self._bounds.namespaces:
            return Reason.NAMESPACE
        # Some of the following waits for each process and may take long. Meanwhile processes that
        # fork endlessly could become too many to look at.
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
            return None  # count the processes again first
        held += self._anonymous_mb
        self.peak_mb = max(self.peak_mb, held)
        return Reason.MEMORY if held > self._bounds.memory_mb else None

    def _is_over(self) -> bool:
        """Return whether the command must end now, so that an unfinished look can be abandoned.

        With thousands of runnable processes, a look takes minutes.
        """
        return self._stop.is_set() or time.monotonic() >= self._deadline

    def _is_output_too_large(self, pids: list[int], in_hurry: Callable[[], bool]) -> bool:
        limit = self._bounds.output_mb * 2**20
        held = unlinked_bytes(itertools.takewhile(lambda _: not in_hurry(), pids), self._devices())
        self._anonymous_mb = 0.0
        if held.in_memory:  # mapped parts already count in some process's resident size
            anonymous = held.in_memory / 2**20
            self._anonymous_mb = max(0.0, anonymous - anonymous_shared_mb(pids))
        size, entries = folders.measure(self._bounds.watched, limit)
        return size + held.on_disk > limit or entries > folders.MAX_ENTRIES

    def _devices(self) -> frozenset[int]:
        found = set()
        for folder in self._bounds.watched:
            with contextlib.suppress(OSError):
                found.add(os.stat(folder).st_dev)  # noqa: PTH116
        return frozenset(found)
