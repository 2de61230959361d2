"""Content hashes of files and folders (SHA-256, hexadecimal)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import site
import stat
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import hpcscientist
from hpcscientist.files.handed import open_regular

_SKIPPED = {"__pycache__"}
# The recipes in an installed package: in a clone they are elsewhere, and each has its own hash.
_SHIPPED = "shipped"


def hash_file(path: Path) -> str:
    """Return the hash of a regular file's content. Raises OSError."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_image(path: Path) -> str:
    """Return the hash of a container image: a file, or an unpacked folder."""
    return hash_tree(path) if path.is_dir() else hash_file(path)


def hash_texts(files: Mapping[str, str]) -> str:
    """Return the hash of named texts; equal to `hash_tree` of the same files on disk."""
    return hash_named({name: hash_bytes(text.encode()) for name, text in files.items()})


def hash_named(hashes: Mapping[str, str]) -> str:
    """Return the hash of a folder from the hashes of its files by name; see `hash_tree`."""
    digest = hashlib.sha256()
    for name in sorted(hashes):
        digest.update(f"{name}\0{hashes[name]}\n".encode())
    return digest.hexdigest()


def hash_bytes(content: bytes) -> str:
    """Return the hash of a file with this content."""
    return hashlib.sha256(content).hexdigest()


def hash_tree(folder: Path) -> str:
    """Return the hash of all regular files below a folder: names and contents, not times."""
    return hash_named(hash_files(folder))


def holds(folder: Path, known: str, most: int) -> bool:
    """Return whether a folder has the hash `known`; False, unread, if larger than `most` bytes."""
    try:
        size = sum(path.stat().st_size for path in tree_files(folder))
        return size <= most and hash_tree(folder) == known
    except OSError:
        return False


def hash_files(folder: Path) -> dict[str, str]:
    """Return the hash of each regular file below a folder, by its path relative to the folder."""
    return {p.relative_to(folder).as_posix(): hash_file(p) for p in tree_files(folder)}


@cache
def package_hash() -> str:
    """Return the hash of this package as installed or cloned.

    A version is less specific: between two releases, many states of the code share one.
    """
    folder = Path(hpcscientist.__file__).resolve().parent
    files = {
        path.relative_to(folder): path
        for path in tree_files(folder)
        if path.relative_to(folder).parts[0] != _SHIPPED
    }
    digest = hashlib.sha256()
    for name, path in files.items():
        digest.update(f"{name.as_posix()}\0{hash_file(path)}\n".encode())
    return digest.hexdigest()


def tree_files(folder: Path) -> list[Path]:
    """Return the regular files below a folder, sorted by name, without byte-code caches.

    Folders that may not be read count as empty, and so does one that is missing. Raises OSError.
    """
    # By scandir: Path.rglob asks for the status of every entry and takes five times as long, and
    # a driver without a sandbox lists its own code after each trial.
    found = list[str]()
    left = [""] if folder.is_dir() else []
    while left:
        below = left.pop()
        try:
            entries = os.scandir(folder / below)
        except PermissionError:
            continue
        with entries:
            for entry in entries:
                if entry.name in _SKIPPED:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    left.append(f"{below}{entry.name}/")
                elif entry.is_file(follow_symlinks=False):
                    found.append(below + entry.name)
    return [folder / name for name in sorted(found)]


def change_mark(info: os.stat_result) -> tuple[int, ...]:
    """Return the part of a file's metadata that differs if its content does.

    A program can set the time of the last write (mtime), but not that of the last change (ctime):
    only the system's clock does.
    """
    return info.st_ino, info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns


# The code on disk that runs and scores trials: the package's own files, and the files that Python
# runs at start.
#
# A candidate without a sandbox can write there. A `.pth` file runs in every Python that starts, so
# also in those that score later trials.

_ROOMS = ("worker", "execution", "results")
_AT_START = ("sitecustomize.py", "usercustomize.py")


_FRESH_NS = 2_000_000_000  # coarser than the times of any file system in use


class OwnCode:
    """These files as they were when this was made. Byte-code is excluded: Python itself writes it.

    The folders are listed again only if one has changed: a driver asks twice per trial, and an
    environment has hundreds of entries.
    """

    def __init__(self) -> None:
        self._folders: dict[str, object] = {}
        self._files: list[str] = []
        self._marks = self._look()
        self._hashes = _hashes(self._files)

    def changed(self) -> list[str]:
        """Return the paths of files that were changed, added or removed since, sorted."""
        marks = self._look()
        if marks == self._marks:
            return []
        found = _hashes(self._files)
        names = sorted({*found, *self._hashes})
        changed = [name for name in names if found.get(name) != self._hashes.get(name)]
        self._marks = self._marks if changed else marks
        return changed

    def _look(self) -> list[tuple[str, object]]:
        """Return the metadata of every file. They differ if a content does."""
        if not self._folders or any(_state(f) != known for f, known in self._folders.items()):
            # First the folders' states: what changes during the listing is listed again.
            self._folders = {folder: _state(folder) for folder in _folders()}
            self._files = _files(self._folders)
        return [(file, _state(file)) for file in self._files]


def _state(path: str) -> object:
    """Return a path's `change_mark`; None if the path is missing.

    A folder that has just changed has another state each time: it may
    change again without another time.
    """
    try:
        info = os.stat(path)  # noqa: PTH116 (twice as fast)
    except OSError:
        return None
    is_fresh = stat.S_ISDIR(info.st_mode) and time.time_ns() - info.st_ctime_ns < _FRESH_NS
    now = time.monotonic_ns() if is_fresh else 0
    return change_mark(info), now


def _hashes(files: Iterable[str]) -> dict[str, str]:
    """Return the hash of each file by its path; "" for a file that cannot be read."""
    found = dict[str, str]()
    for path in files:
        try:
            found[path] = hash_file(Path(path))
        except OSError:
            found[path] = ""
    return found


def _folders() -> Iterator[str]:
    """Yield the folders from which Python runs code at start, and the package's that score."""
    folders = {*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_path("stdlib")}
    yield from sorted({*folders, *filter(None, sys.path)})
    package = Path(hpcscientist.__file__).resolve().parent
    for room in _ROOMS:
        for folder, inner, _ in os.walk(package / room):
            inner[:] = sorted(set(inner) - _SKIPPED)
            yield folder


def _files(folders: Iterable[str]) -> list[str]:
    """Return the files of these folders that run: below the package all, elsewhere those that
    Python runs at start.
    """
    package = str(Path(hpcscientist.__file__).resolve().parent) + os.sep
    found = list[str]()
    for folder in folders:
        is_ours = folder.startswith(package)
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            ran = (e for e in entries if is_ours or _is_run_at_start(e.name))
            found += sorted(entry.path for entry in ran if entry.is_file())
    return found


def _is_run_at_start(name: str) -> bool:
    return name.endswith(".pth") or name in _AT_START
