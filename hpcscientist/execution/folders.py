"""Folders a hostile program has written into: measuring and emptying them safely.

Nothing here follows a symbolic link, and nothing recurses: a program can nest folders
deeper than a path or a call stack may be long.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcscientist.files.hashing import tree_files
from hpcscientist.files.rundir import TrialPaths

MAX_ENTRIES = 20_000  # more files than this is a fault too: file systems have inode quotas


def empty(folder: Path) -> None:
    """Remove everything in a folder, keeping the folder. Raises OSError."""
    while entries := list(os.scandir(folder)):
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                Path(entry.path).unlink()
                continue
            # Lift grandchildren one level up instead of walking down to them.
            Path(entry.path).chmod(0o700)
            for inner in list(os.scandir(entry.path)):
                if inner.is_dir(follow_symlinks=False):
                    Path(inner.path).chmod(0o700)
                    Path(inner.path).rename(folder / f".{uuid.uuid4().hex}")
                else:
                    Path(inner.path).unlink()
            Path(entry.path).rmdir()


def remove(path: Path) -> None:
    """Remove a file, link or whole folder, if it is there. Raises OSError."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    path.chmod(0o700)
    empty(path)
    path.rmdir()


def renew(path: Path) -> None:
    """Make `path` an empty folder, whatever it was. Raises OSError."""
    remove(path)
    path.mkdir(parents=True)


def measure(folders: tuple[Path, ...], enough: int) -> tuple[int, int]:
    """Return (bytes on disk, entries) below folders; stop counting past `enough` bytes."""
    size = entries = 0
    todo = [os.fspath(folder) for folder in folders]
    while todo and size <= enough and entries <= MAX_ENTRIES:
        try:
            with os.scandir(todo.pop()) as scan:
                for entry in scan:
                    entries += 1
                    info = entry.stat(follow_symlinks=False)
                    size += info.st_blocks * 512
                    if stat.S_ISDIR(info.st_mode):
                        todo.append(entry.path)
        except OSError:
            continue  # it vanished, or may not be read: the next round or the wipe sees it
    return size, entries


def free_mb(path: Path) -> float:
    """Return the space that is free to this user on the file system of `path`, MiB."""
    info = os.statvfs(path)
    return info.f_bavail * info.f_frsize / 2**20


def copy_code(source: Path, target: Path) -> None:
    """Copy what `hash_tree` covers: regular files, no links, no caches. Raises OSError."""
    target.mkdir()
    for path in tree_files(source):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def _prefix(paths: TrialPaths) -> str:
    place = hashlib.sha256(os.fsencode(paths.root.absolute())).hexdigest()[:12]
    return f"hpcsci-{place}-"


@contextmanager
def scratch(paths: TrialPaths) -> Iterator[Path]:
    """Make a private folder for a trial on this machine's temporary file system.

    Whatever kills the worker, `remove_scratch` finds the folder by its name.
    """
    folder = Path(tempfile.mkdtemp(prefix=_prefix(paths)))
    try:
        yield folder
    finally:
        remove(folder)


def remove_scratch(paths: TrialPaths) -> None:
    """Remove private folders of this trial that a killed worker left on this machine."""
    for folder in Path(tempfile.gettempdir()).glob(_prefix(paths) + "*"):
        if folder.stat(follow_symlinks=False).st_uid == os.getuid():
            remove(folder)
