"""Content hashes of files and folders (SHA-256, hexadecimal)."""

from __future__ import annotations

import hashlib
import os
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping
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


# The code on disk that runs and scores trials: the package's own files, and the files that Python
# runs at start.
#
# A candidate without a sandbox can write there. A `.pth` file runs in every Python that starts, so
# also in those that score later trials.

_ROOMS = ("worker", "execution", "results")
_AT_START = ("sitecustomize.py", "usercustomize.py")


def own_code() -> dict[str, str]:
    """Return the hash of each of these files by its path; "" for a file that cannot be read.

    Byte-code is excluded, because Python itself writes it.
    """
    found = dict[str, str]()
    for path in _files():
        try:
            found[str(path)] = hash_file(path)
        except OSError:
            found[str(path)] = ""
    return found


def own_code_mark() -> object:
    """Return these files' metadata. As long as it is equal, `own_code` need not be recomputed."""
    marks = []
    for path in map(os.fspath, _files()):
        try:
            info = os.stat(path)  # noqa: PTH116 (twice as fast)
        except OSError:
            continue
        marks.append((path, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns))
    return marks


def _is_run_at_start(name: str) -> bool:
    return name.endswith(".pth") or name in _AT_START


def _files() -> Iterator[Path]:
    folders = {*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_path("stdlib")}
    for folder in sorted({*folders, *filter(None, sys.path)}):
        try:
            with os.scandir(folder) as entries:
                names = sorted(e.name for e in entries if _is_run_at_start(e.name) and e.is_file())
        except OSError:
            continue
        yield from (Path(folder) / name for name in names)
    package = Path(hpcscientist.__file__).resolve().parent
    for room in _ROOMS:
        yield from tree_files(package / room)
