"""How a source looks, and what it holds: whether it has changed since it was read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from hpcscientist.literature.library.ledger import Stamp
from hpcscientist.literature.sources import detect, trees
from hpcscientist.literature.sources.base import Source

PIECE_BYTES = 4 << 20
UNKNOWN = "?"
_BLOCK = 1 << 20
_BESIDE = frozenset({".tex", ".ltx", ".latex", ".bbl", ".bib"})
# A folder of more files than this is no project, but many papers: each stands for itself.
_MANY = 200


def stamp_of(source: Source) -> Stamp:
    """Return how a source looks now. Raises OSError."""
    about = source.path.stat()
    files = files_of(source)
    if files == [source.path]:
        return Stamp(size=about.st_size, mtime_ns=about.st_mtime_ns)
    size, latest, digest = 0, 0, hashlib.sha256()
    for file in files:
        about = file.stat()
        size, latest = size + about.st_size, max(latest, about.st_mtime_ns)
        digest.update(b"%d %d %b\0" % (about.st_size, about.st_mtime_ns, os.fsencode(file.name)))
    return Stamp(size=size, mtime_ns=latest, inside=digest.hexdigest())


def content_hash(source: Source) -> str:
    """Return the hash of the bytes that a source stands for; "" where they cannot be read."""
    digest = hashlib.sha256()
    try:
        files = files_of(source)
        for file in files:
            if len(files) > 1 or file != source.path:
                digest.update(b"%d %b\0" % (file.stat().st_size, os.fsencode(file.name)))
            _hash_range(file, source.start, source.end, digest)
    except OSError:
        return ""
    return digest.hexdigest()


def pieces(source: Source) -> Iterator[Source]:
    """Yield the parts that are read side by side. Raises OSError."""
    return detect.divide(source, PIECE_BYTES)


def whole_content(source: Source) -> str:
    """Return the hash of a source, piece by piece; "" where it cannot be read."""
    content = ""
    try:
        for piece in pieces(source):
            content = with_piece(content, content_hash(piece))
    except OSError:
        return ""
    return "" if content == UNKNOWN else content


def with_piece(content: str, piece: str) -> str:
    """Return the hash of pieces with one more; UNKNOWN if that of any ("") is unknown."""
    if not piece or content == UNKNOWN:
        return UNKNOWN
    return hashlib.sha256(f"{content}{piece}".encode()).hexdigest()


def files_of(source: Source) -> list[Path]:
    """Return the files that a source is read from: a repository's code, a LaTeX file's parts."""
    path = source.path
    if path.is_dir():
        return list(_found(path, frozenset(trees.PYTHON)))
    if source.kind == "latex" and path.suffix.lower() in _BESIDE:
        beside = list(islice(_found(path.parent, _BESIDE), _MANY + 1))
        return beside if len(beside) <= _MANY else [path]
    return [path]


def _found(folder: Path, suffixes: frozenset[str]) -> Iterator[Path]:
    for file in trees.code_files(folder):
        if isinstance(file, Path) and file.suffix.lower() in suffixes:
            yield file


def _hash_range(path: Path, start: int, end: int | None, digest: Any) -> None:
    with path.open("rb") as file:
        file.seek(start)
        left = end - start if end is not None else -1
        while left and (block := file.read(_BLOCK if left < 0 else min(_BLOCK, left))):
            digest.update(block)
            left -= len(block) if left > 0 else 0
