"""What the trials of a campaign measured and cost: the numbers that findings are made of.

Judging them is in `feedback`; how files are read is in `scan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.outcome import LARGEST
from hpcscientist.records.trial import Split, Stage
from hpcscientist.results.scan import Measurements, scan

SEED_STAGES = (Stage.BASELINE, Stage.SEEDS)
CONFIRM_STAGES = (Stage.BASELINE, Stage.CONFIRM)

_SCORE_COLUMNS = ("idea", "attempt", "stage", "seed", "split", "metric", "value", "status")
_COST_COLUMNS = ("idea", "cpu_s", "gpu_s")
_SECONDS_AN_HOUR = 3600.0

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
class Cost:
    """What all trials of an idea used, failed ones included."""

    cpu_hours: float
    gpu_hours: float
    trials: int


@dataclass(frozen=True, slots=True)
class Overview:
    """All that `hpcsci results` needs, from one pass over the files.

    `validation` holds stages baseline and seeds, `test` stages baseline and confirm.
    `unreadable` counts files that were left out because they are broken.
    """

    validation: Scores
    test: Scores
    costs: Mapping[str, Cost]
    unreadable: int


def read(paths: RunPaths, columns: Sequence[str]) -> Measurements:
    """Read the named columns of every row, compacted or not, each row once."""
    found = scan(paths, columns)
    return Measurements(found.table.select(list(columns)), found.unreadable)


def scores(
    paths: RunPaths,
    metric: str,
    split: Split = Split.VALIDATION,
    stages: Sequence[Stage] = SEED_STAGES,
) -> Scores:
    """Return a metric's values on one split over trials of the given stages.

    Where several trials scored the same seed of one attempt, the later of `stages` stands,
    then the higher run, then the later trial id: never the order in which files are
    listed. Values that are not finite, or beyond any metric, are left out: they were not
    measured.
    """
    where = (ds.field("metric") == metric) & (ds.field("split") == split.value)
    found = scan(paths, _SCORE_COLUMNS, where)
    return _scores_of(found, metric, split, stages)


def costs(paths: RunPaths) -> dict[str, Cost]:
    """Return what each idea's trials used, by idea id."""
    return _costs_of(scan(paths, _COST_COLUMNS, ds.field("position") == 0))


def overview(paths: RunPaths, metric: str) -> Overview:
    """Return a metric's values on both splits and the costs, reading the files once."""
    where = (ds.field("metric") == metric) | (ds.field("position") == 0)
    found = scan(paths, (*_SCORE_COLUMNS, *_COST_COLUMNS), where)
    return Overview(
        validation=_scores_of(found, metric, Split.VALIDATION, SEED_STAGES),
        test=_scores_of(found, metric, Split.TEST, CONFIRM_STAGES),
        costs=_costs_of(found),
        unreadable=found.unreadable,
    )


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
        values.setdefault((idea, attempt), {})[seed] = value  # the last of the order stands
    return Scores(values, found.unreadable)


def _costs_of(found: Measurements) -> dict[str, Cost]:
    # A trial's usage is in each of its rows; its first row stands for the trial.
    trials = found.table.filter(pc.field("position") == 0)
    sums = trials.group_by("idea").aggregate(
        [("cpu_s", "sum"), ("gpu_s", "sum"), ("idea", "count")]
    )
    return {
        idea: Cost((cpu or 0.0) / _SECONDS_AN_HOUR, (gpu or 0.0) / _SECONDS_AN_HOUR, count)
        for idea, cpu, gpu, count in sorted(
            _rows(sums, "idea", "cpu_s_sum", "gpu_s_sum", "idea_count")
        )
    }


def _rows(table: Any, *columns: str) -> Any:
    return zip(*(table[name].to_pylist() for name in columns), strict=True)
