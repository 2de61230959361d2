"""Folders in which data are prepared: beside their place, named after who prepares them.

A preparation that is killed leaves them; whoever prepares data next, resumes or cancels a campaign
removes those whose owner is dead.
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
    """Make an empty folder beside a folder that is to come. Raises OSError."""
    prefix = f".{target.name}.{_here()}.{os.getpid()}.{started_at(os.getpid())}."
    return Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))


def clear(*roots: Path) -> None:
    """Remove what preparations on this host left below these folders that are no more.

    A folder that cannot be looked into stays as it is: whoever needs it will say why it cannot.
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
    """This host, and what numbers its processes: containers of one name may share the folder."""
    return f"{socket.gethostname()}-{Path('/proc/self/ns/pid').stat().st_ino}"
