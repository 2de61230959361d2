"""The rows of some trials, every column, and whether their files are what workers wrote."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow.dataset as ds

from hpcscientist.files import vault
from hpcscientist.files.rundir import RunPaths
from hpcscientist.results.scan import scan
from hpcscientist.results.schema import SCHEMA
from hpcscientist.results.store import is_sealed

Row = dict[str, Any]


def rows_of(paths: RunPaths, trials: Collection[str]) -> dict[str, list[Row]]:
    """Return the rows by trial, loose and compacted ones; of a trial that ran again all runs.

    Raises RunDirectoryError for a file of a newer schema.
    """
    found = scan(paths, SCHEMA.names, ds.field("trial").isin(sorted(trials)))
    rows: dict[str, list[Row]] = {}
    for row in found.table.to_pylist():
        rows.setdefault(row["trial"], []).append(row)
    return rows


def unsealed(paths: RunPaths, campaign_id: str, trials: Collection[str]) -> list[str]:
    """Return the trials whose own result file no worker of the campaign wrote.

    None where the campaign's key is not on this machine: nothing can be said then. Compacted
    results bear no seals.
    """
    if vault.campaign_key(campaign_id) is None:
        return []
    loose = (trial for trial in sorted(trials) if paths.trial(trial).result.exists())
    return [trial for trial in loose if not is_sealed(paths.trial(trial), campaign_id)]
