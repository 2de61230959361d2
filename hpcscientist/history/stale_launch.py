"""Detects and removes what a killed launch left in a run directory before its campaign began.

A launch holds the lock folder `.launching` in the run directory while it prepares the data and
fills the run directory. It writes campaign.toml last, then removes `.launching`. So if the folder
exists and its holder is dead, the campaign never ran, and that launch made everything there.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from hpcscientist.errors import RunDirectoryError, UsageError
from hpcscientist.files.lock import FolderLocked, Lock, read_holder
from hpcscientist.files.rundir import RunPaths

_TRIES, _PAUSE_S = 50, 0.1


def is_being_made(paths: RunPaths) -> bool:
    """Return whether a live launch is preparing this run directory."""
    holder = _holder(paths)
    return holder is not None and bool(holder["alive"])


def are_there(paths: RunPaths) -> bool:
    """Return whether a launch was killed while it prepared this run directory."""
    return paths.launching.is_dir() and not paths.campaign.exists() and not is_being_made(paths)


def take(paths: RunPaths) -> Lock:
    """Lock a run directory for a launch, and remove what a killed launch left there.

    Raises UsageError if another live launch holds it, and OSError.
    """
    left = are_there(paths)
    try:
        lock = Lock(paths.launching)
    except FolderLocked as holder:
        raise taken(paths.root) from holder
    if left and not paths.campaign.exists():
        clear(paths, keep=paths.launching.name)
    return lock


def taken(root: Path) -> UsageError:
    """Return the error for a run directory that another launch is preparing."""
    return UsageError(f"{root}: another launch prepares it; give another --run-dir")


def give_back(paths: RunPaths, lock: Lock) -> None:
    """Release a run directory, whether the launch completed it or gave it up."""
    lock.release()
    shutil.rmtree(paths.launching, ignore_errors=True)


def clear(paths: RunPaths, keep: str = "") -> None:
    """Remove everything in a run directory whose campaign never ran, except `keep`."""
    for child in paths.root.iterdir():
        if child.name == keep:
            continue
        if child.is_dir() and not child.is_symlink():
            _remove(child)
        else:
            child.unlink(missing_ok=True)


def _remove(folder: Path) -> None:
    # A trial that is ending may still write into the folder while it is removed.
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(_PAUSE_S)


def check(paths: RunPaths) -> None:
    """Raise RunDirectoryError if a launch is preparing the campaign, or was killed doing so."""
    if is_being_made(paths):
        raise RunDirectoryError(
            f"{paths.root}: is being prepared by `hpcsci launch`; wait until it has begun, or stop "
            "it with `hpcsci cancel`"
        )
    if are_there(paths):
        raise RunDirectoryError(
            f"{paths.root}: its launch was killed before anything ran; launch again with this "
            "--run-dir, or clear it up with `hpcsci cancel`"
        )


def _holder(paths: RunPaths) -> dict[str, Any] | None:
    try:
        return None if paths.campaign.exists() else read_holder(paths.launching)
    except OSError:  # an unreadable folder is no run directory, and is reported as such
        return None
