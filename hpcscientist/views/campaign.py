"""A campaign as people look at it: one pass over its journal, and its result files.

Nothing is computed twice and nothing is decided here: findings are `judgement`'s, costs are
`launching.costs.spending`'s. Reads files alone, and asks neither Slurm nor a driver.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import printable
from hpcscientist.history import frozen, waiting
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.lock import read_holder
from hpcscientist.history.state import CampaignState
from hpcscientist.history.status import read_state, status
from hpcscientist.history.upcasting import Line
from hpcscientist.history.waiting import Waiting
from hpcscientist.judgement import arm_comparison
from hpcscientist.judgement.arm_comparison import Contest
from hpcscientist.judgement.summary import Summary, read_rows
from hpcscientist.launching.costs import spending
from hpcscientist.launching.costs.spending import CostLines, Counted, Spending
from hpcscientist.recipe.launched import LaunchedRecipe
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
    """What renderers show. Times are seconds since the epoch; `read_at` is when this was read.

    `is_driven`: a driver is alive. `state` is the fold, for what is asked of one idea.
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
        """The metric that decides."""
        return self.recipe.primary

    @property
    def rows(self) -> tuple[ResultRow, ...]:
        """What `hpcsci results` prints."""
        return self.summary.rows

    @property
    def next_command(self) -> str:
        """The command that goes on from here."""
        return next_command(
            self.folder, self.rows, ended=self.state.ended, is_driven=self.is_driven
        )


def read(paths: RunPaths, folder: str = "") -> CampaignView:
    """Return a campaign's view. `folder`: as it is named in commands; "" for its whole path.

    Raises NoRunDirectory, RunDirectoryError, RecipeError.
    """
    config = frozen.read(paths)
    recipe = LaunchedRecipe(paths.recipe, config.recipe_hash).load().spec
    timeline, costly = Timeline(recipe.primary.name), CostLines()

    def observe(line: Line) -> None:
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
        if config.model_spec == "search"  # events of earlier versions do not tell whose idea it is
        else arm_comparison.compare(summary.rows, state),
        ideas=ideas,
        trials=trials,
        best=best_so_far(recipe.primary, found.get(BASELINE_ID), ideas, trials, timeline),
        tokens=tokens_by_stage(timeline.replies),
        stages=trials_by_stage(trials, recipe, config.settings.loop),
        failures=failures_of(trials, ideas),
        waiting=None if state.ended else waiting.read(paths),
        timeline=timeline,
        state=state,
        is_driven=is_driven,
        read_at=time.time(),
    )


def next_command(folder: str, rows: Sequence[ResultRow], *, ended: bool, is_driven: bool) -> str:
    """Return the command that goes on from where a campaign is."""
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
    """Return the best confirmed idea by its gain on the test split; without any, the improvement
    that gained most on validation; None where nothing improved.
    """
    improved = [row for row in rows if row.finding is Verdict.IMPROVEMENT]
    confirmed = [row for row in improved if row.confirmed]
    if confirmed:
        return max(confirmed, key=lambda row: _size(row.test_delta))
    return max(improved, key=lambda row: _size(row.delta), default=None)


def _size(delta: float | None) -> float:
    return abs(delta or 0.0)  # all are gains, whichever way is better


def _trials(timeline: Timeline, *, is_driven: bool) -> tuple[TrialSpan, ...]:
    """All runs in the order in which they began; without a driver none goes on."""
    spans = sorted(timeline.spans.values(), key=lambda s: (s.started or s.queued, s.trial_id))
    if is_driven:
        return tuple(spans)
    return tuple(
        replace(span, ended=timeline.last, phase="stopped") if span.phase == "running" else span
        for span in spans
    )
