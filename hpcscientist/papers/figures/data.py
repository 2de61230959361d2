"""Makes the data tables of the figures from the journal and the result files, never from a model.

Each table is written as CSV beside its figure, so that a reader can redraw it.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from scipy import stats

from hpcscientist.authoring.run_reading import series_of
from hpcscientist.feedback.statistics import compare
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal
from hpcscientist.history.entities import TrialState
from hpcscientist.history.state import CampaignState
from hpcscientist.records.events import AttemptWritten
from hpcscientist.records.findings import ResultRow
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import Scored, Stage
from hpcscientist.results import logs
from hpcscientist.results.aggregate import Overview

Cell = str | int | float | bool | None
_MOST_STEPS: Final = 400  # points of a learning curve; a longer one is thinned
_MOST_CURVES: Final = 2  # series drawn
_BAND: Final = 0.95


@dataclass(frozen=True, slots=True)
class FigureTable:
    """The data of one figure. `notes` are named values that the drawing also uses."""

    id: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: Mapping[str, float | str] = field(default_factory=dict)

    def dicts(self) -> list[dict[str, Cell]]:
        """Return the rows by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def as_csv(self) -> str:
        """Return the table as CSV: notes first, as comments; floats in full precision."""
        text = io.StringIO()
        for name, value in self.notes.items():
            text.write(f"# {name}: {value}\n")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(["" if c is None else c for c in row] for row in self.rows)
        return text.getvalue()


@dataclass(frozen=True, slots=True)
class FigureData:
    """One reading of a campaign, from which figures are drawn.

    `values` are those of the primary metric.
    """

    paths: RunPaths
    state: CampaignState
    rows: Sequence[ResultRow]
    values: Overview
    metric: str
    minimum_effect: float


def tables(campaign: FigureData, ideas: Sequence[str]) -> Iterator[FigureTable]:
    """Yield the tables that have data; `ideas` are those the paper is about, () for all."""
    for make in (effects, confirmed, learning_curves, ablations, attempts):
        if (table := make(campaign, ideas)).rows:
            yield table


def effects(campaign: FigureData, ideas: Sequence[str]) -> FigureTable:
    """Return the effect of every scored idea with its interval, on the validation split."""
    rows = [
        (r.idea_id, r.title, r.delta, r.ci_low, r.ci_high, r.n, _word(r), r.idea_id in ideas)
        for r in _scored(campaign)
    ]
    return FigureTable(
        "effects",
        f"effect of each scored idea on {campaign.metric}, against the baseline, with interval",
        ("idea", "title", "delta", "ci_low", "ci_high", "n", "outcome", "in_paper"),
        tuple(rows),
        {
            "minimum_effect": campaign.minimum_effect,
            "metric": campaign.metric,
            "split": "validation",
        },
    )


def confirmed(campaign: FigureData, ideas: Sequence[str]) -> FigureTable:
    """Return each effect in the search and, with fresh seeds, on the test split."""
    rows = [
        (
            r.idea_id,
            r.delta,
            r.ci_low,
            r.ci_high,
            r.test_delta,
            r.test_ci_low,
            r.test_ci_high,
            _word(r),
        )
        for r in _scored(campaign)
        if r.test_delta is not None
    ]
    return FigureTable(
        "search-confirmed",
        f"effect on {campaign.metric} in the search against that on the test split",
        (
            "idea",
            "delta",
            "ci_low",
            "ci_high",
            "test_delta",
            "test_ci_low",
            "test_ci_high",
            "outcome",
        ),
        tuple(rows),
        {"metric": campaign.metric, "noise_band": noise_band(campaign)},
    )


def noise_band(campaign: FigureData) -> float:
    """Return the half-width within which two effects of the same code differ in 95% of cases.

    Each effect is a difference of two means over the baseline's number of seeds; their variance is
    that of the baseline's seeds. Return 0 for one seed.
    """
    values = list(campaign.values.validation.of(BASELINE_ID, BASELINE_ATTEMPT).values())
    if (n := len(values)) < 2:
        return 0.0
    mean = sum(values) / n
    variance = sum((value - mean) ** 2 for value in values) / (n - 1)
    quantile = float(stats.t.ppf(0.5 + _BAND / 2, n - 1))
    return quantile * math.sqrt(4 * variance / n)


def learning_curves(campaign: FigureData, ideas: Sequence[str]) -> FigureTable:
    """Return the learning curves of the baseline and of the paper's ideas, by seed.

    The candidate's code wrote these values while it ran: they are shown and never trusted.
    """
    wanted = [(BASELINE_ID, BASELINE_ATTEMPT)]
    wanted += [(i, a) for i in ideas or _improved(campaign) if (a := _attempt(campaign, i))]
    read = {trial.trial_id: (trial, _series(campaign, trial)) for trial in _full(campaign, wanted)}
    shared = _shared_series([names for _, names in read.values()])
    rows = tuple(
        (trial.idea_id, trial.seed, name, step, value)
        for trial, names in read.values()
        for name in shared
        for step, value in _thinned(names.get(name, ()))
        if math.isfinite(value)
    )
    return FigureTable(
        "learning-curves",
        "what trials wrote on their way, a line for each seed",
        ("idea", "seed", "series", "step", "value"),
        rows,
    )


def ablations(campaign: FigureData, ideas: Sequence[str]) -> FigureTable:
    """Return the effects of the paper's ideas and of their further runs, such as ablations."""
    rows: list[tuple[Cell, ...]] = []
    baseline = campaign.values.validation.of(BASELINE_ID, BASELINE_ATTEMPT)
    for idea_id in ideas or [row.idea_id for row in _scored(campaign)]:
        runs = list(_further(campaign, idea_id))
        main = _attempt(campaign, idea_id)
        if not runs or main is None:
            continue
        for attempt, kind, title in [(main, "main", "the idea"), *runs]:
            values = campaign.values.validation.of(idea_id, attempt)
            if not (values.keys() & baseline.keys()):
                continue
            told = compare(baseline, values)
            rows.append(
                (idea_id, attempt, kind, title, told.delta, told.ci_low, told.ci_high, told.n)
            )
    shown = tuple(rows) if any(row[2] != "main" for row in rows) else ()
    return FigureTable(
        "ablations",
        f"effect of ideas and of their further runs on {campaign.metric}, against the baseline",
        ("idea", "attempt", "kind", "title", "delta", "ci_low", "ci_high", "n"),
        shown,
        {"metric": campaign.metric, "split": "validation"},
    )


def attempts(campaign: FigureData, ideas: Sequence[str]) -> FigureTable:
    """Return every attempt that was written, with its parent and its outcome."""
    rows: list[tuple[Cell, ...]] = []
    for event in journal.events(campaign.paths.journal):
        if not isinstance(event, AttemptWritten) or (ideas and event.idea_id not in ideas):
            continue
        if event.attempt not in campaign.state.ideas[event.idea_id].code_hashes:
            continue  # a duplicate of another attempt
        outcome = _came_to(campaign, event.idea_id, event.attempt)
        final = event.attempt == _attempt(campaign, event.idea_id)
        rows.append((event.idea_id, event.attempt, event.parent, event.kind, outcome, final))
    rows.sort(key=lambda row: (str(row[0]), int(str(row[1]))))
    return FigureTable(
        "attempts",
        "versions of code, from the reference to the right, by what each was made from",
        ("idea", "attempt", "parent", "kind", "outcome", "final"),
        tuple(rows),
    )


def _scored(campaign: FigureData) -> list[ResultRow]:
    return [row for row in campaign.rows if row.status == "scored" and row.delta is not None]


def _improved(campaign: FigureData) -> list[str]:
    return [row.idea_id for row in campaign.rows if row.confirmed]


def _word(row: ResultRow) -> str:
    return "confirmed" if row.confirmed else row.finding.value if row.finding else "undecided"


def _attempt(campaign: FigureData, idea_id: str) -> int | None:
    idea = campaign.state.ideas.get(idea_id)
    return idea.ended.attempt if idea is not None and idea.ended is not None else None


def _full(campaign: FigureData, wanted: Iterable[tuple[str, int]]) -> Iterator[TrialState]:
    for key in wanted:
        for trial in campaign.state.full.get(key, {}).values():
            if trial.phase == "scored":
                yield trial


def _series(campaign: FigureData, trial: TrialState) -> dict[str, list[float]]:
    return series_of(logs.progress(campaign.paths, trial.trial_id, trial.run))


def _shared_series(found: Sequence[Mapping[str, Sequence[float]]]) -> list[str]:
    """Return the series that most trials wrote, except plain counters with steps of one."""
    counted: dict[str, int] = {}
    for names in found:
        for name, values in names.items():
            if len(values) > 1 and any(b - a != 1 for a, b in itertools.pairwise(values)):
                counted[name] = counted.get(name, 0) + 1
    return sorted(counted, key=lambda name: (-counted[name], name))[:_MOST_CURVES]


def _thinned(values: Sequence[float]) -> Iterator[tuple[int, float]]:
    stride = max(1, math.ceil(len(values) / _MOST_STEPS))
    last = len(values) - 1
    for place, value in enumerate(values):
        if place % stride == 0 or place == last:
            yield place + 1, value


def _further(campaign: FigureData, idea_id: str) -> Iterator[tuple[int, str, str]]:
    """Yield attempt, kind and title of each further run of an idea that was written."""
    titles = iter(
        reading.run
        for _, reading in sorted(campaign.state.ideas[idea_id].readings.items())
        if reading.run is not None
    )
    for event in journal.events(campaign.paths.journal):
        if not isinstance(event, AttemptWritten) or event.idea_id != idea_id:
            continue
        if event.kind in ("ablation", "sensitivity", "follow-up"):
            run = next((run for run in titles if run.kind == event.kind), None)
            yield event.attempt, event.kind, run.title if run else event.kind


def _came_to(campaign: FigureData, idea_id: str, attempt: int) -> str:
    trials = [
        trial
        for trial in campaign.state.trials.values()
        if (trial.idea_id, trial.attempt) == (idea_id, attempt) and trial.has_ended
    ]
    if not trials:
        return "not run"
    reports = [trial.report for trial in trials]
    if any(r is not None and not isinstance(r.outcome, Scored) for r in reports):
        return "failed"
    full = any(trial.stage is Stage.SEEDS for trial in trials)
    return "scored" if full else "piloted"
