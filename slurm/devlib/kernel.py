"""The few system calls that Python 3.11 lacks: mounts and namespaces."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

NEW_MOUNTS, NEW_HOSTNAME, NEW_IPC = 0x00020000, 0x04000000, 0x08000000
NEW_PIDS, NEW_NETWORK = 0x20000000, 0x40000000
NEW_ALL = NEW_MOUNTS | NEW_HOSTNAME | NEW_IPC | NEW_PIDS | NEW_NETWORK
# Mounts last: the others' files are no longer to be found then.
SPACES = ("ipc", "uts", "net", "pid", "mnt")
_BIND, _REC, _PRIVATE = 1 << 12, 1 << 14, 1 << 18
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def mount(
    kind: str, target: str | Path, data: str | None = None, source: str | None = None
) -> None:
    """Mount a new file system of a kind. Raises OSError."""
    _mount(source or kind, target, kind, 0, data)


def bind(source: str | Path, target: str | Path) -> None:
    """Show one folder or file, with what is mounted below it, at another place. Raises OSError."""
    _mount(str(source), target, None, _BIND | _REC, None)


def make_mounts_private() -> None:
    """Let no mount made here be seen elsewhere, nor the reverse. Raises OSError."""
    _mount("none", "/", None, _REC | _PRIVATE, None)


def unshare(spaces: int) -> None:
    """Put this process into new namespaces (of process ids: its next child). Raises OSError."""
    _call("unshare", spaces)


def open_spaces(pid: int) -> list[int]:
    """Return descriptors of a process's namespaces, in the order of joining. Raises OSError."""
    return [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in SPACES]


def join(spaces: list[int]) -> None:
    """Put this process into namespaces (of process ids: its next child). Raises OSError."""
    for space in spaces:
        _call("setns", space, 0)
        os.close(space)


def die_with_parent(number: int) -> None:
    """Have this process sent a signal when its parent ends. Raises OSError."""
    _call("prctl", _PR_SET_PDEATHSIG, number, 0, 0, 0)


def _mount(source: str, target: str | Path, kind: str | None, flags: int, data: str | None) -> None:
    words = [word.encode() if word else None for word in (source, str(target), kind)]
    _call("mount", *words, ctypes.c_ulong(flags), data.encode() if data else None)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
