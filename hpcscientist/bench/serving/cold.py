"""Evicts files from the page cache, so that a start reads them from disk."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

_ASK = """\
import sysconfig
print(*{sysconfig.get_path(name) for name in ("purelib", "platlib")}, sep="\\n")
"""


def forget(folders: Iterable[Path]) -> None:
    """Evict all files below folders from the page cache.

    Files that another process has mapped, or that cannot be read, stay in memory.
    """
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                with contextlib.suppress(OSError):
                    _forget(os.path.join(place, name))  # noqa: PTH118 (some ten thousand files)


def packages(python: Sequence[str]) -> list[Path]:
    """Return the package folders of an interpreter; empty if it does not report them."""
    done = subprocess.run([*python, "-c", _ASK], capture_output=True, text=True, check=False)
    return [path for path in map(Path, done.stdout.splitlines()) if path.is_dir()]


def _forget(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        with contextlib.suppress(OSError):
            os.fdatasync(descriptor)  # unwritten pages would stay in memory
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
