"""Process trees: finding every descendant of this process, and ending all of them.

A process that forks twice and starts a session leaves its parent's process group, but not its
ancestry: this process declares itself a subreaper (prctl(2)), so orphans among its descendants
become its children. Trees are read from /proc/PID/task/TID/children, which is fast enough to catch
a process that forks and exits in a loop; psutil is the fallback if the kernel lacks that file.

Not covered: processes that a killed worker leaves behind. `marked` finds those by the environment
they were started with, unless they cleared it; then only a container or a job's cgroup helps.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psutil

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37

CAMPAIGN_MARK = "HPCSCI_CAMPAIGN"
TRIAL_MARK = "HPCSCI_TRIAL"

# Asks a namespace's first process to end all others in it: see `execution.bounds.pid_namespace`.
# Schedulers send none of the real-time signals.
END_ALL = signal.SIGRTMIN

_PATIENT_AFTER_S = 0.2
_ANSWER_S = 10.0  # time that a namespace's first process may take on a busy machine
_LIBC = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int) -> None:
    """Call prctl(2). Raises OSError."""
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


def adopts_orphans() -> bool:
    """Return whether this process is a subreaper. Raises OSError."""
    told = ctypes.c_int()
    if _LIBC.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(told), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")
    return bool(told.value)


@contextmanager
def ahead_of_others() -> Iterator[None]:
    """Schedule this thread ahead of all ordinary ones, if that is allowed. Children are ordinary.

    Among a thousand runnable processes it would otherwise run only every few seconds, for a few
    milliseconds. Usually only root, or a user with a suitable limit, is allowed to.
    """
    ahead = False
    with contextlib.suppress(OSError):
        before = os.sched_getscheduler(0), os.sched_getparam(0)
        policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
        ahead = True
    try:
        yield
    finally:
        if ahead:
            with contextlib.suppress(OSError):
                os.sched_setscheduler(0, *before)


@cache
def _kernel_lists_children() -> bool:
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def children(pid: int) -> list[int]:
    """Return the process ids of a process's children, zombies included."""
    return _threads_and_children(pid)[1]


def _threads_and_children(pid: int) -> tuple[int, list[int]]:
    """Return how many threads a process has, and the process ids of its children."""
    if not _kernel_lists_children():
        try:
            process = psutil.Process(pid)
            return process.num_threads(), [child.pid for child in process.children()]
        except psutil.NoSuchProcess:
            return 0, []
    found: list[int] = []
    threads: list[str] = []
    # A thread or process that vanishes while it is read has no children left.
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 (speed)
        for task in threads:
            with open(f"/proc/{pid}/task/{task}/children") as file:  # noqa: PTH123 (speed)
                found += map(int, file.read().split())
    return len(threads), found


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def halt(roots: Iterable[int]) -> list[int]:
    """Stop (SIGSTOP) the trees below and including `roots`; return their process ids.

    Each process is stopped before its children are read, so it cannot start more unnoticed.
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
    """Stop, then kill, whole trees without reaping them; return the number of processes."""
    found = halt(roots)
    for pid in found:
        _signal(pid, signal.SIGKILL)
    return len(found)


class ProcessTree:
    """All processes that this one starts, directly or not, from now on until `end`.

    Until then this process is a subreaper, so it has to reap its orphaned descendants.
    """

    def __init__(self) -> None:
        self._adopted = adopts_orphans()
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._others = frozenset(children(os.getpid()))
        self._main: subprocess.Popen[bytes] | None = None
        self._set_apart = False

    def watch(self, process: subprocess.Popen[bytes], set_apart: bool = False) -> None:
        """Set the main child, whose exit status the caller collects.

        `set_apart`: its own child is the first process of a namespace, which is ours too.
        """
        self._main, self._set_apart = process, set_apart

    def ours(self) -> frozenset[int]:
        """Return our own processes below this one, which are no part of the command."""
        if self._main is None:
            return frozenset()
        first = children(self._main.pid)[:1] if self._set_apart else []
        return frozenset((self._main.pid, *first))

    def _roots(self) -> list[int]:
        return [pid for pid in children(os.getpid()) if pid not in self._others]

    def pids(self) -> list[int]:
        """Return the ids of all processes that are alive now."""
        return self.census()[0]

    def census(
        self, enough: float = math.inf, give_up: Callable[[], bool] = lambda: False
    ) -> tuple[list[int], int]:
        """Return the processes alive now and the number of their threads, without those of `ours`.

        It stops looking past `enough` threads, or once `give_up` returns true.
        """
        ours = self.ours()
        found: list[int] = []
        total = 0
        todo = self._roots()
        while todo and total <= enough and not give_up():
            pid = todo.pop()
            threads, below = _threads_and_children(pid)
            found.append(pid)
            total += threads if pid not in ours else 0
            todo += below
        return found, total

    def end(self, limit_s: float = 30.0) -> tuple[int, ...]:
        """Stop, kill and reap until none is left; return those left after `limit_s`.

        Calls that end many processes at once come first, before anything is searched.
        """
        begun = time.monotonic()
        self._end_namespace()
        self._strike()
        while True:
            found = halt(self._roots())
            if not found:
                prctl(PR_SET_CHILD_SUBREAPER, int(self._adopted))
                return ()
            for pid in found:
                _signal(pid, signal.SIGKILL)
            self._reap()
            waited = time.monotonic() - begun
            if waited > limit_s:
                return tuple(self.pids())
            if waited > _PATIENT_AFTER_S:
                # At first we race against forking processes. Now we only wait for the kernel to
                # finish a large process, and cannot wait on most of them: not our children.
                time.sleep(0.005)

    def _end_namespace(self) -> None:
        """Ask the first process of the command's namespace to end all others, and wait for it.

        It ends them with a single call, which nothing can outrun, and then reaps them. So the
        kernel accounts for their processor time, unlike when it ends them with the namespace.
        """
        if self._main is None or not self._set_apart or self._main.poll() is not None:
            return
        for first in children(self._main.pid)[:1]:
            _signal(first, END_ALL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._main.wait(_ANSWER_S)

    def _strike(self) -> None:
        """Kill the command's original process group in a single call.

        Most commands have no other group. A container's first process is in it, and the kernel ends
        a container with that process. Against a thousand runnable processes we would hardly get to
        stop them one by one.
        """
        for root in self._roots():
            for pid in children(root):
                with contextlib.suppress(OSError):
                    group = os.getpgid(pid)
                    if group != os.getpgid(0):
                        os.killpg(group, signal.SIGKILL)

    def _reap(self) -> None:
        for pid in self._roots():
            if self._main is not None and pid == self._main.pid:
                self._main.poll()
            else:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
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
    """Kill what `marked` finds until none is left or `limit_s` has passed; return killed pids."""
    ended: set[int] = set()
    until = time.monotonic() + limit_s
    while (found := marked(campaign_id, trial_id)) and time.monotonic() < until:
        ended.update(found)
        kill_trees(found)
        time.sleep(0.01)  # their parents reap them, not we
    return ended


def naming(folder: Path, below: bool = False) -> list[int]:
    """Return the live processes that have a folder (or one below it) as an argument.

    Workers that were forked have no arguments of their own, so a process whose stdout is a file in
    that folder counts, too.
    """
    wanted, me = str(folder), os.getpid()
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            named_by = [*process.cmdline(), _folder_of_stdout(process.pid)]
            named = wanted in named_by or (
                below and any(a.startswith(wanted + os.sep) for a in named_by)
            )
            if named and process.pid != me and is_alive(process.pid):
                found.append(process.pid)
    return found


def _folder_of_stdout(pid: int) -> str:
    try:
        return os.path.dirname(os.readlink(f"/proc/{pid}/fd/1"))  # noqa: PTH115, PTH120 (speed)
    except OSError:  # no file system path, another user's process, or it has ended
        return ""


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
