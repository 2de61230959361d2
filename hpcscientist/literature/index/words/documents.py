"""What is indexed of a library's rows: made by the processes that read, where they are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from hpcscientist.literature.index.words import engine, fields
from hpcscientist.literature.library.files.parts import Positions
from hpcscientist.literature.library.processes.extraction import Ended
from hpcscientist.literature.library.processes.pool import Lost, Pool
from hpcscientist.literature.library.store import Store, open_store

PAPERS, FORMULAS, SYMBOLS = "papers", "formulas", "symbols"
_COLUMNS = {PAPERS: fields.OF_PAPER, FORMULAS: fields.OF_FORMULAS}
_AT_ONCE = 256  # rows that a process is given
_SHARES = 8  # that each process has at least, so that all end at about the same time
_WORTH_SENDING = 32  # fewer rows are indexed sooner than sent
_WORTH_STARTING = 4096  # the same where no process is running, which takes a second

Documents = list[engine.Document]


@dataclass(frozen=True, slots=True)
class Indexed:
    """The documents of some rows, and about how many bytes they are."""

    documents: Documents
    size: int


@dataclass(frozen=True, slots=True)
class Indexing:
    """The rows at some positions of a library of a fingerprint, to be made documents."""

    library: Path
    fingerprint: str
    name: str
    positions: Positions
    done: bool = False

    def outputs(self) -> Iterator[Indexed | Ended]:
        """Make them. Raises LibraryError."""
        if not self.done:
            made = documents(_opened(self.library, self.fingerprint), self.name, self.positions)
            yield Indexed(made, sum(sum(map(len, terms.values())) for *_, terms in made))
        yield Ended("")

    def after(self, batches: int) -> Indexing:
        """Return what is left when so many batches were given: there is one."""
        return replace(self, done=self.done or batches > 0)


def documents(store: Store, name: str, positions: Positions) -> Documents:
    """Return what is indexed of the rows at some positions."""
    if name == SYMBOLS:
        found = store.symbols(positions)
        return [(at, 0, row.symbol_id, fields.symbol_terms(row)) for at, row in found]
    rows = store.rows(positions, _COLUMNS[name])
    if name == PAPERS:
        return [(at, 0, row["paper_id"], fields.paper_terms(row)) for at, row in rows]
    return [
        (at, number, row["paper_id"], fields.formula_terms(formula, row["title"]))
        for at, row in rows
        for number, formula in enumerate(row["formulas"], start=1)
    ]


def in_parts(
    store: Store, name: str, positions: Positions, pool: Pool | None
) -> Iterator[tuple[int, Documents]]:
    """Yield the same in parts, in order, each with the number of its positions."""
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
        elif isinstance(output, Lost) and not given:  # whatever it was: here it is told
            yield len(work.positions), documents(store, name, work.positions)
        else:
            given = False


def _parted(positions: Positions, count: int) -> Iterable[Positions]:
    return (positions[start : start + count] for start in range(0, len(positions), count))


@lru_cache(maxsize=1)
def _opened(library: Path, fingerprint: str) -> Any:
    """Return a library that stays open; another one once it has another `fingerprint`."""
    return open_store(library)
