"""Whether there is room: free space is one thing, a quota another, and only writing shows both."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

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
