"""Ends a build: lists the rows that count, replaces library.json, and removes unused files."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hpcscientist import __version__
from hpcscientist.literature.library import ledger as ledgers
from hpcscientist.literature.library import parts, schema
from hpcscientist.literature.library.ledger import Commit, LibraryLedger, RowsFile
from hpcscientist.literature.library.parts import (
    LibraryContents,
    PlacedPart,
    Positions,
    Rows,
    as_column,
    column,
    lengths,
    write_part,
)
from hpcscientist.literature.library.paths import LibraryPaths, write_file
from hpcscientist.literature.library.sameness import ShownPapers, paper_rows
from hpcscientist.literature.sources.base import Trouble

SHOWN: Any = pa.schema([("position", pa.int64())], metadata=schema.PAPERS.metadata)
IDS: Any = pa.schema(
    [("key", pa.uint64()), ("position", pa.int64())], metadata=schema.PAPERS.metadata
)


def publish(
    paths: LibraryPaths, ledger: LibraryLedger, papers: ShownPapers, before: LibraryContents | None
) -> LibraryContents:
    """Write a new edition of the library, and remove files that need not be kept.

    Processes that have an earlier edition open can read it for some time; see
    `literature.library.parts`.
    """
    alive = {entry.reading for entry in ledger.entries.values()}
    symbols = _alive_symbols(paths, ledger, alive)
    ledger.commits = [c for c in ledger.commits if _needed(c, alive, papers.shown)]
    told = list(ledgers.troubles(paths, ledger))
    ledger.edition += 1
    number = f"{ledger.edition:06d}"
    contents = LibraryContents(
        edition=ledger.edition,
        papers=len(papers.shown),
        symbols=len(symbols),
        formulas=_count_formulas(paths, ledger, papers.shown),
        sources=len(ledger.entries),
        fingerprint="",
        paper_parts=_placed((c.first_paper, c.papers) for c in ledger.commits),
        symbol_parts=_placed((c.first_symbol, c.symbols) for c in ledger.commits),
        shown_papers=_write(paths, f"papers/shown-{number}.arrow", SHOWN, papers.shown),
        shown_symbols=_write(paths, f"symbols/shown-{number}.arrow", SHOWN, symbols),
        ids=_write(paths, f"papers/ids-{number}.arrow", IDS, papers.ids, papers.id_positions),
        built_with=__version__,
    )
    contents = contents.model_copy(update={"fingerprint": _fingerprint(contents)})
    lines = ledgers.encode_manifest(ledger, told)
    write_file(paths.manifest(ledger.edition), ("\n".join(lines) + "\n").encode())
    if before is not None:
        parts.retire(paths, (part.file for part in before.files()))
    write_file(paths.contents, (contents.model_dump_json(indent=1) + "\n").encode())
    ledger.published = ledger.last_commit
    sweep(paths, ledger, contents)
    return contents


def write_skipped(
    paths: LibraryPaths, ledger: LibraryLedger, others: Sequence[Trouble]
) -> dict[str, int]:
    """Write skipped.jsonl: what was not read, or only partly. Return the count of each reason."""
    counts: dict[str, int] = {}
    lines = []
    for origin, reason in (
        *((t.origin, t.reason) for t in others),
        *((origin, reason) for _, origin, reason in ledgers.troubles(paths, ledger)),
    ):
        counts[reason] = counts.get(reason, 0) + 1
        lines.append(json.dumps({"origin": origin, "reason": reason}))
    write_file(paths.skipped, "".join(line + "\n" for line in lines).encode())
    return counts


def sweep(paths: LibraryPaths, ledger: LibraryLedger, current: LibraryContents | None) -> None:
    """Remove files that are neither in use now nor kept for readers of replaced editions.

    Raises LibraryError.
    """
    kept = parts.kept(paths)
    kept |= {part.file for part in current.files()} if current else set()
    kept |= {part.file for part in ledger.parts()}
    kept |= {f"sources/{paths.manifest(ledger.edition).name}", "sources/format.json"}
    since = range(ledger.published + 1, ledger.last_commit + 1)
    kept |= {f"sources/{paths.commit(number).name}" for number in since}
    for folder in (paths.papers, paths.symbols, paths.sources):
        for file in folder.iterdir():
            if f"{folder.name}/{file.name}" not in kept:
                _remove(file)
    for path in (paths.contents, paths.skipped):
        for file in paths.root.glob(f".{path.name}.*.tmp"):
            _remove(file)


def _remove(file: Path) -> None:
    with contextlib.suppress(OSError):  # the next build tries again
        file.unlink()


def _needed(commit: Commit, alive: set[int], shown: Positions) -> bool:
    """Return whether a commit has a row that counts, or one from which such a row is merged."""
    if not commit.merged:
        return not alive.isdisjoint(commit.readings)
    assert commit.papers is not None
    first = int(np.searchsorted(shown, commit.first_paper))
    return first < len(shown) and int(shown[first]) < commit.first_paper + commit.papers.rows


def _alive_symbols(paths: LibraryPaths, ledger: LibraryLedger, alive: set[int]) -> Positions:
    parts = [(c.first_symbol, c.symbols) for c in ledger.commits if c.symbols is not None]
    wanted = np.array(sorted(alive), dtype=np.int64)
    found = [np.empty(0, dtype=np.int64)]
    for first, batch in Rows(paths, parts, schema.SYMBOLS).batches():
        found.append(first + np.flatnonzero(np.isin(column(batch, "reading"), wanted)))
    return np.concatenate(found)


def _count_formulas(paths: LibraryPaths, ledger: LibraryLedger, shown: Positions) -> int:
    total = 0
    for first, batch in paper_rows(paths, ledger).batches():
        start, end = np.searchsorted(shown, [first, first + batch.num_rows])
        total += int(lengths(batch, "formulas")[shown[start:end] - first].sum())
    return total


def _placed(parts: Iterable[tuple[int, RowsFile | None]]) -> tuple[PlacedPart, ...]:
    return tuple(PlacedPart(first=first, part=part) for first, part in parts if part is not None)


def _write(paths: LibraryPaths, file: str, of: Any, *columns: Any) -> RowsFile:
    batch = pa.record_batch([as_column(c) for c in columns], schema=of)
    return write_part(paths, file, of, [batch.serialize().to_pybytes()])


def _fingerprint(contents: LibraryContents) -> str:
    """Return a hash over the hashes of all files with shown papers and symbols."""
    digest = hashlib.sha256(f"schema {schema.VERSION}\n".encode())
    for placed in (*contents.paper_parts, *contents.symbol_parts):
        digest.update(f"{placed.first} {placed.part.sha256}\n".encode())
    for part in (contents.shown_papers, contents.shown_symbols):
        digest.update(f"{part.sha256}\n".encode())
    return digest.hexdigest()
