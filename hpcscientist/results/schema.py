"""The result schema: every column of a result file, declared once, with a version.

One row is one measurement: a trial's value of one metric. A trial without a score has one row
without metric and value. Times are seconds since the epoch, durations seconds. Files are read and
written in `store`, `scan` and `compact`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from hpcscientist.errors import RunDirectoryError
from hpcscientist.records.trial import EARLIER_SEEDS, Stage

VERSION = 3
VERSION_KEY = b"hpcscientist.result_schema"

# Name, type, description. Append a new column at the end and increment VERSION.
_COLUMNS: tuple[tuple[str, Any, str], ...] = (
    ("schema_version", pa.int16(), "version of this schema the row was written with"),
    ("campaign", pa.string(), "campaign id"),
    ("idea", pa.string(), "idea id; `baseline` for the reference code"),
    ("attempt", pa.int64(), "version of the idea's code, from 1"),
    ("trial", pa.string(), "trial id"),
    ("run", pa.int64(), "rerun after a machine failure, from 1"),
    ("position", pa.int64(), "place of the metric among the trial's, from 0; 0 once a trial"),
    ("parent", pa.list_(pa.string()), "ids of the ideas this one comes from"),
    ("round", pa.int64(), "round of the campaign"),
    ("stage", pa.string(), "baseline, pilot, step, seeds or confirm"),
    ("seed", pa.int64(), "the candidate's seed"),
    ("split", pa.string(), "validation or test"),
    ("budget", pa.string(), "pilot, full, or a step of the recipe between them"),
    ("isolation", pa.string(), "what kept the candidate apart: apptainer or none"),
    ("metric", pa.string(), "name of the metric; null where nothing was measured"),
    ("value", pa.float64(), "the measured number; null where nothing was measured"),
    ("direction", pa.string(), "maximize or minimize; null for a metric the recipe lacks"),
    ("self_reported", pa.bool_(), "whether the candidate, not the scorer, gave the value"),
    ("status", pa.string(), "scored, idea_failed or machine_failed"),
    ("failure", pa.string(), "kind of failure"),
    ("detail", pa.string(), "the failure in one line"),
    ("slurm_job", pa.string(), "Slurm job and array element"),
    ("slurm_state", pa.string(), "state that Slurm gave the job"),
    ("node", pa.string(), "host the trial ran on"),
    ("queued_at", pa.float64(), "when the trial was queued"),
    ("started_at", pa.float64(), "when it left the queue"),
    ("ended_at", pa.float64(), "when it ended"),
    ("cpu_s", pa.float64(), "CPU seconds of the whole process tree; of the trial, not the row"),
    ("gpu_s", pa.float64(), "GPU seconds; of the trial, not the row"),
    ("peak_mb", pa.float64(), "peak memory of the process tree, MiB"),
    ("code_hash", pa.string(), "hash of the attempt's code"),
    ("recipe_hash", pa.string(), "hash of the recipe"),
    ("data_hash", pa.string(), "hash of the prepared data"),
    ("image_hash", pa.string(), "hash of the container image, if any"),
    ("predictions_hash", pa.string(), "hash of the scored predictions"),
    ("package_version", pa.string(), "version of hpcscientist that ran it"),
    ("model", pa.string(), "model that wrote the code"),
    ("tokens", pa.int64(), "model tokens spent on the idea when the trial was queued"),
    (
        "package_hash",
        pa.string(),
        "hash of the driver's package; null if another version ran it, and before version 2",
    ),
)

SCHEMA: Any = pa.schema(
    [pa.field(name, type_, metadata={"description": text}) for name, type_, text in _COLUMNS],
    metadata={VERSION_KEY: str(VERSION).encode()},
)

# The columns that identify a row: a trial may appear twice, loose and compacted.
KEY = ("trial", "run", "position")


def version_of(schema: Any) -> int | None:
    """Return the version in a schema's metadata; None if it is not a result schema."""
    value = (schema.metadata or {}).get(VERSION_KEY, b"")
    return int(value) if value.isdigit() else None


def refuse_newer(version: int | None, where: Path) -> None:
    """Raise RunDirectoryError if the version is newer than this package can read."""
    if version is not None and version > VERSION:
        raise RunDirectoryError(
            f"{where}: written with result schema {version}, this hpcscientist reads up to "
            f"{VERSION}: upgrade hpcscientist"
        )


def conform(table: Any) -> Any:
    """Return a table in the current schema, with nulls in columns that an older version lacked.

    Also renames stages of older versions. Raises ArrowInvalid or ArrowNotImplementedError if a
    column cannot be converted.
    """
    have = set(table.schema.names)
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in have
        else pa.nulls(table.num_rows, field.type)
        for field in SCHEMA
    ]
    table = pa.table(columns, schema=SCHEMA)
    place = SCHEMA.get_field_index("stage")
    words = table.column(place).to_pylist()  # workers lack Arrow's functions
    if EARLIER_SEEDS not in words:
        return table
    today = [Stage.SEEDS.value if word == EARLIER_SEEDS else word for word in words]
    return table.set_column(place, SCHEMA.field(place), pa.array(today, pa.string()))
