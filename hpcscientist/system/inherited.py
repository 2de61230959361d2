"""Handles signal settings and limits that a process inherits and that would hinder its work.

Signals that are ignored or blocked stay so in all child programs. Limits (ulimit, see setrlimit(2))
are hit deep inside some library, which then reports a misleading error, or aborts.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

from hpcscientist.errors import HpcsciError, UsageError


@dataclass(frozen=True, slots=True)
class _Limit:
    """A limit of this process, by its `ulimit` option; commands refuse to start below `least`."""

    kind: int
    option: str
    what: str
    least: int
    unit: int = 1

    @property
    def soft(self) -> float:
        limit = resource.getrlimit(self.kind)[0]
        return math.inf if limit == resource.RLIM_INFINITY else limit

    @property
    def of_machine(self) -> str:
        return f"this machine, or this job, has no more {self.what}"

    def __str__(self) -> str:
        if self.soft == math.inf:
            return self.of_machine
        return f"`ulimit {self.option}` allows {self.soft // self.unit:.0f} {self.what}: raise it"


_KIB, _MIB = 2**10, 2**20
_FILES = _Limit(resource.RLIMIT_NOFILE, "-n", "open files", 64)
_TASKS = _Limit(resource.RLIMIT_NPROC, "-u", "processes and threads", 16)
_MEMORY = _Limit(resource.RLIMIT_AS, "-v", "KiB of memory", 1024 * _MIB, _KIB)
_DATA = _Limit(resource.RLIMIT_DATA, "-d", "KiB of memory", 512 * _MIB, _KIB)
_SIZE = _Limit(resource.RLIMIT_FSIZE, "-f", "KiB in a file", _MIB, _KIB)

_WANTED_FILES = 4096
# With less room than this, `_SPARING` keeps libraries from starting a thread for each processor,
# each with memory of its own, and pyarrow's allocator from reserving 1 GiB.
_ROOMY_MEMORY, _ROOMY_TASKS = 16 * 1024 * _MIB, 64
_SPARING = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
_COUNTED = 4096  # processes; a user who may have more is not checked at start
_NOTICE_S = 5  # seconds of processor time before the kernel kills
_OF_RUST = re.compile(r"\(os error (\d+)\)")  # how tantivy and tokenizers report an errno
_UNMAPPED = "failed to map segment from shared object"  # the loader's message about a library


def reset_signals() -> None:
    """Unblock all signals, and reset SIGCHLD and SIGTERM to their defaults if they are ignored.

    Other ignored signals stay ignored: nohup keeps working, and Ctrl-C does not stop what a shell
    runs in the background.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGCHLD, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def adapt_to_limits() -> None:
    """Adapt to this process's limits, before anything large is imported.

    It raises the soft limit of open files, makes libraries save threads and memory if these are
    scarce, and keeps the owner's permissions out of the umask, so that files stay readable to us.
    Raises UsageError if a limit is too low to start.
    """
    mask = os.umask(0o077)
    os.umask(mask & 0o077)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _WANTED_FILES:
        most = _WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, _WANTED_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    for limit in (_FILES, _MEMORY, _DATA, _SIZE):
        if limit.soft < limit.least:
            raise UsageError(f"{limit} to {limit.least // limit.unit} or more")
    room = _tasks_left()
    if room < _TASKS.least:
        raise UsageError(f"{_TASKS}, or end some; {max(room, 0):g} are left, too few to begin with")
    if min(_MEMORY.soft, _DATA.soft) < _ROOMY_MEMORY or room < _ROOMY_TASKS + 4 * (
        os.cpu_count() or 1
    ):
        for name, value in _SPARING.items():
            os.environ.setdefault(name, value)
    _have_notice()


def limit_met(error: BaseException) -> str:
    """Return the limit that caused an error, with the fix; "" if none did."""
    if isinstance(error, OSError):
        said = error.errno
        if said is not None and error.args[1:2] != (os.strerror(said),):
            return ""  # our own error, with its own message
    else:
        found = _OF_RUST.search(str(error))
        said = int(found.group(1)) if found else None
    if said == errno.EMFILE:
        return f"too many open files: {_FILES}"
    if said == errno.EFBIG and _SIZE.soft < math.inf:
        return f"a file grows too large: {_SIZE}"
    memory = min(_MEMORY, _DATA, key=lambda limit: limit.soft)
    if said == errno.EAGAIN or "can't start new thread" in str(error):
        # A new thread needs memory too, and a container or a job has limits of its own.
        few = _tasks_left(most=math.inf) < _TASKS.least
        cause = _TASKS if few else memory if memory.soft < math.inf else _TASKS.of_machine
        return f"no process or thread could be started: {cause}"
    if said == errno.ENOMEM or isinstance(error, MemoryError) or _UNMAPPED in str(error):
        return f"out of memory: {memory}"
    return ""


def _tasks_left(most: float = _COUNTED) -> float:
    """Return how many more processes and threads this user may start.

    Infinity for root, or if the limit is `most` or more.
    """
    if _TASKS.soft >= most or os.geteuid() == 0:
        return math.inf
    uid, used = os.getuid(), 0
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 (speed)
        with contextlib.suppress(OSError):  # it ended
            if os.stat(f"/proc/{name}").st_uid == uid:  # noqa: PTH116 (speed)
                used += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208 (speed)
    return _TASKS.soft - used


def _have_notice() -> None:
    """Arrange for an error a few seconds before the limit on processor time kills this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if soft == resource.RLIM_INFINITY:
        return
    if soft == hard:
        resource.setrlimit(resource.RLIMIT_CPU, (max(1, hard - _NOTICE_S), hard))

    def on_signal(number: int, frame: FrameType | None) -> NoReturn:
        raise HpcsciError(f"`ulimit -t` allows {soft} s of processor time: raise it")

    signal.signal(signal.SIGXCPU, on_signal)


# Starts commands that end together with their parent process, even if SIGKILL ends it.


# An interpreter that asks the kernel for this, then execs the command. Nothing runs between fork
# and exec, because the parent may have threads.
_TIE = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(137)
os.execv(sys.argv[2], sys.argv[2:])
"""


def tied_to_parent(command: Sequence[str]) -> list[str]:
    """Return the command line that runs a program, given by its path, as long as we live.

    The program ends with the thread that starts it (PR_SET_PDEATHSIG, see prctl(2)); its own
    children do not.
    """
    return [sys.executable, "-I", "-S", "-c", _TIE, str(os.getpid()), *command]
