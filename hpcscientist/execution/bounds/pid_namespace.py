"""A process id namespace for a candidate without a container, which then sees only its processes.

As the same user, a candidate could otherwise stop, trace and kill its worker, the driver and every
other trial, and so escape all limits that are enforced from outside. In a process id namespace (see
pid_namespaces(7)) it cannot reach them, and the kernel kills whatever is left of it when the
namespace's first process ends. Root creates the namespace directly, other users within a user
namespace, in which they keep their user id and gain no capability. Shared memory (System V and
/dev/shm) is private too, and removed with the namespace, but for the folders there that the command
needs: a site's TMPDIR may be one. The limit on its processes counts only
its own, if the kernel can: see `counts_own_processes`.

If the kernel or the site forbids namespaces, a candidate runs among all processes of the user and
may kill its worker: see `campaign.trial_runner` and `execution.backends.local`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import signal
import struct
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NoReturn

from hpcscientist.system.processes import END_ALL, PR_SET_PDEATHSIG, prctl

_NEWNS, _NEWIPC, _NEWUSER, _NEWPID = 0x00020000, 0x08000000, 0x10000000, 0x20000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND = 1, 2, 4, 8, 32, 4096
_REC, _PRIVATE = 1 << 14, 1 << 18
_CONTROLS = b"/sys/fs/cgroup"  # whoever can write there can freeze and kill the user's processes
_COUNTS_BY_NAMESPACE, _NUMBERS_BY_NAMESPACE = (5, 14), (6, 14)  # Linux
_SHARED = "/dev/shm"
_RESERVED = 300  # process ids that the kernel assigns only once, at a namespace's start
_STATUS = struct.Struct("i")
_LOST_EXIT = 137
_LIBC = ctypes.CDLL(None, use_errno=True)


@cache
def is_possible() -> bool:
    """Return whether namespaces can be created here. Call it in a process without threads."""
    child = os.fork()
    if child == 0:
        try:
            separate()
            first = os.fork()
            if first == 0:
                _hide_others(1, ())
                os._exit(0)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) != 0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def counts_own_processes() -> bool:
    """Return whether RLIMIT_NPROC counts only a candidate's own processes in its namespace.

    The kernel counts per user namespace; before 5.14 it counted all processes of the user. It never
    limits root's processes: see `_bound_numbers`.
    """
    return os.geteuid() != 0 and _kernel() >= _COUNTS_BY_NAMESPACE


def separate() -> None:
    """Make the next child of this process the first one of a new namespace. Raises OSError."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        with contextlib.suppress(OSError):
            _unshare(_NEWPID)
            return
    _unshare(_NEWUSER | _NEWPID)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123 (no imports here)
            file.write(text)


def kept_in_shared(words: Iterable[str]) -> tuple[str, ...]:
    """Return the names in /dev/shm below which a command's words and variables have paths.

    Links are followed: a site's /scratch may lead there.
    """
    shared = os.path.realpath(_SHARED) + "/"
    parts = (part for word in words for part in re.split("[:=,]", word) if part.startswith("/"))
    real = map(os.path.realpath, parts)
    return tuple({p[len(shared) :].partition("/")[0] for p in real if p.startswith(shared)})


def become_first(told: int, tell: int, shared_mb: int, processes: int, kept: Sequence[str]) -> None:
    """Become the namespace's first process; return in its child, which is to become the candidate.

    `tell` is the writing end of a pipe whose reading end `told` only the guard keeps open. The
    candidate's wait status is written to it; see `status_of`. `shared_mb` limits /dev/shm, in MiB,
    where the folders `kept` stay what they are, and `processes` limits the number of processes.
    Raises OSError.
    """
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.close(told)
    poll = select.poll()
    poll.register(tell, 0)
    if poll.poll(0):  # nobody reads it: the guard died before the lines above
        os._exit(_LOST_EXIT)
    os.setsid()
    _hide_others(shared_mb, kept)
    _bound_numbers(processes)
    candidate = os.fork()
    if candidate:
        _be_first(candidate, tell)


def status_of(told: int, status: int) -> int:
    """Return the candidate's status from the first process, or `status` if it wrote none."""
    os.set_blocking(told, False)
    with contextlib.suppress(OSError):
        said = os.read(told, _STATUS.size)
        if len(said) == _STATUS.size:
            return int(_STATUS.unpack(said)[0])
    return status


def _be_first(candidate: int, tell: int) -> NoReturn:
    """Reap orphans until the candidate ends or END_ALL arrives; then end the rest.

    The rest is reaped as well, or else its processor time would not be counted. All descriptors but
    `tell` are closed.
    """
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(END_ALL, lambda *_: _end_others())
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.chdir("/")
        close_all_but(tell)
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid == candidate:
                os.write(tell, _STATUS.pack(status))
                _end_others()
    except ChildProcessError:  # all have been reaped
        os._exit(0)
    finally:
        os._exit(_LOST_EXIT)


def _end_others() -> None:
    """Kill all other processes of the namespace: in a single call, so that none can fork away."""
    try:
        os.kill(-1, signal.SIGKILL)
    except OSError:
        return  # there is none


def close_all_but(*kept: int) -> None:
    """Close the worker's descriptors: who waits for a pipe to close must not wait for us."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
        if descriptor not in kept:
            try:
                os.close(descriptor)
            except OSError:
                continue  # the one of the listing itself


def _hide_others(shared_mb: int, kept: Sequence[str]) -> None:
    """Make /proc show only this namespace, /dev/shm what is kept, and control groups read-only.

    Raises OSError.
    """
    _unshare(_NEWNS | _NEWIPC)
    _mount(None, b"/", None, _REC | _PRIVATE)
    _mount(b"proc", b"/proc", b"proc", _NOSUID | _NODEV | _NOEXEC)
    with contextlib.suppress(OSError):  # there is none
        options = f"size={shared_mb}m,mode=1777".encode()
        folders = {}
        for name in kept:
            with contextlib.suppress(OSError):  # a variable may name what is not there
                folders[name] = os.open(f"{_SHARED}/{name}", os.O_PATH | os.O_DIRECTORY)
        _mount(b"tmpfs", _SHARED.encode(), b"tmpfs", _NOSUID | _NODEV, options)
        for name, folder in folders.items():
            os.mkdir(f"{_SHARED}/{name}")  # noqa: PTH102 (no imports here)
            here = f"{_SHARED}/{name}".encode()
            _mount(f"/proc/self/fd/{folder}".encode(), here, None, _BIND | _REC)
            os.close(folder)
    with contextlib.suppress(OSError):  # there are none, or we have no access anyway
        _mount(_CONTROLS, _CONTROLS, None, _BIND | _REC)
        _mount(None, _CONTROLS, None, _BIND | _REMOUNT | _RDONLY | _NOSUID | _NODEV | _NOEXEC)


def _bound_numbers(processes: int) -> None:
    """Limit the process ids in root's namespace; older kernels have only a system-wide limit."""
    if os.geteuid() == 0 and _kernel() >= _NUMBERS_BY_NAMESPACE:
        with contextlib.suppress(OSError), open("/proc/sys/kernel/pid_max", "w") as file:  # noqa: PTH123 (no imports here)
            file.write(str(_RESERVED + processes))


def _kernel() -> tuple[int, int]:
    """Return the kernel's version; (0, 0) if it cannot be parsed."""
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _unshare(flags: int) -> None:
    if _LIBC.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "unshare failed")


def _mount(
    source: bytes | None, target: bytes, kind: bytes | None, flags: int, options: bytes = b""
) -> None:
    if _LIBC.mount(source, target, kind, ctypes.c_ulong(flags), options) != 0:
        raise OSError(ctypes.get_errno(), "mount failed", os.fsdecode(target))
