"""Reads a trial's specification, log and progress, whether it is compacted or not.

They are in the trial's folder until it is compacted, then in results/logs-*.parquet, by trial and
run.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hpcscientist.errors import RunDirectoryError
from hpcscientist.files.handed import open_regular, read_regular
from hpcscientist.files.rundir import RunPaths, TrialPaths
from hpcscientist.results.scan import regular_files

LOGS_GLOB = "logs-*.parquet"

_FILES: tuple[str, ...] = ("spec", "log", "worker", "progress")
LOG_SCHEMA: Any = pa.schema(
    [("trial", pa.string()), ("run", pa.int64()), *((name, pa.large_binary()) for name in _FILES)]
)

# The candidate's code writes this file, so its size is limited and links are not followed.
_PROGRESS = "progress.jsonl"
_MOST_PROGRESS = 1 << 20


def read(paths: RunPaths, trial_id: str) -> str:
    """Return a trial's log, compacted or not; "" if it wrote none.

    Raises RunDirectoryError if the trial does not exist or its log is unreadable.
    """
    trial = paths.trial(Path(trial_id).name)
    for _ in range(2):  # compaction may move the folder between the two looks
        if trial.spec.exists() or trial.result.exists():
            data = _loose(trial, "log")
            if data is not None or trial.root.exists():
                return (data or b"").decode("utf-8", "replace")
        rows = _compacted(regular_files(log_files(paths)), trial_id)
        if rows:
            return (rows[-1][1] or b"").decode("utf-8", "replace")
    raise RunDirectoryError(
        f"{paths.root}: no trial {trial_id!r}; they are named by idea, attempt, stage and number, "
        "such as idea-0001-a1-pilot-0, in journal.jsonl and in the progress of a campaign"
    )


def tails(paths: RunPaths, trials: Collection[str], size: int) -> dict[str, str]:
    """Return the last `size` bytes of each trial's log, compacted or not.

    Compacted files are read once for all trials. Trials without a readable log are left out.
    """
    found: dict[str, str] = {}
    for trial_id in trials:
        with (
            contextlib.suppress(OSError),
            open_regular(paths.trial(Path(trial_id).name).log, follow=False) as log,
        ):
            log.seek(max(0, os.fstat(log.fileno()).st_size - size))
            found[trial_id] = log.read(size).decode("utf-8", "replace")
    lacking = pa.array(sorted(set(trials) - {i for i, text in found.items() if text}), pa.string())
    if not len(lacking):
        return found
    for file in regular_files(log_files(paths)):
        with contextlib.suppress(pa.ArrowException, OSError):
            rows = pq.read_table(
                file, columns=["trial", "log"], filters=pc.field("trial").isin(lacking)
            )
            for trial_id, whole in zip(rows["trial"].to_pylist(), rows["log"], strict=True):
                found[trial_id] = (whole.as_py() or b"")[-size:].decode("utf-8", "replace")
    return found


def progress(paths: RunPaths, trial_id: str, run: int) -> str:
    """Return the end of a trial's progress.jsonl, compacted or not.

    Return "" if there is none or it is unreadable. The candidate's code writes it: do not trust it.
    """
    for _ in range(2):  # compaction may move the folder between the two looks
        trial = paths.trial(Path(trial_id).name)
        if trial.root.exists():
            return (_loose(trial, "progress") or b"").decode("utf-8", "replace")
        for number, data in _compacted(regular_files(log_files(paths)), trial_id, "progress"):
            if number == run:
                return (data or b"").decode("utf-8", "replace")
    return ""


def collect(trial: TrialPaths, trial_id: str, run: int) -> dict[str, Any]:
    """Return the row of LOG_SCHEMA for a trial's folder."""
    row: dict[str, Any] = {"trial": trial_id, "run": run}
    return row | {name: _loose(trial, name) for name in _FILES}


def log_files(paths: RunPaths) -> list[Path]:
    """Return the compacted log files, oldest first."""
    return sorted(paths.results.glob(LOGS_GLOB))


def _compacted(
    files: list[Path], trial_id: str, column: str = "log"
) -> list[tuple[int, bytes | None]]:
    """Return (run, value of `column`) of a trial's rows, by run; broken files are skipped."""
    rows: list[tuple[int, bytes | None]] = []
    for file in files:
        try:
            found = pq.read_table(
                file, columns=["run", column], filters=pc.field("trial") == trial_id
            )
        except (pa.ArrowException, OSError):
            continue
        rows += zip(found["run"].to_pylist(), found[column].to_pylist(), strict=True)
    return sorted(rows, key=lambda row: row[0])


def _loose(trial: TrialPaths, name: str) -> bytes | None:
    if name == "progress":
        return _untrusted(trial.out / _PROGRESS)
    path = {"spec": trial.spec, "log": trial.log, "worker": trial.worker}[name]
    try:
        return read_regular(path)
    except OSError:
        return None


def _untrusted(path: Path) -> bytes | None:
    """Return the end of a regular file; None for a link, a pipe or a missing file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        file.seek(max(0, status.st_size - _MOST_PROGRESS))
        return file.read(_MOST_PROGRESS)
