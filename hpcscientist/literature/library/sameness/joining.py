"""Making one row of the rows that are the same paper; committed part by part, as reading is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hpcscientist.literature.library.files import schema
from hpcscientist.literature.library.files.parts import Positions, Rows, distinct, write_part
from hpcscientist.literature.library.files.paths import LibraryPaths, write_file
from hpcscientist.literature.library.indexing import Progress, Step
from hpcscientist.literature.library.ledger import Commit, Ledger, encode_commit
from hpcscientist.literature.library.sameness import duplicates
from hpcscientist.literature.library.sameness.merge import merged

PART_ROWS = 8192
PART_BYTES = 16 << 20
_BATCH_ROWS = 256


@dataclass(frozen=True, slots=True)
class Papers:
    """The papers that a library shows: positions, ascending, and where each id leads.

    `ids` are hashes, ascending; `id_positions` has the position for each.
    """

    shown: Positions
    ids: npt.NDArray[np.uint64]
    id_positions: Positions


def paper_rows(paths: LibraryPaths, ledger: Ledger) -> Rows:
    """Return all rows of papers that were committed."""
    parts = [(c.first_paper, c.papers) for c in ledger.commits if c.papers is not None]
    return Rows(paths, parts, schema.PAPERS)


def join(
    paths: LibraryPaths, ledger: Ledger, check: Callable[[], None], progress: Progress
) -> Papers:
    """Find what is the same paper, write what was not made one yet, and return what counts.

    Raises DiskFull, LibraryError and what `check` raises.
    """
    rows = paper_rows(paths, ledger)
    alive = np.array([entry.reading for entry in ledger.entries.values()], dtype=np.int64)
    found = duplicates.look(rows, alive)
    labels = duplicates.groups(found, rows)
    members, hashes = duplicates.member_hashes(found, labels)
    there = {int(h): int(p) for h, p in zip(found.made_of, found.made, strict=True)}
    missing = [(m, int(h)) for m, h in zip(members, hashes, strict=True) if int(h) not in there]
    first = ledger.papers
    _write(paths, ledger, check, _rows_of([m for m, _ in missing], rows, progress))
    there |= {h: first + number for number, (_, h) in enumerate(missing)}
    position_of = np.where(found.fragments, -1, found.given)  # of each row's paper
    if members:
        numbers = np.searchsorted(found.given, np.concatenate(members))
        position_of[numbers] = np.repeat(
            np.array([there[int(h)] for h in hashes], dtype=np.int64), [len(m) for m in members]
        )
    ids, where = np.unique(found.id_keys, return_index=True)
    leads = position_of[found.id_rows[where]]
    shown = distinct(position_of)
    return Papers(shown[shown >= 0], ids[leads >= 0], leads[leads >= 0])


def _rows_of(
    members: Sequence[Positions], rows: Rows, progress: Progress
) -> Iterator[dict[str, Any]]:
    for number, positions in enumerate(members):
        progress(Step("joining", number, len(members), "papers", number))
        read = [rows.row(int(position)) for position in positions]
        papers = [schema.paper_of(row) for row in read if not row["fragment"]]
        paper = merged(papers, [row["abstract"] for row in read if row["fragment"]])
        yield schema.paper_row(paper, 0, [int(p) for p in positions])
    if members:
        progress(Step("joining", len(members), len(members), "papers", len(members)))


def _write(
    paths: LibraryPaths,
    ledger: Ledger,
    check: Callable[[], None],
    rows: Iterator[dict[str, Any]],
) -> None:
    batches: list[bytes] = []
    count = size = 0
    for batch in _batched(rows):
        data = schema.to_batch(batch, schema.PAPERS).serialize().to_pybytes()
        batches.append(data)
        count, size = count + len(batch), size + len(data)
        if count >= PART_ROWS or size >= PART_BYTES:
            _commit(paths, ledger, check, batches)
            batches, count, size = [], 0, 0
    if batches:
        _commit(paths, ledger, check, batches)


def _batched(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += schema.text_size(row)
        if len(batch) >= _BATCH_ROWS or size >= 1 << 20:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _commit(
    paths: LibraryPaths, ledger: Ledger, check: Callable[[], None], batches: Sequence[bytes]
) -> None:
    check()
    number = ledger.last_commit + 1
    commit = Commit(
        number=number,
        first_paper=ledger.papers,
        first_symbol=ledger.symbols,
        papers=write_part(paths, f"papers/part-{number:06d}.arrow", schema.PAPERS, batches),
        merged=True,
    )
    write_file(paths.commit(number), encode_commit(commit, (), ()))
    ledger.apply(commit, ())
