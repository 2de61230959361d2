"""Reads a library: papers and symbols by position and by id, mapped into memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from hpcscientist.errors import LibraryError
from hpcscientist.literature.library import schema
from hpcscientist.literature.library.keys import key, plain_id
from hpcscientist.literature.library.ledger import RowsFile
from hpcscientist.literature.library.parts import (
    FORMAT,
    LibraryContents,
    PlacedPart,
    Positions,
    Rows,
    changed,
    column,
    damaged,
    distinct,
    read_contents,
    refuse_newer,
)
from hpcscientist.literature.library.paths import LibraryPaths, make_folder, write_file
from hpcscientist.literature.library.publish import IDS, SHOWN
from hpcscientist.literature.library.schema import VERSION
from hpcscientist.records.literature import Paper, Symbol

# Makes the folder of a library, or checks that an existing folder is one.


def prepare_folder(paths: LibraryPaths) -> LibraryContents | None:
    """Make the folder of a library if needed; return the contents of the library in it.

    Raises LibraryError if it cannot be written, and like `check_folder`.
    """
    contents = check_folder(paths)
    for folder in (paths.root, paths.sources, paths.papers, paths.symbols):
        make_folder(folder)
    if not paths.mark.exists():
        mark = {"format": FORMAT, "schema_version": VERSION}
        write_file(paths.mark, (json.dumps(mark) + "\n").encode())
    return contents


def check_folder(paths: LibraryPaths) -> LibraryContents | None:
    """Return the contents of the library in a folder; None for a new one. Changes nothing.

    Raises LibraryError if the folder has other files, or a library that is damaged or of a newer
    version.
    """
    root = paths.root
    if root.exists() and not root.is_dir():
        raise LibraryError(f"{root}: is a file: --out has to be a folder, new or of a library")
    if paths.mark.exists():
        _check_mark(paths)
        return read_contents(paths)
    if root.exists() and any(_foreign(paths)):
        raise LibraryError(
            f"{root}: holds other things and no library: give --out a new or empty folder"
        )
    return None


def begun(paths: LibraryPaths) -> bool:
    """Return whether a build has begun in a folder."""
    return paths.mark.exists()


def _foreign(paths: LibraryPaths) -> list[Path]:
    """Return files that cannot be left from a build that was killed right after its start."""
    root = paths.root
    try:
        found = list(root.iterdir())
        return [
            p
            for p in found
            if p != paths.fetched  # it may come before the library
            and (p.name not in ("sources", "papers", "symbols") or any(_inside(p)))
        ]
    except OSError as error:
        raise LibraryError(
            f"{root}: cannot be read: {error.strerror}; give another --out"
        ) from error


def _inside(folder: Path) -> list[Path]:
    return [p for p in folder.iterdir() if not p.name.startswith(".format.json.")]


def _check_mark(paths: LibraryPaths) -> None:
    try:
        mark = json.loads(paths.mark.read_bytes())
        refuse_newer(paths, mark.get("schema_version"))
    except OSError as error:
        raise LibraryError(f"{paths.mark}: cannot be read: {error.strerror}") from error
    except (ValueError, AttributeError) as error:
        raise LibraryError(
            f"{paths.mark}: damaged: remove {paths.root} and build it again"
        ) from error


R = TypeVar("R")


def open_store(folder: Path) -> Store:
    """Open the library in a folder.

    Raises LibraryError if there is none, if it is damaged, or if a newer version wrote it.
    """
    paths = LibraryPaths(folder)
    if not folder.is_dir():
        raise LibraryError(f"{folder}: no such folder; make it with `hpcsci library build`")
    contents = read_contents(paths)
    if contents is None and begun(paths):
        raise LibraryError(
            f"{folder}: its first build has not ended; give the same `hpcsci library build` again"
        )
    if contents is None:
        raise LibraryError(f"{folder}: no library: make one with `hpcsci library build`")
    if (part := changed(paths, contents)) is not None:
        raise damaged(paths.file(part.file), ValueError("not what was written"))
    return Store(paths, contents)


class Store:
    """One edition of a library. Any thread may read.

    The paper at a position never changes, not even in later editions. Positions are ascending and
    have gaps.
    """

    def __init__(self, paths: LibraryPaths, contents: LibraryContents) -> None:
        """Open the files that `contents` names; see `open_store`."""
        self.folder = paths.root
        self.contents = contents
        self._papers = _rows(paths, contents.paper_parts, schema.PAPERS)
        self._symbols = _rows(paths, contents.symbol_parts, schema.SYMBOLS)
        self.positions = _column(paths, contents.shown_papers, SHOWN, "position")
        self.symbol_positions = _column(paths, contents.shown_symbols, SHOWN, "position")
        self._keys = _column(paths, contents.ids, IDS, "key")
        self._places = _column(paths, contents.ids, IDS, "position")

    @property
    def fingerprint(self) -> str:
        """A text that is equal only for libraries with the same content."""
        return self.contents.fingerprint

    def __len__(self) -> int:
        """Return the number of papers."""
        return len(self.positions)

    def paper_at(self, position: int) -> Paper:
        """Return the paper at a position. Raises LookupError if there never was one."""
        return self._made(schema.paper_of, self._papers.row(position))

    def symbol_at(self, position: int) -> Symbol:
        """Return the symbol at a position. Raises LookupError if there never was one."""
        return self._made(schema.symbol_of, self._symbols.row(position))

    def position(self, paper_id: str) -> int | None:
        """Return the position of a paper with any of its ids; None if it is not in the library."""
        wanted = np.uint64(key(plain_id(paper_id)))
        place = int(np.searchsorted(self._keys, wanted))
        if place == len(self._keys) or self._keys[place] != wanted:
            return None
        return int(self._places[place])

    def find(self, paper_id: str) -> Paper | None:
        """Return a paper by any of its ids; None if it is not in the library."""
        place = self.position(paper_id)
        return None if place is None else self.paper_at(place)

    def papers(
        self, positions: Sequence[int] | Positions | None = None
    ) -> Iterator[tuple[int, Paper]]:
        """Yield positions and papers in ascending order; all shown papers if None."""
        for position, row in self.rows(positions):
            yield position, self._made(schema.paper_of, row)

    def rows(
        self,
        positions: Sequence[int] | Positions | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield positions and rows of papers, with only `columns` if those are given."""
        wanted = self.positions if positions is None else distinct(np.asarray(positions, np.int64))
        yield from _select(self._papers, wanted, columns)

    def symbols(
        self, positions: Sequence[int] | Positions | None = None
    ) -> Iterator[tuple[int, Symbol]]:
        """Yield positions and symbols in ascending order; all shown symbols if None."""
        shown = self.symbol_positions
        wanted = shown if positions is None else distinct(np.asarray(positions, np.int64))
        for position, row in _select(self._symbols, wanted, None):
            yield position, self._made(schema.symbol_of, row)

    def _made(self, make: Callable[[dict[str, Any]], R], row: dict[str, Any]) -> R:
        """Return the record of a row. Raises LibraryError if no build can have written the row."""
        try:
            return make(row)
        except ValueError as error:
            raise LibraryError(
                f"{self.folder}: damaged (a row is none): remove it and build it again"
            ) from error


def _select(
    rows: Rows, wanted: Positions, columns: Sequence[str] | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the wanted rows with their positions, reading one record batch at a time."""
    if not len(wanted):
        return
    for first, batch in rows.between(int(wanted[0]), int(wanted[-1])):
        start, end = np.searchsorted(wanted, [first, first + batch.num_rows])
        if start < end:
            here = wanted[start:end]
            chosen = batch if columns is None else batch.select(list(columns))
            found = _taken(chosen, (here - first).tolist())
            yield from zip(here.tolist(), found, strict=True)


def _taken(batch: Any, wanted: Sequence[int]) -> list[dict[str, Any]]:
    """Return the wanted rows of a batch; `wanted` is ascending.

    Slices run by run: `take` would import modules, which takes longer.
    """
    found: list[dict[str, Any]] = []
    start = 0
    for place in range(1, len(wanted) + 1):
        if place == len(wanted) or wanted[place] != wanted[place - 1] + 1:
            found += batch.slice(wanted[start], place - start).to_pylist()
            start = place
    return found


def _rows(paths: LibraryPaths, parts: Sequence[PlacedPart], of: Any) -> Rows:
    return Rows(paths, [(placed.first, placed.part) for placed in parts], of)


def _column(paths: LibraryPaths, part: RowsFile, of: Any, name: str) -> Any:
    """Return a column, mapped into memory, of a file with a single record batch."""
    batches = [batch for _, batch in Rows(paths, [(0, part)], of).batches()]
    return column(batches[0], name)
