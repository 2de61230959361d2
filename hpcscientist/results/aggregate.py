"""Collects the values that the trials of a campaign measured, for findings.

`feedback` judges them; `scan` reads the files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.trial import LARGEST, Split, Stage
from hpcscientist.results.scan import Measurements, scan

SEED_STAGES = (Stage.BASELINE, Stage.SEEDS)
CONFIRM_STAGES = (Stage.BASELINE, Stage.CONFIRM)

_SCORE_COLUMNS = ("idea", "attempt", "stage", "seed", "split", "metric", "value", "status")

AttemptKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Scores:
    """One metric's values by (idea id, attempt), then by seed."""

    values: Mapping[AttemptKey, Mapping[int, float]]
    unreadable: int

    def of(self, idea_id: str, attempt: int) -> Mapping[int, float]:
        """Return the values by seed of one attempt of an idea; empty if none was scored."""
        return self.values.get((idea_id, attempt), {})


@dataclass(frozen=True, slots=True)
class Overview:
    """All values that `hpcsci results` needs, from one pass over the files.

    `validation` holds stages baseline and seeds, `test` stages baseline and confirm. `unreadable`
    counts broken files, which were left out.
    """

    validation: Scores
    test: Scores
    unreadable: int


def overview(paths: RunPaths, metric: str, runs: Mapping[str, int] | None = None) -> Overview:
    """Return a metric's values on both splits, reading the files once.

    `runs` maps each trial to the run that counts, since candidate code could add files of other
    runs. None: all runs count.

    If several trials scored the same seed of one attempt, the later stage wins, then the higher
    run, then the later trial id; the order of files never matters. Values that are not finite or
    exceed LARGEST are left out: they were not measured.
    """
    found = scan(paths, _SCORE_COLUMNS, pc.field("metric") == metric)
    if runs is not None:
        found = replace(found, table=_of_runs(found.table, runs))
    return Overview(
        validation=_scores_of(found, metric, Split.VALIDATION, SEED_STAGES),
        test=_scores_of(found, metric, Split.TEST, CONFIRM_STAGES),
        unreadable=found.unreadable,
    )


def _of_runs(table: Any, runs: Mapping[str, int]) -> Any:
    run = table["run"].cast(pa.string())
    wanted = pa.array([f"{trial} {number}" for trial, number in runs.items()], pa.string())
    return table.filter(pc.is_in(pc.binary_join_element_wise(table["trial"], run, " "), wanted))


def _scores_of(found: Measurements, metric: str, split: Split, stages: Sequence[Stage]) -> Scores:
    wanted = pa.array([stage.value for stage in stages], pa.string())
    field = pc.field
    table = found.table.filter(
        (field("metric") == metric)
        & (field("split") == split.value)
        & (field("status") == "scored")
        & pc.is_in(field("stage"), wanted)
        & pc.is_finite(field("value"))
        & (pc.abs(field("value")) <= LARGEST)
    )
    rank = pc.index_in(table["stage"], wanted)
    order = [(name, "ascending") for name in ("idea", "attempt", "seed", "rank", "run", "trial")]
    table = table.append_column("rank", rank).sort_by(order)
    values: dict[AttemptKey, dict[int, float]] = {}
    for idea, attempt, seed, value in _rows(table, "idea", "attempt", "seed", "value"):
        values.setdefault((idea, attempt), {})[seed] = value  # the last in this order wins
    return Scores(values, found.unreadable)


def _rows(table: Any, *columns: str) -> Any:
    return zip(*(table[name].to_pylist() for name in columns), strict=True)
