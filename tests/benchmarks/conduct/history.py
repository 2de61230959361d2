"""Histories of campaigns that were never run: as many ideas that have ended, and as many open."""

from __future__ import annotations

from collections.abc import Iterator

from hpcscientist.conduct.rules import ConfirmationRules, Judging, Proposing, Rules
from hpcscientist.conduct.strategy.strategy import LinearSearch, Strategies
from hpcscientist.conduct.strategy.strategy_replay import Measuring
from hpcscientist.config.extent import Extent
from hpcscientist.config.settings import Settings
from hpcscientist.records.events import (
    AttemptWritten,
    CampaignStarted,
    DriverStarted,
    Event,
    IdeaAdmitted,
    IdeaBriefed,
    IdeaEnded,
    IdeaProposed,
    TrialEnded,
    TrialQueued,
    TrialStarted,
)
from hpcscientist.records.idea import BASELINE_ID, idea_id_of
from hpcscientist.records.objective import Objective
from hpcscientist.records.trial import (
    Direction,
    MetricSpec,
    Scored,
    Stage,
    TrialReport,
    Usage,
    trial_name,
)

SEEDS = 5
_METRIC = MetricSpec(name="accuracy", direction=Direction.MAXIMIZE)


def rules_of(ideas: int, in_flight: int) -> Rules:
    """Return the rules of a campaign of the default settings, `in_flight` ideas side by side."""
    return Rules(
        extent=Extent(ideas=ideas, rounds=0, in_flight=in_flight, lag=8, model_name="", seed=0),
        settings=Settings(ideas=ideas),
        objective=Objective(primary=_METRIC),
        published=None,
        judging=Judging(hopeless=0.5, piloted=True, catches_nothing_done=False),
        proposing=Proposing(),
        confirmation=ConfirmationRules(enabled=True, early=False),
        strategies=Strategies(
            kind=LinearSearch(),
            settings=Settings.model_validate(
                {"authoring": {"advice_rounds": 0, "further_runs": 0}}
            ),
            objective=Objective(primary=_METRIC),
            advised=False,
            analysed=False,
            measuring=Measuring(SEEDS),
        ),
        budgets=(),
        schedule=None,
        seeds=SEEDS,
        retries=2,
        pause_s=2.0,
        compact_after=10**9,  # how long that takes is none of this
    )


def begun() -> Iterator[Event]:
    """Yield the events of a campaign whose reference has run."""
    yield CampaignStarted(campaign_id="bench")
    yield DriverStarted(
        generation=1, host="", pid=1, package_version="", package_hash="", python=""
    )
    for index in range(SEEDS):
        yield from _trial(BASELINE_ID, Stage.BASELINE, index)
    yield from _trial(BASELINE_ID, Stage.PILOT, 0)


def ended(number: int) -> Iterator[Event]:
    """Yield the events of an idea from its proposal to its end."""
    idea_id = idea_id_of(number)
    yield from opened(number)
    yield trial_ended(idea_id, Stage.PILOT, 0)
    for index in range(SEEDS):
        yield from _trial(idea_id, Stage.SEEDS, index)
    yield IdeaEnded(idea_id=idea_id, status="scored", reason=None, attempt=1)


def opened(number: int) -> Iterator[Event]:
    """Yield the events of an idea whose pilot is under way."""
    idea_id = idea_id_of(number)
    yield IdeaProposed(
        idea_id=idea_id,
        number=number,
        round=1,
        title=f"Idea {number}: weight decay of {number / 1e6:g}",
        parent_ids=(),
        arm="model",
        summary=f"Train the same network with a weight decay of {number / 1e6:g}.",
        knobs=None,
        shown=(),
        idea_hash=f"{number:064x}",
    )
    yield IdeaAdmitted(idea_id=idea_id)
    yield IdeaBriefed(idea_id=idea_id, parts=())
    yield AttemptWritten(
        idea_id=idea_id,
        attempt=1,
        code_hash=f"{number:064x}",
        parent=0,
        kind="draft",
        note_hash=f"{number:064x}",
    )
    yield from _under_way(idea_id, Stage.PILOT, 0)


def trial_ended(idea_id: str, stage: Stage, index: int) -> TrialEnded:
    """Return the end of a trial of an idea's first attempt."""
    name = trial_name(idea_id, 1, stage, index)
    return TrialEnded(
        idea_id=idea_id,
        report=TrialReport(
            trial_id=name,
            run=1,
            outcome=Scored(metrics={_METRIC.name: 0.5 + index / 100}),
            usage=Usage(started_at=1.0, ended_at=2.0, cpu_s=1.0, peak_mb=100.0, node="n1"),
            predictions_hash=name,
        ),
    )


def _trial(idea_id: str, stage: Stage, index: int) -> Iterator[Event]:
    yield from _under_way(idea_id, stage, index)
    yield trial_ended(idea_id, stage, index)


def _under_way(idea_id: str, stage: Stage, index: int) -> Iterator[Event]:
    name = trial_name(idea_id, 1, stage, index)
    yield TrialQueued(
        trial_id=name,
        idea_id=idea_id,
        attempt=1,
        stage=stage,
        seed=index,
        run=1,
        generation=1,
    )
    yield TrialStarted(trial_id=name, run=1, generation=1)
