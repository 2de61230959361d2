"""Atomic writes: a reader sees the old or the new content, never a part of it.

Each file may have one writer only. Nothing here takes locks, so it works on NFS and Lustre.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from hpcscientist.files.handed import open_regular


def write_atomic(
    path: Path, data: bytes, mode: int = 0o644, *, durable: bool = True, listed: bool = True
) -> None:
    """Write `data` to a temporary file, fsync it, and rename it to `path`.

    `durable` false skips both fsyncs, for content that is written again if a power cut destroyed
    it. `listed` false skips the folder's fsync, for callers that call `sync_folder` themselves.
    Raises OSError (ENOSPC on a full disk), and then leaves no temporary file and `path` unchanged.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        # Never write into an existing file: a link leads elsewhere, a pipe waits for a reader.
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
        if durable and listed:
            sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to the disk, so that a rename survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str, *, durable: bool = True, listed: bool = True) -> None:
    """Write UTF-8 text atomically; `durable` and `listed` as for `write_atomic`."""
    write_atomic(path, text.encode(), durable=durable, listed=listed)


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_tail(path: Path, size: int) -> str:
    """Return at most the last `size` bytes of a text file, decoded leniently; "" if there is no
    regular file. Raises OSError.
    """
    try:
        with open_regular(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return file.read(size).decode("utf-8", "replace")
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINVAL, errno.EISDIR):
            return ""
        raise


# Whether there is room on the disk: only a write shows both free space and quotas.

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def takes(folder: Path, size: int) -> bool:
    """Return whether a folder has room for `size` bytes, by writing and deleting such a file.

    False if the disk is full or the user's quota is exhausted. Other errors say nothing about
    room.
    """
    try:
        with tempfile.TemporaryFile(prefix=".room-", dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, size)
            os.fsync(file.fileno())
    except OSError as error:
        return error.errno not in NO_SPACE
    return True
