"""Compaction: turns the folders of ended trials into a few Parquet files, to use few inodes.

The order makes a crash harmless at any point: write measurements, then logs, then remove each
folder by one rename. Readers and the next compaction recognise duplicates by trial id and run.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hpcscientist.files.atomic import sync_folder
from hpcscientist.files.rundir import RunPaths, TrialPaths
from hpcscientist.results.logs import LOG_SCHEMA, collect, log_files
from hpcscientist.results.scan import loose_files, part_files, regular_files
from hpcscientist.results.store import (
    SCHEMA,
    conform,
    read_table,
    refuse_newer,
    version_of,
    wanted_run,
)

# Compacted files are numbered, whole or absent, and durable before anything is removed.

# Row groups are small so that a reader of one metric skips the others by their statistics.
ROW_GROUP: Final = 16_384

Key = tuple[str, int]
"""A trial's id and its run."""


def write_part(folder: Path, kind: str, schema: Any, tables: Iterable[Any]) -> Path | None:
    """Write tables to the folder's next file KIND-NUMBER.parquet; return it.

    Return None, and write no file, if the tables hold no row. Raises OSError (ENOSPC on a full
    disk), and then leaves no file behind.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{kind}-{_next_number(folder, kind):06d}.parquet"
    temporary = folder / f".{target.name}.tmp"
    rows = 0
    try:
        with temporary.open("wb") as file:
            with pq.ParquetWriter(
                file, schema, compression="zstd", use_dictionary=_dictionaries(schema)
            ) as writer:
                for table in tables:
                    if table.num_rows:
                        writer.write_table(table, row_group_size=ROW_GROUP)
                        rows += table.num_rows
            file.flush()
            os.fsync(file.fileno())
        if rows:
            temporary.rename(target)
            sync_folder(folder)
    finally:
        temporary.unlink(missing_ok=True)
    return target if rows else None


def clear_temporaries(folder: Path) -> None:
    """Remove files of a killed writer. A campaign has only one writer."""
    for file in folder.glob(".*.parquet.tmp"):
        file.unlink(missing_ok=True)


def keys_in(files: Sequence[Path], trials: Collection[str]) -> set[Key]:
    """Return the (trial, run) keys of the given trials in compacted files.

    Unreadable files count as empty. Row groups whose statistics exclude the trials are not read, so
    that the cost of a compaction does not grow with earlier ones.
    """
    if not trials:
        return set()
    wanted = pc.field("trial").isin(sorted(trials))
    keys: set[Key] = set()
    for file in files:
        try:
            # As plain strings: each row group has its own dictionary, and Arrow cannot group or
            # join by dictionaries that differ.
            table = pq.read_table(file, columns=["trial", "run"], filters=wanted)
        except (pa.ArrowException, OSError):
            continue
        keys.update(zip(table["trial"].to_pylist(), table["run"].to_pylist(), strict=True))
    return keys


def arranged(table: Any) -> Any:
    """Return result rows sorted so that rows of one metric are adjacent."""
    order = [(name, "ascending") for name in ("position", "metric", "trial", "run")]
    return table.sort_by(order)


def _dictionaries(schema: Any) -> list[str]:
    """Return the columns with repeated values: all strings, but no log texts or numbers."""
    if schema is not SCHEMA:
        return ["trial"]
    strings = [field.name for field in schema if pa.types.is_string(field.type)]
    return [*strings, "parent.list.element"]


def _next_number(folder: Path, kind: str) -> int:
    numbers = (re.fullmatch(r".*-(\d+)", file.stem) for file in folder.glob(f"{kind}-*.parquet"))
    return max((int(match[1]) for match in numbers if match), default=0) + 1


MANY_PARTS: Final = 64
_ROWS_AT_ONCE: Final = 100_000  # bounds memory: about 0.7 KiB per row
_BYTES_AT_ONCE: Final = 32 << 20  # likewise: a trial's log and progress may take 1.5 MiB
_SMALL_BYTES: Final = 32 << 20
_LOGS_AT_ONCE: Final = 128
_TABLES_AT_ONCE: Final = 32  # a result file's table takes 60 KiB until it is merged with others
_REMOVED: Final = ".removed-"


def compact(paths: RunPaths, only: Collection[str] | None = None) -> int:
    """Move ended trials from their folders into results/*.parquet; return how many.

    `only` names the trials to move. Without it, all trials with a result are moved, except machine
    failures: the driver may be about to rerun them in the same folder. Only the campaign's driver
    may call this. Raises OSError (ENOSPC on a full disk), with every trial still in its folder or
    in the compacted files; RunDirectoryError for files of a newer schema.
    """
    if paths.results.is_dir():
        clear_temporaries(paths.results)
    for folder in paths.trials.glob(f"{_REMOVED}*"):
        _remove_tree(folder)
    loose = [f for f in loose_files(paths) if only is None or f.parent.name in only]
    names = [file.parent.name for file in loose]
    ended: dict[Key, TrialPaths] = {}
    known = keys_in(regular_files(part_files(paths)), names)
    fresh = (table for key, table in _tables(loose, only, ended) if key not in known)
    write_part(paths.results, "part", SCHEMA, map(arranged, _grouped(fresh)))
    logged = keys_in(regular_files(log_files(paths)), names)
    unlogged = [(key, trial) for key, trial in ended.items() if key not in logged]
    write_part(paths.results, "logs", LOG_SCHEMA, _log_tables(unlogged))
    for trial in ended.values():
        _take_away(trial.root)
    _merge(regular_files(part_files(paths)), "part", SCHEMA, arranged)
    _merge(regular_files(log_files(paths)), "logs", LOG_SCHEMA, lambda table: table)
    pa.default_memory_pool().release_unused()  # the driver runs on for days
    return len(ended)


def _tables(
    files: Sequence[Path], only: Collection[str] | None, ended: dict[Key, TrialPaths]
) -> Iterator[tuple[Key, Any]]:
    """Yield the result of each trial to move, and add the trial to `ended`."""
    for file in files:
        trial = TrialPaths(file.parent)
        table = read_table(file)
        if table is None:
            continue
        key = (table["trial"][0].as_py(), table["run"][0].as_py())
        if wanted_run(trial) not in (None, key):
            continue
        if only is None and table["status"][0].as_py() == "machine_failed":
            continue
        ended[key] = trial
        yield key, table


def _grouped(tables: Iterator[Any]) -> Iterator[Any]:
    """Yield the tables merged into larger ones of bounded rows and bytes.

    Small tables are copied together every `_TABLES_AT_ONCE`: each keeps its whole file in memory, a
    hundred times the size of its rows.
    """
    group: list[Any] = []
    few: list[Any] = []
    rows = size = 0
    for table in tables:
        few.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
        full = rows >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE
        if full or len(few) >= _TABLES_AT_ONCE:
            group.append(pa.concat_tables(few).combine_chunks())
            few = []
        if full:
            yield pa.concat_tables(group)
            group, rows, size = [], 0, 0
    group += few
    if group:
        yield pa.concat_tables(group)


def _log_tables(trials: Sequence[tuple[Key, TrialPaths]]) -> Iterator[Any]:
    rows: list[dict[str, Any]] = []
    size = 0
    for key, trial in trials:
        rows.append(collect(trial, *key))
        size += sum(len(text) for text in rows[-1].values() if isinstance(text, bytes))
        if len(rows) >= _LOGS_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield pa.Table.from_pylist(rows, schema=LOG_SCHEMA)
            rows, size = [], 0
    if rows:
        yield pa.Table.from_pylist(rows, schema=LOG_SCHEMA)


def _merge(files: list[Path], kind: str, schema: Any, arrange: Callable[[Any], Any]) -> None:
    """Merge the small files of one kind into one if there are many."""
    small = [file for file in files if _is_small(file)]
    if len(small) <= MANY_PARTS:
        return
    merged: list[Path] = []
    tables = _grouped(_merged_tables(small, schema, merged))
    write_part(small[0].parent, kind, schema, map(arrange, tables))
    for file in merged:
        file.unlink()


def _merged_tables(files: list[Path], schema: Any, merged: list[Path]) -> Iterator[Any]:
    """Yield the rows of the files, each trial once; add fully read files to `merged`.

    A file that is only partly readable stays, beside a copy of its readable rows.
    """
    seen: set[Key] = set()
    for file in files:
        known: set[Key] = set()  # per file: a trial may have several rows
        try:
            for table in _row_groups(file, schema):
                keys = list(zip(table["trial"].to_pylist(), table["run"].to_pylist(), strict=True))
                known.update(keys)
                fresh = [key not in seen for key in keys]
                yield table if all(fresh) else table.filter(pa.array(fresh))
        except (pa.ArrowException, OSError):
            continue
        seen |= known
        merged.append(file)


def _row_groups(file: Path, schema: Any) -> Iterator[Any]:
    """Yield a file's rows in the current schema, one row group at a time."""
    with pq.ParquetFile(file) as opened:
        refuse_newer(version_of(opened.schema_arrow), file)
        for number in range(opened.num_row_groups):
            table = opened.read_row_group(number)
            yield conform(table) if schema is SCHEMA else table.cast(schema)


def _is_small(file: Path) -> bool:
    """Return whether a file is readable and small."""
    try:
        return file.stat().st_size < _SMALL_BYTES and (
            pq.read_metadata(file).num_rows < _ROWS_AT_ONCE
        )
    except (pa.ArrowException, OSError):
        return False


def _take_away(folder: Path) -> None:
    """Remove a trial's folder: one rename hides it from readers, then it is deleted."""
    number, tombstone = 0, folder.with_name(f"{_REMOVED}{folder.name}")
    while tombstone.exists():
        number += 1
        tombstone = folder.with_name(f"{_REMOVED}{folder.name}-{number}")
    folder.rename(tombstone)
    _remove_tree(tombstone)


def _remove_tree(folder: Path) -> None:
    """Delete a folder. The next compaction retries what cannot be deleted now."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():  # the candidate's code may have left folders without write permission
        for place, folders, _ in os.walk(folder):
            for name in folders:
                with contextlib.suppress(OSError):
                    Path(place, name).chmod(0o700, follow_symlinks=False)
        shutil.rmtree(folder, ignore_errors=True)
