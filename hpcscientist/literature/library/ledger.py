"""Records what was read so far: the manifest of the last finished build, and the commits since.

A commit is a part of papers, a part of symbols, and a file. The file names the parts, the sources
that were finished with the commit, and how far the next source has come. It is written last, so a
commit exists fully or not at all. Papers and symbols are numbered in the order of the commits; the
number is the position, and the row at a position never changes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from hpcscientist.errors import LibraryError
from hpcscientist.literature.library.paths import LibraryPaths
from hpcscientist.literature.sources import code, detect
from hpcscientist.literature.sources.base import PaperSource
from hpcscientist.records.base import Record


class RowsFile(Record):
    """A file of rows; `file` is relative to the library's folder, `size` in bytes."""

    file: str
    rows: int
    size: int
    sha256: str


class Stamp(Record):
    """The size and time of a source when it was read. `inside` is a hash over several files."""

    size: int
    mtime_ns: int
    inside: str = ""


class Cursor(Record):
    """How far an unfinished source was read at a commit.

    `piece` and `batch` are the next to read; `content` is the hash of the pieces before.
    """

    path: str
    reading: int
    stamp: Stamp
    piece: int
    batch: int
    content: str = ""
    papers: int = 0
    symbols: int = 0
    troubles: int = 0


class ReadSource(Record):
    """A source that was read, with the number of papers, symbols and troubles it gave.

    `given` is its name for users; `reader` has the versions of the packages that read it.
    """

    path: str
    given: str
    kind: str
    reading: int
    stamp: Stamp
    content: str
    papers: int
    symbols: int
    troubles: int
    reader: str


class Commit(Record):
    """The content of one commit. `merged`: its rows are merged from others.

    `readings` are those that have rows in it.
    """

    number: int
    first_paper: int
    first_symbol: int
    papers: RowsFile | None = None
    symbols: RowsFile | None = None
    merged: bool = False
    readings: tuple[int, ...] = ()
    cursor: Cursor | None = None


Told = tuple[int, str, str]  # reading, origin, reason


class _Head(Record):
    """The summary of a ledger in the first line of a manifest."""

    edition: int
    last_commit: int
    last_reading: int
    papers: int
    symbols: int


_LINES: dict[str, TypeAdapter[Any]] = {
    "manifest": TypeAdapter(_Head),
    "commit": TypeAdapter(Commit),
    "source": TypeAdapter(ReadSource),
    "trouble": TypeAdapter(Told),
}


@dataclass(slots=True)
class LibraryLedger:
    """The state of a library that is being built."""

    edition: int = 0  # the number of finished builds that changed the library
    published: int = 0  # the last commit of that build
    commits: list[Commit] = field(default_factory=list)
    entries: dict[str, ReadSource] = field(default_factory=dict)
    cursor: Cursor | None = None
    last_commit: int = 0
    last_reading: int = 0
    papers: int = 0  # positions in use
    symbols: int = 0

    def apply(self, commit: Commit, ended: Iterable[ReadSource]) -> None:
        """Add a commit, and the sources that were finished in it."""
        if commit.papers or commit.symbols:
            self.commits.append(commit)
        for entry in ended:
            self.entries.pop(entry.path, None)  # a source that was read again goes to the end
            self.entries[entry.path] = entry
            self.last_reading = max(self.last_reading, entry.reading)
        self.last_reading = max(self.last_reading, *commit.readings, 0)
        self.cursor = commit.cursor
        self.last_commit = commit.number
        self.papers = commit.first_paper + (commit.papers.rows if commit.papers else 0)
        self.symbols = commit.first_symbol + (commit.symbols.rows if commit.symbols else 0)

    def parts(self) -> Iterator[RowsFile]:
        """Yield all parts."""
        for commit in self.commits:
            yield from (part for part in (commit.papers, commit.symbols) if part)


def encode_commit(commit: Commit, ended: Iterable[ReadSource], troubles: Iterable[Told]) -> bytes:
    """Return the content of a commit's file."""
    lines = [f'{{"commit": {commit.model_dump_json()}}}']
    lines += [f'{{"source": {entry.model_dump_json()}}}' for entry in ended]
    lines += [_trouble_line(told) for told in troubles]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def encode_manifest(ledger: LibraryLedger, troubles: Iterable[Told]) -> Iterator[str]:
    """Yield the lines of a manifest."""
    head = {name: getattr(ledger, name) for name in _Head.model_fields}
    yield json.dumps({"manifest": head})
    for commit in ledger.commits:
        yield f'{{"commit": {commit.model_dump_json()}}}'
    for entry in ledger.entries.values():
        yield f'{{"source": {entry.model_dump_json()}}}'
    yield from map(_trouble_line, troubles)


def _trouble_line(told: Told) -> str:
    return json.dumps({"trouble": told})


def load(paths: LibraryPaths, edition: int) -> LibraryLedger:
    """Return the state of a library whose last finished build has the number `edition`.

    Raises LibraryError if its files are damaged.
    """
    ledger = LibraryLedger(edition=edition)
    if edition:
        for name, value in _lines(paths, paths.manifest(edition).name):
            if name == "manifest":
                ledger.last_commit = ledger.published = value.last_commit
                ledger.last_reading = value.last_reading
                ledger.papers, ledger.symbols = value.papers, value.symbols
            elif name == "commit":
                ledger.commits.append(value)
            elif name == "source":
                ledger.entries[value.path] = value
    while (file := paths.commit(ledger.last_commit + 1)).exists():
        read = list(_lines(paths, file.name))
        commits = [value for name, value in read if name == "commit"]
        if len(commits) != 1:
            raise _damaged(paths, file.name, ValueError())
        ledger.apply(commits[0], [value for name, value in read if name == "source"])
    return ledger


def troubles(paths: LibraryPaths, ledger: LibraryLedger) -> Iterator[Told]:
    """Yield the troubles of all sources, from their latest reading."""
    current = {entry.reading for entry in ledger.entries.values()}
    names = [paths.manifest(ledger.edition).name] if ledger.edition else []
    names += [paths.commit(n).name for n in range(ledger.published + 1, ledger.last_commit + 1)]
    for file in names:
        for name, value in _lines(paths, file):
            if name == "trouble" and value[0] in current:
                yield value[0], value[1], value[2]


def _lines(paths: LibraryPaths, file: str) -> Iterator[tuple[str, Any]]:
    try:
        with (paths.sources / file).open(encoding="utf-8") as lines:
            for line in lines:
                ((name, value),) = json.loads(line).items()
                yield name, _LINES[name].validate_json(json.dumps(value))
    except (OSError, ValueError, LookupError, AttributeError) as error:
        raise _damaged(paths, file, error) from error


def _damaged(paths: LibraryPaths, file: str, error: Exception) -> LibraryError:
    return LibraryError(
        f"{paths.sources / file}: damaged ({type(error).__name__}): remove {paths.root} and "
        "build it again"
    )


# Stamps and content hashes of sources, to find those that have changed since they were read.

PIECE_BYTES = 4 << 20
UNKNOWN = "?"
_BLOCK = 1 << 20
_BESIDE = frozenset({".tex", ".ltx", ".latex", ".bbl", ".bib"})
# A folder with more files than this is no project but many papers, each a source by itself.
_MANY = 200


def stamp_of(source: PaperSource) -> Stamp:
    """Return the current stamp of a source. Raises OSError."""
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


def content_hash(source: PaperSource) -> str:
    """Return the hash of a source's bytes; "" if they cannot be read."""
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


def pieces(source: PaperSource) -> Iterator[PaperSource]:
    """Yield the parts of a source, which are read concurrently. Raises OSError."""
    return detect.divide(source, PIECE_BYTES)


def whole_content(source: PaperSource) -> str:
    """Return the hash of a source, computed piece by piece; "" if it cannot be read."""
    content = ""
    try:
        for piece in pieces(source):
            content = with_piece(content, content_hash(piece))
    except OSError:
        return ""
    return "" if content == UNKNOWN else content


def with_piece(content: str, piece: str) -> str:
    """Return the hash of pieces extended by one more; UNKNOWN if any hash is unknown ("")."""
    if not piece or content == UNKNOWN:
        return UNKNOWN
    return hashlib.sha256(f"{content}{piece}".encode()).hexdigest()


def files_of(source: PaperSource) -> list[Path]:
    """Return the files of a source: a repository's Python code, or for LaTeX its neighbours."""
    path = source.path
    if path.is_dir():
        return list(_found(path, frozenset(code.PYTHON)))
    if source.kind == "latex" and path.suffix.lower() in _BESIDE:
        beside = list(islice(_found(path.parent, _BESIDE), _MANY + 1))
        return beside if len(beside) <= _MANY else [path]
    return [path]


def _found(folder: Path, suffixes: frozenset[str]) -> Iterator[Path]:
    for file in code.code_files(folder):
        if isinstance(file, Path) and file.suffix.lower() in suffixes:
            yield file


def _hash_range(path: Path, start: int, end: int | None, digest: Any) -> None:
    with path.open("rb") as file:
        file.seek(start)
        left = end - start if end is not None else -1
        while left and (block := file.read(_BLOCK if left < 0 else min(_BLOCK, left))):
            digest.update(block)
            left -= len(block) if left > 0 else 0
