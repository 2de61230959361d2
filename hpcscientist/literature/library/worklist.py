"""Finds the inputs that have to be read: new ones, and those whose content has changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hpcscientist import __version__
from hpcscientist.literature.library.ledger import (
    LibraryLedger,
    ReadSource,
    Stamp,
    stamp_of,
    whole_content,
)
from hpcscientist.literature.library.paths import LibraryPaths
from hpcscientist.literature.sources import detect
from hpcscientist.literature.sources.base import PaperSource, Trouble, trouble


@dataclass(frozen=True, slots=True)
class SourceToRead:
    """A source that has to be read. `key` is its absolute path as text."""

    source: PaperSource
    key: str
    stamp: Stamp


@dataclass(slots=True)
class Worklist:
    """What a build has to do. `troubles` are about inputs that are not sources."""

    todo: list[SourceToRead] = field(default_factory=list)
    unchanged: int = 0
    touched: list[ReadSource] = field(default_factory=list)  # same content, other times
    gone: list[str] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """The number of bytes to read."""
        return sum(listed.stamp.size for listed in self.todo)


def make_worklist(
    inputs: Sequence[Path], out: Path, ledger: LibraryLedger, *, prune: bool, again: bool
) -> Worklist:
    """Return what to do, from a comparison of the inputs with the ledger.

    With `prune`, sources that are no longer among the inputs are gone; with `again`, sources that
    were not read, or only partly, are read again.
    """
    worklist, seen, looked = Worklist(), set[str](), list[tuple[SourceToRead, ReadSource]]()
    for found in _sources(inputs, out):
        if isinstance(found, Trouble):
            worklist.troubles.append(found)
            continue
        key = key_of(found.path)
        if key in seen:
            continue
        seen.add(key)
        try:
            listed = SourceToRead(found, key, stamp_of(found))
        except OSError as error:
            worklist.troubles.append(trouble(found.origin, f"cannot be read: {error.strerror}"))
            continue
        entry = ledger.entries.get(key)
        if entry is None or _must_again(entry, listed, again):
            worklist.todo.append(listed)
        elif entry.stamp == listed.stamp:
            worklist.unchanged += 1
        else:
            worklist.todo.append(listed)
            looked.append((listed, entry))
    _spare_unchanged(worklist, looked)
    if ledger.cursor is not None:  # a source that was begun is finished first
        begun = ledger.cursor.path
        worklist.todo.sort(key=lambda listed: listed.key != begun)
    worklist.gone = [key for key in ledger.entries if key not in seen] if prune else []
    return worklist


def _sources(inputs: Sequence[Path], out: Path) -> Iterator[PaperSource | Trouble]:
    """Yield the sources in the inputs and in what was fetched, without the library itself."""
    own = os.path.abspath(out)  # noqa: PTH100 (Path.absolute keeps "..")
    fetched = LibraryPaths(Path(own)).fetched
    for found in detect.inputs([*inputs, fetched] if fetched.is_dir() else inputs):
        place = found.origin if isinstance(found, Trouble) else found.path
        path = os.path.abspath(place)  # noqa: PTH100
        if not _below(path, own) or _below(path, os.fspath(fetched)):
            yield found


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)


def _must_again(entry: ReadSource, listed: SourceToRead, again: bool) -> bool:
    """Return whether to read even an unchanged source: its kind or its reader is another now."""
    source = listed.source
    newer = entry.reader != reader_of(source.kind)
    return entry.kind != source.kind or bool(entry.troubles and (again or newer))


def _spare_unchanged(worklist: Worklist, looked: Sequence[tuple[SourceToRead, ReadSource]]) -> None:
    """Remove sources with unchanged content from the worklist: they were copied or touched."""
    if not looked:
        return
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        contents = list(threads.map(lambda pair: whole_content(pair[0].source), looked))
    same = set()
    for (listed, entry), content in zip(looked, contents, strict=True):
        if content and content == entry.content:
            same.add(listed.key)
            worklist.touched.append(entry.model_copy(update={"stamp": listed.stamp}))
    worklist.unchanged += len(same)
    worklist.todo = [listed for listed in worklist.todo if listed.key not in same]


def key_of(path: Path) -> str:
    """Return an absolute path as text that is valid Unicode."""
    return os.fsencode(os.path.abspath(path)).decode("utf-8", "backslashreplace")  # noqa: PTH100


@cache  # called for every source, and reading the metadata of a package is slow
def reader_of(kind: str) -> str:
    """Return the versions of the packages that read a kind of source."""
    if kind != "pdf":
        return __version__
    try:
        return f"{__version__} pymupdf {version('pymupdf')}"
    except PackageNotFoundError:
        return __version__
