"""Temporary folders for preparing data: beside their destination, named after host and process.

A killed process leaves its folders behind. The next process that prepares data, or resumes or
cancels a campaign, removes those whose owner is dead.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
from pathlib import Path

from hpcscientist.files.lock import started_at


def make(target: Path) -> Path:
    """Make an empty folder beside the future folder `target`. Raises OSError."""
    prefix = f".{target.name}.{_here()}.{os.getpid()}.{started_at(os.getpid())}."
    return Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))


def clear(*roots: Path) -> None:
    """Remove the temporary folders in these folders whose process on this host is dead.

    A folder that cannot be read is skipped: code that needs it will report the error.
    """
    for root in roots:
        with contextlib.suppress(OSError):
            _clear(root)


def _clear(root: Path) -> None:
    for folder in root.glob(f".*.{_here()}.*"):
        pid, _, rest = folder.name.rpartition(f".{_here()}.")[2].partition(".")
        with contextlib.suppress(ValueError):
            if str(started_at(int(pid))) != rest.partition(".")[0]:
                shutil.rmtree(folder, ignore_errors=True)


def _here() -> str:
    """Return the host and its process namespace: containers of one host name may share a folder."""
    return f"{socket.gethostname()}-{Path('/proc/self/ns/pid').stat().st_ino}"
