"""What runs and scores trials as it lies on the disk: our own files, and what Python runs at start.

A candidate without a sandbox can write there. A `.pth` file runs in every Python that starts, so in
those that score later trials, whatever the run directory holds.
"""

from __future__ import annotations

import site
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import hpcscientist
from hpcscientist.files.hashing import hash_file, tree_files

_ROOMS = ("worker", "execution", "results")
_AT_START = ("sitecustomize.py", "usercustomize.py")


def own_code() -> dict[str, str]:
    """Return the hash of each file by its path; of one that cannot be read "".

    Byte-code is left out: Python writes it as it goes.
    """
    found = dict[str, str]()
    for path in _files():
        try:
            found[str(path)] = hash_file(path)
        except OSError:
            found[str(path)] = ""
    return found


def own_code_mark() -> object:
    """Return what the file system says of these files; with another mark, hashes may differ."""
    marks = []
    for path in _files():
        try:
            info = path.stat()
        except OSError:
            continue
        marks.append((str(path), info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns))
    return marks


def _files() -> Iterator[Path]:
    folders = {*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_path("stdlib")}
    for folder in sorted({*folders, *filter(None, sys.path)}):
        try:
            entries = sorted(Path(folder).glob("*.pth"))
        except OSError:
            continue
        yield from (path for path in entries if path.is_file())
        yield from (path for name in _AT_START if (path := Path(folder) / name).is_file())
    package = Path(hpcscientist.__file__).resolve().parent
    for room in _ROOMS:
        yield from tree_files(package / room)
