"""What daemons logged between two moments, cut out of their files by position.

By position and not by time stamp: each daemon writes another format, and clocks are set back.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

# A file's inode and size; another inode under the same name is another file.
Position = tuple[int, int]
_BLOCK = 1 << 20
_LONGEST_NAME = 120


def positions(folders: Iterable[str | Path]) -> dict[str, Position]:
    """Return where every log file below the folders ends now; none for a folder that is not."""
    found: dict[str, Position] = {}
    for folder in map(Path, folders):
        for path in folder.rglob("*") if folder.is_dir() else ():
            try:
                if path.is_file() and not path.is_symlink():
                    at = path.stat()
                    found[str(path)] = (at.st_ino, at.st_size)
            except OSError:  # gone in between
                continue
    return found


def cut(begin: Mapping[str, Position], end: Mapping[str, Position], folder: Path) -> list[Path]:
    """Write what was added from `begin` to `end` to files of the same names in `folder`.

    What has gone in between is left out, for it cannot be read.
    """
    written = []
    for name, (inode, size) in end.items():
        before = begin.get(name)
        start = before[1] if before and before[0] == inode and before[1] <= size else 0
        if start == size:
            continue
        target = folder / Path(name).name
        if _copy(Path(name), start, size, target):
            written.append(target)
    return written


def _copy(source: Path, start: int, end: int, target: Path) -> bool:
    try:
        with source.open("rb") as read:
            read.seek(start)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("ab") as write:
                left = end - start
                while left > 0 and (block := read.read(min(left, _BLOCK))):
                    write.write(block)
                    left -= len(block)
    except OSError:
        return False
    return True


def folder_name(case: str) -> str:
    """Return a folder's name for a case: readable, short enough, another for each case."""
    file, _, test = case.partition("::")
    plain = re.sub(r"[^\w.\[\]=-]+", "_", f"{Path(file).stem}.{test}")
    if plain == f"{Path(file).stem}.{test}" and len(plain) <= _LONGEST_NAME:
        return plain
    return f"{plain[:_LONGEST_NAME]}-{hashlib.sha256(os.fsencode(case)).hexdigest()[:6]}"
