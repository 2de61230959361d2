"""Process ids of its own for a candidate without a container: it can name no process but its own.

As the same user it could otherwise stop, trace and kill its worker, the driver and every other
trial, and so escape whatever is kept from outside. In a namespace of process ids (see
pid_namespaces(7)) all of these are out of its reach, and the kernel ends whatever is left of it
with the namespace's first process. Root makes one as it is, others within a user namespace, in
which they stay who they are and come to hold no capability. Shared memory, System V's and /dev/shm,
is its own as well, and goes with it. So is the bound on its processes: see `counts_own_processes`.

Where the kernel or the site forbids it, a candidate runs among all the user's processes; then its
worker may be lost to it: see `campaign.trial_runner` and `backends.local`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import signal
import struct
from functools import cache
from typing import NoReturn

from hpcscientist.system.processes import END_ALL, PR_SET_PDEATHSIG, prctl

_NEWNS, _NEWIPC, _NEWUSER, _NEWPID = 0x00020000, 0x08000000, 0x10000000, 0x20000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND = 1, 2, 4, 8, 32, 4096
_REC, _PRIVATE = 1 << 14, 1 << 18
_CONTROLS = b"/sys/fs/cgroup"  # by it a user's other processes could be frozen and killed
_COUNTS_BY_NAMESPACE, _NUMBERS_BY_NAMESPACE = (5, 14), (6, 14)  # Linux
_RESERVED = 300  # numbers that the kernel gives out only once, at a namespace's start
_STATUS = struct.Struct("i")
_LOST_EXIT = 137
_LIBC = ctypes.CDLL(None, use_errno=True)


@cache
def is_possible() -> bool:
    """Tell whether processes can be set apart here. Call it in a process without threads."""
    child = os.fork()
    if child == 0:
        try:
            separate()
            first = os.fork()
            if first == 0:
                _hide_others(1)
                os._exit(0)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) != 0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def counts_own_processes() -> bool:
    """Tell whether RLIMIT_NPROC counts, of a candidate set apart, its own processes and no others.

    The kernel counts them for each user namespace; before 5.14 it counted all of the user's, and
    root's it never bounds: for these there is `_bound_numbers`.
    """
    return os.geteuid() != 0 and _kernel() >= _COUNTS_BY_NAMESPACE


def separate() -> None:
    """Give the next child of this process a namespace of its own. Raises OSError."""
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


def become_first(told: int, tell: int, shared_mb: int, processes: int) -> None:
    """Be the namespace's first process, and return in a child of it: the candidate to be.

    `tell` is the writing end of a pipe whose reading end `told` only the guard keeps open. The
    candidate's status is written to it, as `wait` has it; see `status_of`. `shared_mb` bounds what
    /dev/shm holds, MiB, and `processes` how many there can be. Raises OSError.
    """
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.close(told)
    poll = select.poll()
    poll.register(tell, 0)
    if poll.poll(0):  # nobody reads it: the guard died before the lines above
        os._exit(_LOST_EXIT)
    os.setsid()
    _hide_others(shared_mb)
    _bound_numbers(processes)
    candidate = os.fork()
    if candidate:
        _be_first(candidate, tell)


def status_of(told: int, status: int) -> int:
    """Return the candidate's status, told by the first process; that one's own if it told none."""
    os.set_blocking(told, False)
    with contextlib.suppress(OSError):
        said = os.read(told, _STATUS.size)
        if len(said) == _STATUS.size:
            return int(_STATUS.unpack(said)[0])
    return status


def _be_first(candidate: int, tell: int) -> NoReturn:
    """Reap what is orphaned until the candidate ends, or END_ALL comes; then end the rest.

    The rest is reaped as well, or its processor time would not be counted. What the worker had open
    was closed by whoever called, but for `tell`.
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
    """Kill all of the namespace but this process: in one call, during which none of them forks."""
    try:
        os.kill(-1, signal.SIGKILL)
    except OSError:
        return  # there is none


def close_all_but(*kept: int) -> None:
    """Close what the worker had open: whoever waits for the end of a pipe must not wait for us."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
        if descriptor not in kept:
            try:
                os.close(descriptor)
            except OSError:
                continue  # the one of the listing itself


def _hide_others(shared_mb: int) -> None:
    """Have /proc show this namespace alone, shared memory begin empty, and control groups be read.

    Raises OSError.
    """
    _unshare(_NEWNS | _NEWIPC)
    _mount(None, b"/", None, _REC | _PRIVATE)
    _mount(b"proc", b"/proc", b"proc", _NOSUID | _NODEV | _NOEXEC)
    with contextlib.suppress(OSError):  # there is none
        options = f"size={shared_mb}m,mode=1777".encode()
        _mount(b"tmpfs", b"/dev/shm", b"tmpfs", _NOSUID | _NODEV, options)
    with contextlib.suppress(OSError):  # there are none, or they are kept from us already
        _mount(_CONTROLS, _CONTROLS, None, _BIND | _REC)
        _mount(None, _CONTROLS, None, _BIND | _REMOUNT | _RDONLY | _NOSUID | _NODEV | _NOEXEC)


def _bound_numbers(processes: int) -> None:
    """Have root's namespace run out of process numbers. Earlier kernels have one bound for all."""
    if os.geteuid() == 0 and _kernel() >= _NUMBERS_BY_NAMESPACE:
        with contextlib.suppress(OSError), open("/proc/sys/kernel/pid_max", "w") as file:  # noqa: PTH123 (no imports here)
            file.write(str(_RESERVED + processes))


def _kernel() -> tuple[int, int]:
    """Return the kernel's version, (0, 0) where it has none that can be read."""
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
