"""Reads the view of a campaign from one pass over its journal and from its result files.

Nothing is decided here: findings come from `judgement`, costs from `launching.costs.spending`. Only
files are read; neither Slurm nor a driver is asked.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import printable
from hpcscientist.history import frozen
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.state import CampaignState
from hpcscientist.history.status import Waiting, read_holder, read_state, read_waiting, status
from hpcscientist.history.upcasting import JournalLine
from hpcscientist.judgement import arm_comparison
from hpcscientist.judgement.arm_comparison import Contest
from hpcscientist.judgement.summary import Summary, read_rows
from hpcscientist.launching.costs import spending
from hpcscientist.launching.costs.spending import CostLines, Counted, Spending
from hpcscientist.recipe.folder_copy import LaunchedRecipe
from hpcscientist.recipe.schema import RecipeSpec
from hpcscientist.records.findings import ResultRow, Verdict
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import SELF_REPORTED, MetricSpec
from hpcscientist.views.ideas import Best, IdeaView, best_so_far, ideas_of
from hpcscientist.views.resources import (
    Failure,
    StageTokens,
    StageTrials,
    tokens_by_stage,
    trials_by_stage,
)
from hpcscientist.views.resources import failures as failures_of
from hpcscientist.views.timeline import Timeline, TrialSpan


@dataclass(frozen=True, slots=True)
class CampaignView:
    """The data that renderers show. Times are seconds since the epoch; `read_at` is the read time.

    `is_driven` says whether a driver is alive. `state` is the campaign's state, for details of one
    idea.
    """

    folder: str
    config: CampaignConfig
    recipe: RecipeSpec
    status: Mapping[str, Any]
    summary: Summary
    spending: Spending
    contest: Contest | None
    ideas: tuple[IdeaView, ...]
    trials: tuple[TrialSpan, ...]
    best: Best
    tokens: tuple[StageTokens, ...]
    stages: tuple[StageTrials, ...]
    failures: tuple[Failure, ...]
    waiting: Waiting | None
    timeline: Timeline
    state: CampaignState
    is_driven: bool
    read_at: float

    @property
    def metric(self) -> MetricSpec:
        """The primary metric."""
        return self.recipe.primary

    @property
    def rows(self) -> tuple[ResultRow, ...]:
        """The rows that `hpcsci results` prints."""
        return self.summary.rows

    @property
    def next_command(self) -> str:
        """The command to run next."""
        return next_command(
            self.folder, self.rows, ended=self.state.ended, is_driven=self.is_driven
        )


def read(paths: RunPaths, folder: str = "") -> CampaignView:
    """Return a campaign's view. `folder` is its name in commands; "" means its full path.

    Raises NoRunDirectory, RunDirectoryError, RecipeError.
    """
    config = frozen.read(paths)
    recipe = LaunchedRecipe(paths.recipe, config.recipe_hash).load().spec
    timeline, costly = Timeline(recipe.primary.name), CostLines()

    def observe(line: JournalLine) -> None:
        timeline.take(line.event, line.t)
        costly.take(line)

    state = read_state(paths, observe)
    summary = read_rows(paths, state)
    holder = read_holder(paths.lock)
    is_driven = holder is not None and bool(holder["alive"])
    counted = Counted.of(summary.rows, confirms=bool(summary.confirmation))
    trials = _trials(timeline, is_driven=is_driven)
    found = {row.idea_id: row for row in summary.rows}
    ideas = ideas_of(state, timeline, trials, found)
    return CampaignView(
        folder=folder or str(paths.root),
        config=config,
        recipe=recipe,
        status=status(paths, state=state),
        summary=summary,
        spending=spending.spent(costly.all(), counted),
        contest=None
        if config.model_spec == "search"  # journals of earlier versions lack the arm of an idea
        else arm_comparison.compare(summary.rows, state),
        ideas=ideas,
        trials=trials,
        best=best_so_far(recipe.primary, found.get(BASELINE_ID), ideas, trials, timeline),
        tokens=tokens_by_stage(timeline.replies),
        stages=trials_by_stage(trials, recipe, config.settings.loop),
        failures=failures_of(trials, ideas),
        waiting=None if state.ended else read_waiting(paths),
        timeline=timeline,
        state=state,
        is_driven=is_driven,
        read_at=time.time(),
    )


def next_command(folder: str, rows: Sequence[ResultRow], *, ended: bool, is_driven: bool) -> str:
    """Return the command to run next on a campaign."""
    directory = shlex.quote(printable(folder))
    if is_driven:
        return f"hpcsci watch {directory}"
    if not ended:
        return f"hpcsci resume {directory}"
    best = best_row(rows)
    if best is not None and not best.metric.startswith(SELF_REPORTED):
        return f"hpcsci reproduce {directory} --idea {best.idea_id}"
    return f"hpcsci report {directory}"


def best_row(rows: Sequence[ResultRow]) -> ResultRow | None:
    """Return the row of the best idea, or None if nothing improved.

    It is the confirmed idea with the largest gain on the test split or, if none is confirmed, the
    improvement with the largest gain on validation.
    """
    improved = [row for row in rows if row.finding is Verdict.IMPROVEMENT]
    confirmed = [row for row in improved if row.confirmed]
    if confirmed:
        return max(confirmed, key=lambda row: _size(row.test_delta))
    return max(improved, key=lambda row: _size(row.delta), default=None)


def _size(delta: float | None) -> float:
    return abs(delta or 0.0)  # all are gains, whatever the metric's direction


def _trials(timeline: Timeline, *, is_driven: bool) -> tuple[TrialSpan, ...]:
    """Return all runs in order of start; without a driver, running ones count as stopped."""
    spans = sorted(timeline.spans.values(), key=lambda s: (s.started or s.queued, s.trial_id))
    if is_driven:
        return tuple(spans)
    return tuple(
        replace(span, ended=timeline.last, phase="stopped") if span.phase == "running" else span
        for span in spans
    )
