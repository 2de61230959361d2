"""What a candidate must not touch: everything of its trial but `out`.

Without a sandbox it can; then it gains nothing, and is found out. Not covered: files
outside the trial's folder.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.execution import folders
from hpcscientist.files.atomic import write_atomic
from hpcscientist.files.handed.regular import read_regular
from hpcscientist.files.rundir import TrialPaths

_NETWORK_LEFTOVER = ".nfs"  # an NFS client's name for a deleted file that is still open


@dataclass(frozen=True, slots=True)
class Before:
    """A trial's folder as it was before the candidate ran."""

    names: frozenset[str]
    contents: dict[str, bytes]


def look(paths: TrialPaths) -> Before:
    """Take note of a trial's folder. Raises OSError."""
    ours = (paths.spec, paths.worker)
    return Before(
        names=_names(paths) | {paths.out.name, paths.log.name},
        contents={p.name: read_regular(p) for p in ours if p.exists()},
    )


def undo(before: Before, paths: TrialPaths) -> str | None:
    """Put the folder back as it was; return what had been tampered with, or None.

    Raises OSError.
    """
    found: list[str] = []
    if paths.root.is_symlink() or not paths.root.is_dir():
        found.append("it removed the trial's folder")
        folders.renew(paths.root)
    for name in sorted(_names(paths) - before.names):
        if not name.startswith(_NETWORK_LEFTOVER):
            found.append(f"it put {name!r} into the trial's folder")
            folders.remove(paths.root / name)
    for name, content in sorted(before.contents.items()):
        path = paths.root / name
        if not _holds(path, content):
            found.append(f"it changed {name}")
            folders.remove(path)
            write_atomic(path, content)
    if paths.out.is_symlink() or not paths.out.is_dir():
        found.append("it replaced its output folder")
        folders.renew(paths.out)
    if _is_foreign_file(paths.log):
        found.append("it replaced the log")
        folders.remove(paths.log)
    return "; ".join(found) or None


def _names(paths: TrialPaths) -> frozenset[str]:
    return frozenset(path.name for path in paths.root.iterdir())


def _holds(path: Path, content: bytes) -> bool:
    """Tell whether a path is a file of its own with this content; read no more than needed."""
    if _is_foreign_file(path) or path.stat().st_size != len(content):
        return False
    return path.read_bytes() == content


def _is_foreign_file(path: Path) -> bool:
    try:
        info = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return True
    return not stat.S_ISREG(info.st_mode) or info.st_nlink != 1
