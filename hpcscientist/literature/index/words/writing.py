"""Keyword indexes are written: the next to the last one, and then in its place by a rename."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from hpcscientist.errors import LibraryError
from hpcscientist.literature.index.catalogue import IndexPaths, KeywordPart, checksum
from hpcscientist.literature.index.words import engine, fields
from hpcscientist.literature.index.words.documents import FORMULAS, PAPERS, SYMBOLS, in_parts
from hpcscientist.literature.library.files.parts import Positions
from hpcscientist.literature.library.processes.pool import Pool
from hpcscientist.literature.library.store import Store

# Papers that left still count in how rare a word is, until the index is made anew. A small one
# is made anew at once; a large one when a tenth of it has gone.
_SMALL = 20_000
_GONE = 0.1

Told = Callable[[str, int, int], None]


def update(
    paths: IndexPaths,
    store: Store,
    part: KeywordPart | None,
    told: Told,
    pool: Pool | None = None,
) -> KeywordPart:
    """Return keyword indexes of what is in the store, written below `paths`; a new folder.

    `part` are those of before, which stay as they are. `told` hears of which, how many are
    done, and of how many; `pool` has processes that may help. Raises LibraryError, OSError.
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
    """What has to be done with an index; without `goes_on` it is made anew."""

    goes_on: bool
    gone: Positions
    added: Positions
    left: int


def _change(old: Positions, new: Positions, left: int) -> _Change:
    # Each stands once in both, and what looks whether it does imports NumPy's masked arrays.
    gone = np.setdiff1d(old, new, assume_unique=True)
    left += len(gone)
    too_many = (len(gone) > 0 and len(old) < _SMALL) or left > _GONE * len(old)
    if too_many or not len(old):
        return _Change(goes_on=False, gone=old[:0], added=new, left=0)
    return _Change(
        goes_on=True, gone=gone, added=np.setdiff1d(new, old, assume_unique=True), left=left
    )


FIELDS = {PAPERS: fields.PAPERS, FORMULAS: fields.FORMULAS, SYMBOLS: fields.SYMBOLS}


def _stored(name: str) -> list[str]:
    return [*FIELDS[name], *([fields.SPELLING] if name == PAPERS else [])]


def indexed(paths: IndexPaths, part: KeywordPart, name: str) -> Positions:
    """Return the positions that are indexed: of `papers.npy` or `symbols.npy`."""
    path = paths.path(part.folder) / name
    try:
        found: Positions = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise engine.unreadable(path, error) from error
    return found


def check(paths: IndexPaths, part: KeywordPart) -> None:
    """Raise LibraryError where a file is not as it was written.

    Tantivy believes what it reads, and finds the wrong papers or panics.
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
    """Whether the indexes are known to be as they were written, and can be opened."""
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
    """Return what is indexed; nothing where that cannot be told: then all is indexed anew."""
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
    store: Store, name: str, positions: Positions, told: Told, pool: Pool | None
) -> Iterator[engine.Document]:
    """Yield what is indexed of the rows at some positions."""
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
