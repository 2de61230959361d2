"""What processes use: memory, threads, processor time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable

import psutil

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
