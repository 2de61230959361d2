"""Files that people hand us: regular ones of a bounded size, and nothing that has no end.

A device, a pipe or a socket is no file to read: reading one may never end, or fill the memory.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

LARGEST_TEXT = 64 * 2**20  # bytes of a file that is read as a whole
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_regular(path: Path, limit: int = LARGEST_TEXT, *, follow: bool = True) -> bytes:
    """Return the content of a regular file of at most `limit` bytes; links count where followed.

    Raises OSError, whose `strerror` says what it is where it is no such file.
    """
    with open_regular(path, follow=follow) as file:
        # As much as is asked for is allocated first.
        content = file.read(min(os.fstat(file.fileno()).st_size, limit) + 1)
        content += file.read(limit + 1 - len(content)) if len(content) > limit else b""
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit // 2**20} MiB", str(path))
    return content


def open_regular(path: Path, *, follow: bool = True) -> BufferedReader:
    """Open a regular file for reading, without waiting for a pipe's other end. Raises OSError."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    # Looked at before it is opened, too: to open a device may do something.
    _refuse_odd(path, path.stat(follow_symlinks=follow))
    descriptor = os.open(path, flags)
    try:
        _refuse_odd(path, os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def kind_of(info: os.stat_result) -> str:
    """Name what is no regular file, such as "a link"; "" for one."""
    return next((name for is_kind, name in _KINDS if is_kind(info.st_mode)), "")


def _refuse_odd(path: Path, info: os.stat_result) -> None:
    if kind := kind_of(info):
        code = errno.EISDIR if stat.S_ISDIR(info.st_mode) else errno.EINVAL
        raise OSError(code, f"it is {kind}, and no regular file", str(path))
