"""Reads all result files of a campaign, loose and compacted, as one table.

Unreadable files are left out and counted. A trial that is both loose and compacted, because a
compaction is running or was interrupted, counts once. `schema` describes the rows, and `aggregate`
uses them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from hpcscientist.errors import RunDirectoryError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.trial import EARLIER_SEEDS, Scored, Split, Stage, TrialReport
from hpcscientist.results.store import KEY, SCHEMA, VERSION, refuse_newer, version_of

PART_GLOB = "part-*.parquet"
_LISTINGS = 10  # list again this often if a compaction moves files during a read


@dataclass(frozen=True, slots=True)
class Measurements:
    """Rows of the result schema, and the number of unreadable files."""

    table: Any
    unreadable: int


def scan(paths: RunPaths, columns: Sequence[str], where: Any | None = None) -> Measurements:
    """Read the given columns of the rows that match the filter `where` (a dataset expression).

    The columns that identify a row (trial, run, position, schema_version) are added. Only what is
    needed is read: columns by projection, row groups of compacted files by their statistics. Raises
    RunDirectoryError for a file of a newer schema.
    """
    wanted = list(dict.fromkeys([*KEY, *columns, "schema_version"]))
    # Keep rows of a newer schema, so that they are detected.
    newer = pc.field("schema_version") > VERSION
    condition = None if where is None else where | newer
    for _ in range(_LISTINGS):
        # List loose files first: a file that is compacted in between is then among the parts.
        loose, parts = loose_files(paths), part_files(paths)
        try:
            old, bad_parts = read_files(parts, "parquet", wanted, condition)
            new, bad_files = read_files(loose, "ipc", wanted, condition)
        except FileNotFoundError:
            continue
        # Each file is a chunk, and later steps are slow on thousands of chunks.
        table = pa.concat_tables([old, new]).combine_chunks()
        _refuse_newer_rows(table, paths)
        if len(parts) + bool(loose) > 1:
            table = distinct(table)
        return Measurements(_reworded(table), bad_parts + bad_files)
    raise RunDirectoryError(f"{paths.root}: result files keep moving while they are read; retry")


def loose_files(paths: RunPaths) -> list[Path]:
    """Return the result files of trials that are not compacted, sorted by trial id."""
    try:
        with os.scandir(paths.trials) as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [file for name in names if (file := paths.trial(name).result).exists()]


def part_files(paths: RunPaths) -> list[Path]:
    """Return the compacted result files, oldest first."""
    return sorted(paths.results.glob(PART_GLOB))


def regular_files(files: Sequence[Path]) -> list[Path]:
    """Return only the regular files: opening a pipe would block forever."""
    return [file for file in files if stat.S_ISREG(file.stat().st_mode)]


def distinct(table: Any) -> Any:
    """Return the table with only the first row of each key."""
    numbered = table.select(KEY).append_column("row", pa.array(range(table.num_rows), pa.int64()))
    first = numbered.group_by(KEY).aggregate([("row", "min")])["row_min"]
    if len(first) == table.num_rows:
        return table
    return table.take(first.take(pc.array_sort_indices(first.combine_chunks())))


def _reworded(table: Any) -> Any:
    """Return a table with renamed stages of older versions, as `conform` does for one file."""
    place = table.schema.get_field_index("stage")
    if place < 0:
        return table
    words = table.column(place)
    today = pc.if_else(pc.equal(words, EARLIER_SEEDS), Stage.SEEDS.value, words)
    return table.set_column(place, table.schema.field(place), today)


def read_files(
    files: Sequence[Path], form: str, columns: list[str], where: Any | None
) -> tuple[Any, int]:
    """Return the rows of all readable files, and the number of unreadable ones.

    Reading a dataset fails as a whole, so a bad file is found by bisection: one bad file among
    thousands costs a few more reads, none costs nothing.
    """
    regular = regular_files(files)
    if len(regular) < len(files):
        table, unreadable = read_files(regular, form, columns, where)
        return table, unreadable + len(files) - len(regular)
    if not files:
        return _empty(columns), 0
    import pyarrow.dataset as ds  # noqa: PLC0415 (imports pandas where there is one)

    try:
        data = ds.FileSystemDataset.from_paths(
            [str(file) for file in files],
            schema=SCHEMA,
            format=ds.ParquetFileFormat() if form == "parquet" else ds.IpcFileFormat(),
            filesystem=pa.fs.LocalFileSystem(),
        )
        return data.to_table(columns=columns, filter=where), 0
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        if len(files) == 1:
            _explain(files[0], form, error)
            return _empty(columns), 1
    middle = len(files) // 2
    first, bad = read_files(files[:middle], form, columns, where)
    second, more = read_files(files[middle:], form, columns, where)
    return pa.concat_tables([first, second]), bad + more


def _explain(file: Path, form: str, error: Exception) -> None:
    """Raise RunDirectoryError if the file has a newer schema or this user may not read it."""
    if isinstance(error, PermissionError):
        raise RunDirectoryError(f"{file}: not readable: {error.strerror}; check its owner")
    try:
        schema = pq.read_schema(file) if form == "parquet" else pa.ipc.open_file(file).schema
    except (pa.ArrowException, OSError):
        return
    refuse_newer(version_of(schema), file)


def _refuse_newer_rows(table: Any, paths: RunPaths) -> None:
    highest = pc.max(table["schema_version"]).as_py()
    refuse_newer(highest, paths.root)


def _empty(columns: list[str]) -> Any:
    return pa.schema([SCHEMA.field(name) for name in columns]).empty_table()


# Compares the result files with the journal: no trial's result is missing or changed.

_COLUMNS = (
    *("trial", "run", "idea", "attempt", "stage", "seed", "split"),
    *("status", "metric", "value", "predictions_hash"),
)


@dataclass(frozen=True, slots=True)
class JournalTrial:
    """An ended trial as recorded in the journal."""

    idea_id: str
    attempt: int
    stage: Stage
    seed: int
    report: TrialReport

    @property
    def rows(self) -> frozenset[tuple[Any, ...]]:
        """The rows of its result file, by `_COLUMNS`; numbers are strings because NaN != NaN."""
        outcome = self.report.outcome
        split = Split.TEST if self.stage is Stage.CONFIRM else Split.VALIDATION
        measured: list[tuple[str | None, float | None]] = [(None, None)]
        if isinstance(outcome, Scored) and outcome.metrics:
            measured = [*outcome.metrics.items()]
        head = (self.idea_id, self.attempt, self.stage.value, self.seed, split.value, outcome.kind)
        tail = self.report.predictions_hash
        return frozenset((*head, name, repr(value), tail) for name, value in measured)


@dataclass(frozen=True, slots=True)
class Disagreement:
    """`trials` lack a result file that agrees with the journal; `files` contradict it."""

    trials: tuple[str, ...]
    files: tuple[Path, ...]


def disagreement(paths: RunPaths, known: Mapping[str, JournalTrial]) -> Disagreement:
    """Compare all result files with the journal's trials.

    Raises RunDirectoryError for a file of a newer schema.
    """
    right = right_among(loose_files(paths), known)
    bad: list[Path] = []
    for file in part_files(paths):
        rows, unreadable = read_files([file], "parquet", list(_COLUMNS), None)
        found, wrong = _compared(rows.to_pylist(), known)
        if wrong or unreadable:
            bad.append(file)
        else:
            right |= found
    return Disagreement(tuple(trial for trial in known if trial not in right), tuple(bad))


def right_among(loose: Sequence[Path], known: Mapping[str, JournalTrial]) -> set[str]:
    """Return the trials whose own result files agree with the journal."""
    rows, _ = read_files(loose, "ipc", list(_COLUMNS), None)
    return _compared(rows.to_pylist(), known)[0]


def _compared(
    rows: Iterable[dict[str, Any]], known: Mapping[str, JournalTrial]
) -> tuple[set[str], set[str]]:
    """Return the trials whose rows are right, and those whose rows are wrong or unknown."""
    said: dict[tuple[str, int], set[tuple[Any, ...]]] = {}
    for row in rows:
        row["stage"] = Stage.SEEDS.value if row["stage"] == EARLIER_SEEDS else row["stage"]
        trial, run, *rest, value, tail = (row[name] for name in _COLUMNS)
        said.setdefault((trial, run), set()).add((*rest, repr(value), tail))
    right: set[str] = set()
    wrong: set[str] = set()
    for (trial, run), told in said.items():
        recorded = known.get(trial)
        if recorded is not None and run == recorded.report.run and told == recorded.rows:
            right.add(trial)
        elif recorded is None or run >= recorded.report.run:  # the machine lost earlier ones
            wrong.add(trial)
    return right, wrong


Row = dict[str, Any]


def rows_of(paths: RunPaths, trials: Collection[str]) -> dict[str, list[Row]]:
    """Return the rows by trial, loose and compacted, from all runs of a trial.

    Raises RunDirectoryError for a file of a newer schema.
    """
    found = scan(paths, SCHEMA.names, pc.field("trial").isin(sorted(trials)))
    rows: dict[str, list[Row]] = {}
    for row in found.table.to_pylist():
        rows.setdefault(row["trial"], []).append(row)
    return rows
