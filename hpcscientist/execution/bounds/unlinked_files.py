"""Measure files that no folder shows: deleted or anonymous, but still open or mapped."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass

_DELETED = " (deleted)"
_IN_MEMORY = "/memfd:"

_Sizes = dict[tuple[int, int], int]  # by device and inode: processes may share a file


@dataclass(frozen=True, slots=True)
class Hidden:
    """Bytes in deleted files on disk, and in anonymous files that exist only in memory."""

    on_disk: int
    in_memory: int


def held(pids: Iterable[int], devices: frozenset[int]) -> Hidden:
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
    return Hidden(
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
