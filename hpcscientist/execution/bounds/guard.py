"""The guard: a process between worker and candidate, so that nothing outlives a killed worker.

The kernel can tie a process to its parent (PR_SET_PDEATHSIG). That fails for a container: Apptainer
starts its parent process from another thread, which loses the tie. So the worker's child forks once
more: its child becomes the candidate, and it stays behind as the guard. The guard adopts every
orphan below it and exits the way the candidate exits. If the worker is gone, the guard kills all
processes below it; it notices by a pipe that only the worker holds open.

The guard never executes another program: that would take longer than some trials. A candidate in
its own namespace (see `pid_namespace`) cannot touch the guard, which is outside of it.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Sequence
from typing import NoReturn

from hpcscientist.execution.bounds import pid_namespace
from hpcscientist.system.processes import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    children,
    halt,
    prctl,
)

_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE)
_LOST_EXIT = 137


def leave_guard(life: int, processes: int, apart_mb: int = 0, kept: Sequence[str] = ()) -> None:
    """Fork; return in the child, which is to become the candidate, and guard it in the parent.

    `life` is the reading end of the worker's pipe. With `apart_mb`, the candidate gets a namespace
    of its own, with at most `processes` processes and `apart_mb` MiB of shared memory, in which
    the folders `kept` stay; 0: it runs among all other processes. Call it in a single-threaded
    child of the worker that is about to execute another program. Raises OSError.
    """
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    guard = os.getpid()
    told, tell = os.pipe()
    if apart_mb:
        pid_namespace.separate()
    candidate = os.fork()
    if candidate:
        _guard(candidate, life, told)
    if apart_mb:
        pid_namespace.become_first(told, tell, apart_mb, processes, kept)
        os.setsid()
        return
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:  # the guard died before the line above
        os._exit(_LOST_EXIT)
    os.setsid()


def _guard(candidate: int, life: int, told: int) -> NoReturn:
    status = 0
    try:
        status = pid_namespace.status_of(told, _wait(candidate, life, told))
    except BaseException:  # noqa: BLE001 (whatever it was: nothing may be left, nobody is told)
        status = signal.SIGKILL
        _end_all()
    finally:
        _end_like(status)
        os._exit(_LOST_EXIT)


def _wait(candidate: int, life: int, told: int) -> int:
    """Wait until the candidate or the worker ends; return the status of our child."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.chdir("/")
    pid_namespace.close_all_but(life, told, woken, wake)
    poll = select.poll()
    poll.register(life, 0)  # poll(2) always reports that the other end was closed
    poll.register(woken, select.POLLIN)
    while True:
        while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
            if reaped[0] == candidate:
                return reaped[1]
        for descriptor, _ in poll.poll():
            if descriptor == life:
                _strike(candidate)
                _end_all()
                return signal.SIGKILL
            os.read(woken, 4096)


def _strike(child: int) -> None:
    """Kill a child and its process group in a single call.

    If the child is a namespace's first process, the whole namespace ends. Only afterwards does the
    caller search for the rest: among a thousand forking processes that would take minutes.
    """
    try:
        if os.getpgid(child) != os.getpgid(0):
            os.killpg(os.getpgid(child), signal.SIGKILL)
    except OSError:
        return


def _end_all() -> None:
    """Kill and reap all processes below this one, until none is left."""
    while found := halt(children(os.getpid())):
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def _end_like(status: int) -> None:
    """End this process the way that a wait status describes."""
    if os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
