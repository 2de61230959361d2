"""What a launch that was killed before its campaign could begin has left, and clearing it up.

A launch holds `.launching` in the run directory while it prepares the data and fills the folder;
campaign.toml is written last, and then `.launching` is removed. So where that folder lies and
its holder is dead, nothing was learned yet, and all that is there was made by that launch.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from hpcscientist.errors import RunDirectoryError, UsageError
from hpcscientist.files.lock import Held, Lock, read_holder
from hpcscientist.files.rundir import RunPaths

_TRIES, _PAUSE_S = 50, 0.1


def is_being_made(paths: RunPaths) -> bool:
    """Whether a launch that is alive prepares this run directory."""
    holder = _holder(paths)
    return holder is not None and bool(holder["alive"])


def are_there(paths: RunPaths) -> bool:
    """Whether a launch was killed while it prepared this run directory."""
    return paths.launching.is_dir() and not paths.campaign.exists() and not is_being_made(paths)


def take(paths: RunPaths) -> Lock:
    """Hold a run directory for a launch, and remove what a killed one left there.

    Raises UsageError where another launch is alive there, and OSError.
    """
    left = are_there(paths)
    try:
        lock = Lock(paths.launching)
    except Held as holder:
        raise taken(paths.root) from holder
    if left and not paths.campaign.exists():
        clear(paths, keep=paths.launching.name)
    return lock


def taken(root: Path) -> UsageError:
    """Return the error of a run directory that another launch prepares."""
    return UsageError(f"{root}: another launch prepares it; give another --run-dir")


def give_back(paths: RunPaths, lock: Lock) -> None:
    """Let a run directory go: it is one now, or it is nobody's."""
    lock.release()
    shutil.rmtree(paths.launching, ignore_errors=True)


def clear(paths: RunPaths, keep: str = "") -> None:
    """Remove all that lies in a run directory in which nothing was learned."""
    for child in paths.root.iterdir():
        if child.name == keep:
            continue
        if child.is_dir() and not child.is_symlink():
            _remove(child)
        else:
            child.unlink(missing_ok=True)


def _remove(folder: Path) -> None:
    # A trial that was told to end may write what it leaves while its folder goes.
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(_PAUSE_S)


def check(paths: RunPaths) -> None:
    """Raise RunDirectoryError where there is no campaign yet, or none because it was killed."""
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
    except OSError:  # what cannot be looked into is no run directory, and said to be none
        return None
