"""How deep processes are nested in user namespaces.

Whoever makes a user namespace may mount file systems in it, and what lies in those is part of
no process and of no folder that is watched.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable

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
