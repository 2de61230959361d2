"""Writing the compacted files: numbered, whole or absent, durable before anything is removed."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from hpcscientist.files.atomic import sync_folder
from hpcscientist.results.schema import SCHEMA

# Small row groups: a reader that wants one metric skips the others by their statistics.
ROW_GROUP: Final = 16_384

Key = tuple[str, int]
"""A trial's id and its run."""


def write_part(folder: Path, kind: str, schema: Any, tables: Iterable[Any]) -> Path | None:
    """Write tables to the next file KIND-NUMBER.parquet of the folder and return it.

    None, and no file, if the tables hold no row. Raises OSError (ENOSPC on a full disk)
    and then leaves nothing behind.
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
    """Remove what a writer that was killed left behind. There is one writer a campaign."""
    for file in folder.glob(".*.parquet.tmp"):
        file.unlink(missing_ok=True)


def keys_in(files: Sequence[Path], trials: Collection[str]) -> set[Key]:
    """Return (trial, run) of the rows that compacted files hold of some trials.

    Unreadable files hold none. Row groups that by their statistics hold no such trial are not
    read, so that a compaction costs no more for what was compacted before it.
    """
    if not trials:
        return set()
    wanted = ds.field("trial").isin(sorted(trials))
    keys: set[Key] = set()
    for file in files:
        try:
            # As plain strings: each row group has a dictionary of its own, and Arrow groups or
            # joins by none that differs between them.
            table = pq.read_table(file, columns=["trial", "run"], filters=wanted)
        except (pa.ArrowException, OSError):
            continue
        keys.update(zip(table["trial"].to_pylist(), table["run"].to_pylist(), strict=True))
    return keys


def arranged(table: Any) -> Any:
    """Return result rows sorted so that those of one metric lie together."""
    order = [(name, "ascending") for name in ("position", "metric", "trial", "run")]
    return table.sort_by(order)


def _dictionaries(schema: Any) -> list[str]:
    """Return the columns that repeat: all strings; log texts and numbers do not."""
    if schema is not SCHEMA:
        return ["trial"]
    strings = [field.name for field in schema if pa.types.is_string(field.type)]
    return [*strings, "parent.list.element"]


def _next_number(folder: Path, kind: str) -> int:
    numbers = (re.fullmatch(r".*-(\d+)", file.stem) for file in folder.glob(f"{kind}-*.parquet"))
    return max((int(match[1]) for match in numbers if match), default=0) + 1
