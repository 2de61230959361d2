"""Turns a library's rows into indexed documents, and writes the next keyword indexes.

If reader processes are running, they make the documents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from hpcscientist.errors import LibraryError
from hpcscientist.literature.index import engine
from hpcscientist.literature.index.catalogue import IndexPaths, KeywordPart, checksum
from hpcscientist.literature.library.parts import Positions
from hpcscientist.literature.library.processes.extraction import SourceEnd
from hpcscientist.literature.library.processes.pool import Lost, ReaderPool
from hpcscientist.literature.library.store import Store, open_store

PAPERS, FORMULAS, SYMBOLS = "papers", "formulas", "symbols"
_COLUMNS = {PAPERS: engine.OF_PAPER, FORMULAS: engine.OF_FORMULAS}
_AT_ONCE = 256  # rows per task of a process
_SHARES = 8  # tasks per process at least, so that all end at about the same time
_WORTH_SENDING = 32  # indexing fewer rows here is faster than sending them to a process
_WORTH_STARTING = 4096  # the same if no process is running: starting one takes a second

Documents = list[engine.Document]


@dataclass(frozen=True, slots=True)
class Indexed:
    """The documents of some rows, and roughly how many bytes they have."""

    documents: Documents
    size: int


@dataclass(frozen=True, slots=True)
class Indexing:
    """Work for a reader process: make documents of the rows at some positions of a library."""

    library: Path
    fingerprint: str
    name: str
    positions: Positions
    done: bool = False

    def outputs(self) -> Iterator[Indexed | SourceEnd]:
        """Yield the documents, then Ended. Raises LibraryError."""
        if not self.done:
            made = documents(_opened(self.library, self.fingerprint), self.name, self.positions)
            yield Indexed(made, sum(sum(map(len, terms.values())) for *_, terms in made))
        yield SourceEnd("")

    def after(self, batches: int) -> Indexing:
        """Return the rest of the work after some more batches; there is only one."""
        return replace(self, done=self.done or batches > 0)


def documents(store: Store, name: str, positions: Positions) -> Documents:
    """Return the documents of the rows at some positions."""
    if name == SYMBOLS:
        found = store.symbols(positions)
        return [(at, 0, row.symbol_id, engine.symbol_terms(row)) for at, row in found]
    rows = store.rows(positions, _COLUMNS[name])
    if name == PAPERS:
        return [(at, 0, row["paper_id"], engine.paper_terms(row)) for at, row in rows]
    return [
        (at, number, row["paper_id"], engine.formula_terms(formula, row["title"]))
        for at, row in rows
        for number, formula in enumerate(row["formulas"], start=1)
    ]


def in_parts(
    store: Store, name: str, positions: Positions, pool: ReaderPool | None
) -> Iterator[tuple[int, Documents]]:
    """Yield like `documents`, in parts and in order, each with its number of positions."""
    least = _WORTH_SENDING if pool is not None and pool.running else _WORTH_STARTING
    if pool is None or len(positions) < least:
        for part in _parted(positions, _AT_ONCE):
            yield len(part), documents(store, name, part)
        return
    together = max(1, min(_AT_ONCE, len(positions) // (_SHARES * pool.jobs)))
    given = False
    for work, output in pool.read(
        Indexing(store.folder, store.fingerprint, name, part)
        for part in _parted(positions, together)
    ):
        if isinstance(output, Indexed):
            given = True
            yield len(work.positions), output.documents
        elif isinstance(output, Lost) and not given:  # do it here, where an error is raised
            yield len(work.positions), documents(store, name, work.positions)
        else:
            given = False


def _parted(positions: Positions, count: int) -> Iterable[Positions]:
    return (positions[start : start + count] for start in range(0, len(positions), count))


@lru_cache(maxsize=1)
def _opened(library: Path, fingerprint: str) -> Any:
    """Return a library, cached as long as its `fingerprint` is the same."""
    return open_store(library)


# Writing keyword indexes: each in a new folder, which gets its final name last.

# Removed papers still count in how rare a word is, until the index is rebuilt. A small index is
# rebuilt at once, a large one when a tenth of its papers was removed.
_SMALL = 20_000
_GONE = 0.1

Told = Callable[[str, int, int], None]


def update(
    paths: IndexPaths,
    store: Store,
    part: KeywordPart | None,
    told: Told,
    pool: ReaderPool | None = None,
) -> KeywordPart:
    """Write keyword indexes of the store to a new folder below `paths`, and return their part.

    `part` are the previous indexes, which do not change. `told` is called with the name of an
    index, the number of rows done, and the total; `pool` has processes that may help. Raises
    LibraryError, OSError.
    """
    usable = part is not None and part.engine == _engine() and whole(paths, part)
    last = part if usable else None
    left = [last.left_papers, last.left_symbols] if last else [0, 0]
    with engine.workplace(paths.root) as place:
        for number, (names, file, now) in enumerate(
            (
                ((PAPERS, FORMULAS), "papers.npy", store.positions),
                ((SYMBOLS,), "symbols.npy", store.symbol_positions),
            )
        ):
            change = _change(_positions(paths, last, file), now, left[number])
            left[number] = change.left
            for name in names:
                same = last if change.goes_on else None
                _prepare(place / name, paths.path(same.folder) if same else None)
                documents = _documents(store, name, change.added, told, pool)
                engine.write(place / name, _stored(name), change.gone.tolist(), documents)
            np.save(place / file, now)
        checksums = {
            path.relative_to(place).as_posix(): checksum(path)
            for path in sorted(place.rglob("*"))
            if path.is_file() and path.suffix != engine.LOCK
        }
        folder = _next_name(paths)
        engine.move(place, paths.path(folder))
    return KeywordPart(
        folder=folder,
        content=store.fingerprint,
        engine=_engine(),
        left_papers=left[0],
        left_symbols=left[1],
        checksums=checksums,
    )


@dataclass(frozen=True, slots=True)
class _Change:
    """The changes to an index; it is rebuilt unless `goes_on`. `left` counts removed positions."""

    goes_on: bool
    gone: Positions
    added: Positions
    left: int


def _change(old: Positions, new: Positions, left: int) -> _Change:
    # Positions are unique in both. NumPy's own check for that would import masked arrays.
    gone = np.setdiff1d(old, new, assume_unique=True)
    left += len(gone)
    too_many = (len(gone) > 0 and len(old) < _SMALL) or left > _GONE * len(old)
    if too_many or not len(old):
        return _Change(goes_on=False, gone=old[:0], added=new, left=0)
    return _Change(
        goes_on=True, gone=gone, added=np.setdiff1d(new, old, assume_unique=True), left=left
    )


FIELDS = {PAPERS: engine.PAPERS, FORMULAS: engine.FORMULAS, SYMBOLS: engine.SYMBOLS}


def _stored(name: str) -> list[str]:
    return [*FIELDS[name], *([engine.SPELLING] if name == PAPERS else [])]


def indexed(paths: IndexPaths, part: KeywordPart, name: str) -> Positions:
    """Return the indexed positions, from `papers.npy` or `symbols.npy`."""
    path = paths.path(part.folder) / name
    try:
        found: Positions = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise engine.unreadable(path, error) from error
    return found


def check(paths: IndexPaths, part: KeywordPart) -> None:
    """Raise LibraryError if the checksum of a file is wrong.

    Tantivy does not check what it reads: it would find the wrong papers or panic.
    """
    folder = paths.path(part.folder)
    for name, written in part.checksums.items():
        try:
            if checksum(folder / name) == written:
                continue
        except OSError as error:
            raise engine.unreadable(folder / Path(name).parts[0], error) from error
        damaged = ValueError(f"{Path(name).name} is damaged")
        raise engine.unreadable(folder / Path(name).parts[0], damaged)


def whole(paths: IndexPaths, part: KeywordPart) -> bool:
    """Return whether the indexes have correct checksums and can be opened."""
    if not part.checksums:
        return False
    try:
        check(paths, part)
        for name in FIELDS:
            engine.open_view(paths.path(part.folder) / name)
        for name in ("papers.npy", "symbols.npy"):
            indexed(paths, part, name)
    except LibraryError:
        return False
    return True


def _positions(paths: IndexPaths, part: KeywordPart | None, name: str) -> Positions:
    """Return the indexed positions; none if unreadable, so that everything is indexed again."""
    if part is None:
        return np.empty(0, dtype=np.int64)
    try:
        return indexed(paths, part, name)
    except LibraryError:
        return np.empty(0, dtype=np.int64)


def _prepare(place: Path, last: Path | None) -> None:
    if last is None:
        place.mkdir()
    else:
        engine.copy_index(last / place.name, place)


def _documents(
    store: Store, name: str, positions: Positions, told: Told, pool: ReaderPool | None
) -> Iterator[engine.Document]:
    """Yield the documents of the rows at some positions, and report progress to `told`."""
    done = 0
    for count, found in in_parts(store, name, positions, pool):
        yield from found
        for number in range(done, done + count):
            told(name, number, len(positions))
        done += count
    told(name, len(positions), len(positions))


def _next_name(paths: IndexPaths) -> str:
    found = (re.fullmatch(r"keyword-(\d+)", path.name) for path in paths.root.iterdir())
    return f"keyword-{1 + max((int(match[1]) for match in found if match), default=0)}"


def _engine() -> str:
    return f"tantivy {version('tantivy')}"
