"""Process trees: finding every descendant, and ending all of them.

A process that forks twice and starts a session leaves its parent's process group, but not
its line: this process declares itself a subreaper (prctl(2)), so orphans among its
descendants become its children. Trees are read from /proc/PID/task/TID/children, which is
quick enough to catch a process that forks and exits in a loop; psutil is the fallback where
the kernel lacks that file.

Not covered: what a killed worker leaves behind. `marked` finds those by the environment
they were started with, unless they took care to lose it; there, only a container or a job's
cgroup helps.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import psutil

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

CAMPAIGN_MARK = "HPCSCI_CAMPAIGN"
TRIAL_MARK = "HPCSCI_TRIAL"

_PATIENT_AFTER_S = 0.2
_LIBC = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int) -> None:
    """Call prctl(2). Raises OSError."""
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


@cache
def _kernel_lists_children() -> bool:
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def children(pid: int) -> list[int]:
    """Return the process ids of a process's children, zombies included."""
    if not _kernel_lists_children():
        try:
            return [child.pid for child in psutil.Process(pid).children()]
        except psutil.NoSuchProcess:
            return []
    found: list[int] = []
    # A thread or process that vanishes while it is read has no children any more.
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 (speed)
            with open(f"/proc/{pid}/task/{task}/children") as file:  # noqa: PTH123 (speed)
                found += map(int, file.read().split())
    return found


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def halt(roots: Iterable[int]) -> list[int]:
    """Stop (SIGSTOP) the trees below and including `roots`; return their process ids.

    Each process is stopped before its children are read, so the list cannot grow behind
    our back.
    """
    found: list[int] = []
    todo = list(roots)
    while todo:
        pid = todo.pop()
        _signal(pid, signal.SIGSTOP)
        found.append(pid)
        todo += children(pid)
    return found


def kill_trees(roots: Iterable[int]) -> int:
    """Stop, then kill, whole trees that are not ours to reap; return how many processes."""
    found = halt(roots)
    for pid in found:
        _signal(pid, signal.SIGKILL)
    return len(found)


class Brood:
    """All processes that this one starts, directly or not, once the object is made."""

    def __init__(self) -> None:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._others = frozenset(children(os.getpid()))
        self._main: subprocess.Popen[bytes] | None = None

    def watch(self, process: subprocess.Popen[bytes]) -> None:
        """Name the one child whose exit status is somebody else's to collect."""
        self._main = process

    def _roots(self) -> list[int]:
        return [pid for pid in children(os.getpid()) if pid not in self._others]

    def pids(self) -> list[int]:
        """Return every process that is alive now."""
        found: list[int] = []
        todo = self._roots()
        while todo:
            pid = todo.pop()
            found.append(pid)
            todo += children(pid)
        return found

    def end(self, limit_s: float = 30.0) -> tuple[int, ...]:
        """Stop, kill and reap until none is left; return those left after `limit_s`."""
        begun = time.monotonic()
        while True:
            found = halt(self._roots())
            if not found:
                return ()
            for pid in found:
                _signal(pid, signal.SIGKILL)
            self._reap()
            waited = time.monotonic() - begun
            if waited > limit_s:
                return tuple(self.pids())
            if waited > _PATIENT_AFTER_S:
                # At first we race whoever forks; now we only wait for the kernel to finish
                # a large process, and most of these are not our children to wait on.
                time.sleep(0.005)

    def _reap(self) -> None:
        for pid in self._roots():
            if self._main is not None and pid == self._main.pid:
                self._main.poll()
            else:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def memory_mb(pids: Iterable[int], limit_mb: float) -> float:
    """Return the memory held by processes, MiB.

    The sum of resident sizes counts a shared page once a process; where it passes
    `limit_mb`, the proportional size decides, which counts it once.
    """
    resident = _sum(pids, lambda p: p.memory_info().rss)
    if resident <= limit_mb:
        return resident
    return _sum(pids, lambda p: getattr(p.memory_full_info(), "pss", p.memory_info().rss))


def cpu_s(pids: Iterable[int]) -> float:
    """Return the processor time of processes and of the children they reaped, seconds."""
    # Sums the four times; the fifth, where there is one, is waiting.
    return sum(_each(pids, lambda p: float(sum(p.cpu_times()[:4]))))


def _sum(pids: Iterable[int], size: Callable[[psutil.Process], int]) -> float:
    def allowed(process: psutil.Process) -> int:
        try:
            return size(process)
        except psutil.AccessDenied:
            return int(process.memory_info().rss)

    return sum(_each(pids, allowed)) / 2**20


def _each(pids: Iterable[int], look: Callable[[psutil.Process], float]) -> Iterator[float]:
    """Yield what is found of each process that still exists and may be looked at."""
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            yield look(psutil.Process(pid))


def is_alive(pid: int) -> bool:
    """Tell whether a process exists and is not a zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def marked(campaign_id: str, trial_id: str | None = None) -> list[int]:
    """Return the live processes started for a campaign's trial, or for any of its trials."""
    me = os.getpid()
    return [
        process.pid
        for process in psutil.process_iter()
        if process.pid != me and _is_marked(process, campaign_id, trial_id)
    ]


def end_marked(campaign_id: str, trial_id: str | None = None, limit_s: float = 10.0) -> set[int]:
    """Kill what `marked` finds, until there is none or `limit_s` has passed; return who."""
    ended: set[int] = set()
    until = time.monotonic() + limit_s
    while (found := marked(campaign_id, trial_id)) and time.monotonic() < until:
        ended.update(found)
        kill_trees(found)
        time.sleep(0.01)  # their end is their parents' to collect, not ours
    return ended


def naming(folder: Path, below: bool = False) -> list[int]:
    """Return the live processes that have a folder (or one below it) as an argument."""
    wanted, me = str(folder), os.getpid()
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            arguments = process.cmdline()
            named = wanted in arguments or (
                below and any(a.startswith(wanted + os.sep) for a in arguments)
            )
            if named and process.pid != me and is_alive(process.pid):
                found.append(process.pid)
    return found


def _is_marked(process: psutil.Process, campaign_id: str, trial_id: str | None) -> bool:
    try:
        environment = process.environ()
    except (psutil.Error, OSError):
        return False
    if environment.get(CAMPAIGN_MARK) != campaign_id:
        return False
    if trial_id is not None and environment.get(TRIAL_MARK) != trial_id:
        return False
    return TRIAL_MARK in environment and is_alive(process.pid)
