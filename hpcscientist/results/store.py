"""Writes and reads one trial's result file: the worker writes it once, the driver reads it.

The file's existence means that the trial has ended, so it appears whole or not at all. It carries a
signature made with the campaign's key: candidate code without a sandbox can write into another
trial's folder, but a file without a valid signature is no result. `scan` reads many files together;
it checks no signatures, because the journal records each trial's score.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa

from hpcscientist.errors import RunDirectoryError
from hpcscientist.files import vault
from hpcscientist.files.atomic import write_atomic
from hpcscientist.files.handed import read_regular
from hpcscientist.files.rundir import RunPaths, TrialPaths
from hpcscientist.records.base import bounded
from hpcscientist.records.trial import (
    EARLIER_SEEDS,
    IdeaFailed,
    IdeaFailure,
    MachineFailed,
    MachineFailure,
    Outcome,
    Scored,
    Stage,
    TrialReport,
    TrialSpec,
    Usage,
)

# The result schema: every column of a result file, declared once, with a version.
#
# One row is one measurement: a trial's value of one metric. A trial without a score has one row
# without metric and value. Times are seconds since the epoch, durations seconds. Files are read
# and written in `store`, `scan` and `compact`.


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


_SEAL = b"seal"


def write_result(paths: TrialPaths, spec: TrialSpec, report: TrialReport) -> None:
    """Write a trial's result file: temporary name, fsync, rename.

    Raises OSError (ENOSPC on a full disk), and then leaves no file behind.
    """
    write_atomic(paths.result, encode(spec, report))


def read_result(paths: TrialPaths, spec: TrialSpec | None = None) -> TrialReport | None:
    """Return the report of a run of a trial; without `spec`, of the run that spec.json asks for.

    Return None if there is no result, if the file is half-written or garbage, if its signature is
    not the campaign's, or if it belongs to another campaign, trial or run. Without a spec.json, any
    run counts. Raises RunDirectoryError for a file of a newer schema.
    """
    found = _sealed(paths)
    if found is None:
        return None
    report, campaign_id = found
    wanted = wanted_run(paths) if spec is None else (spec.trial_id, spec.run)
    # Results of a campaign without a key have no signature, so a file may name any campaign.
    is_ours = spec is None or campaign_id == spec.provenance.campaign_id
    return report if is_ours and wanted in (None, (report.trial_id, report.run)) else None


def is_sealed(paths: TrialPaths, campaign_id: str) -> bool:
    """Return whether a worker of the campaign wrote a trial's result file."""
    found = _sealed(paths)
    return found is not None and (found[0].trial_id, found[1]) == (paths.root.name, campaign_id)


def _sealed(paths: TrialPaths) -> tuple[TrialReport, str] | None:
    """Return a result file's report and campaign if its signature is valid, else None."""
    table, told = _read(paths.result)
    if table is None:
        return None
    try:
        report = _report_of(table)
    except (ValueError, LookupError):  # pydantic's ValidationError is a ValueError
        return None
    first = table.slice(0, 1).to_pylist()[0]
    seal = _seal(first["campaign"], first["code_hash"], report)
    return (report, first["campaign"]) if hmac.compare_digest(seal, told) else None


def wanted_run(paths: TrialPaths) -> tuple[str, int] | None:
    """Return the trial id and run that spec.json asks for; None without a spec.json.

    An unreadable spec.json asks for a run that does not exist: ("", 0).
    """
    try:
        spec = json.loads(read_regular(paths.spec))
        return str(spec["trial_id"]), int(spec.get("run", 1))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return "", 0


def encode(spec: TrialSpec, report: TrialReport) -> bytes:
    """Return the content of a result file."""
    sink = pa.BufferOutputStream()
    source = spec.provenance
    seal = _seal(source.campaign_id, source.code_hash, report)
    schema = SCHEMA.with_metadata({**SCHEMA.metadata, _SEAL: seal})
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_table(_table_of(spec, report).replace_schema_metadata(schema.metadata))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read_table(path: Path) -> Any | None:
    """Return one result file in the current schema; None if it is absent, broken or empty.

    Raises RunDirectoryError for a file of a newer schema.
    """
    return _read(path)[0]


def _read(path: Path) -> tuple[Any | None, bytes]:
    """Return a result file's table as `read_table` does, and the signature in the file."""
    try:
        # Not memory-mapped: the file may be replaced while the table is in use.
        with pa.ipc.open_file(pa.BufferReader(read_regular(path))) as reader:
            version = version_of(reader.schema)
            refuse_newer(version, path)
            if version is None:
                return None, b""
            seal: bytes = (reader.schema.metadata or {}).get(_SEAL, b"")
            table = conform(reader.read_all())
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError):
        return None, b""
    return (table, seal) if table.num_rows else (None, b"")


def _seal(campaign_id: str, code_hash: str, report: TrialReport) -> bytes:
    """Return a report's signature; b"" for a campaign without a key, such as a benchmark's."""
    text = f"{campaign_id}\n{code_hash}\n{report.model_dump_json()}"
    return vault.seal(campaign_id, text.encode()).encode()


def _table_of(spec: TrialSpec, report: TrialReport) -> Any:
    outcome, usage, source = report.outcome, report.usage, spec.provenance
    scored = isinstance(outcome, Scored) and bool(outcome.metrics)
    metrics = list(outcome.metrics.items()) if isinstance(outcome, Scored) and scored else []
    rows = max(1, len(metrics))
    directions = {m.name: m.direction.value for m in spec.metrics}
    same: dict[str, Any] = {
        "schema_version": VERSION,
        "campaign": source.campaign_id,
        "idea": spec.idea_id,
        "attempt": spec.attempt,
        "trial": report.trial_id,
        "run": report.run,
        "parent": list(spec.parent_ids),
        "round": spec.round,
        "stage": spec.stage.value,
        "seed": spec.seed,
        "split": spec.split.value,
        "budget": str(spec.budget),
        "isolation": spec.isolation.value,
        "self_reported": any(m.is_self_reported for m in spec.metrics) if scored else None,
        "status": outcome.kind,
        "failure": None if isinstance(outcome, Scored) else outcome.failure.value,
        "detail": None if isinstance(outcome, Scored) else outcome.detail,
        "queued_at": spec.queued_at,
        **usage.model_dump(),
        "code_hash": source.code_hash,
        "recipe_hash": source.recipe_hash,
        "data_hash": source.data_hash,
        "image_hash": source.image_hash,
        "predictions_hash": report.predictions_hash,
        "package_version": source.package_version,
        "model": source.model,
        "tokens": bounded(spec.tokens),  # earlier versions stored any number
        "package_hash": source.package_hash or None,
    }
    columns = {name: [value] * rows for name, value in same.items()}
    columns["position"] = list(range(rows))
    columns["metric"] = [name for name, _ in metrics] or [None]
    columns["value"] = [value for _, value in metrics] or [None]
    columns["direction"] = [directions.get(name) for name, _ in metrics] or [None]
    return pa.table(columns, schema=SCHEMA)


def _report_of(table: Any) -> TrialReport:
    first = table.slice(0, 1).to_pylist()[0]
    usage = {name: first[name] for name in Usage.model_fields}
    return TrialReport(
        trial_id=first["trial"],
        run=first["run"],
        outcome=_outcome_of(table, first),
        usage=Usage(**usage),
        predictions_hash=first["predictions_hash"],
    )


def _outcome_of(table: Any, first: dict[str, Any]) -> Outcome:
    kind = first["status"]
    if kind == "scored":
        names, values = table["metric"].to_pylist(), table["value"].to_pylist()
        return Scored(metrics={n: v for n, v in zip(names, values, strict=True) if n is not None})
    if kind == "idea_failed":
        return IdeaFailed(failure=IdeaFailure(first["failure"]), detail=first["detail"])
    if kind == "machine_failed":
        return MachineFailed(failure=MachineFailure(first["failure"]), detail=first["detail"])
    raise ValueError(f"unknown status {kind!r}")


def unsealed(paths: RunPaths, campaign_id: str, trials: Collection[str]) -> list[str]:
    """Return the trials with a result file that no worker of the campaign wrote.

    Return none if the campaign's key is not on this machine: signatures cannot be checked then.
    Compacted results have no signatures.
    """
    if vault.campaign_key(campaign_id) is None:
        return []
    loose = (trial for trial in sorted(trials) if paths.trial(trial).result.exists())
    return [trial for trial in loose if not is_sealed(paths.trial(trial), campaign_id)]
