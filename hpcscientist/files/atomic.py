"""Writing files so that a reader sees the old or the new content, never a part.

One writer a file. Nothing here takes locks, so it works on NFS and Lustre.
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
    """Write `data` to `path` by temporary name, fsync and rename.

    `durable` false leaves out both fsyncs, for what is written again where a power cut took it or
    left a part; `listed` false that of the folder, where the caller goes on to `sync_folder`.
    Raises OSError (ENOSPC on a full disk) and then leaves neither a temporary file nor a changed
    `path` behind.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        # Never into what lies there: a link leads elsewhere, and a pipe waits for a reader.
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
    """Wait until a folder's entries are on the disk, so that a rename survives a power cut."""
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
    """Return at most the last `size` bytes of a text file, decoded leniently; "" where there is no
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


# Whether there is room: free space is one thing, a quota another, and only writing shows both.

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def takes(folder: Path, size: int) -> bool:
    """Whether a folder takes a file of `size` bytes, by writing one; it is gone afterwards.

    False where the disk is full or the user's quota is used up. What fails otherwise says nothing
    about room.
    """
    try:
        with tempfile.TemporaryFile(prefix=".room-", dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, size)
            os.fsync(file.fileno())
    except OSError as error:
        return error.errno not in NO_SPACE
    return True
