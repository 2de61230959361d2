"""Whether the result files say what the journal says of each trial: none gone, none changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.outcome import Scored
from hpcscientist.records.trial import EARLIER_SEEDS, Split, Stage, TrialReport
from hpcscientist.results.scan import loose_files, part_files, read_files

_COLUMNS = (
    *("trial", "run", "idea", "attempt", "stage", "seed", "split"),
    *("status", "metric", "value", "predictions_hash"),
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """An ended trial as the journal has it."""

    idea_id: str
    attempt: int
    stage: Stage
    seed: int
    report: TrialReport

    @property
    def rows(self) -> frozenset[tuple[Any, ...]]:
        """The rows of its result file, by `_COLUMNS`; numbers as texts, for NaN is not itself."""
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
    """`trials` have no result file that says what the journal says; `files` say otherwise."""

    trials: tuple[str, ...]
    files: tuple[Path, ...]


def disagreement(paths: RunPaths, known: Mapping[str, Recorded]) -> Disagreement:
    """Hold all result files against the journal's trials.

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


def right_among(loose: Sequence[Path], known: Mapping[str, Recorded]) -> set[str]:
    """Return the trials whose own result files say what the journal says."""
    rows, _ = read_files(loose, "ipc", list(_COLUMNS), None)
    return _compared(rows.to_pylist(), known)[0]


def _compared(
    rows: Iterable[dict[str, Any]], known: Mapping[str, Recorded]
) -> tuple[set[str], set[str]]:
    """Return the trials that rows have right, and those that they have wrong or nobody ran."""
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
        elif recorded is None or run >= recorded.report.run:  # the machine failed earlier ones
            wrong.add(trial)
    return right, wrong
