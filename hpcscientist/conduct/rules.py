"""What a campaign's decisions go by, all of it settled at launch."""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.conduct.strategy.strategy import Strategies
from hpcscientist.config.extent import Extent
from hpcscientist.config.settings import Settings
from hpcscientist.feedback.effort import Schedule
from hpcscientist.records.trial import MetricSpec


@dataclass(frozen=True, slots=True)
class Judging:
    """How versions are judged by their pilots. `hopeless`: `authoring.hopeless`; `piloted`: the
    reference has a pilot; `catches_nothing_done`: a model's version that predicts what the
    reference does is no attempt.
    """

    hopeless: float
    piloted: bool
    catches_nothing_done: bool


@dataclass(frozen=True, slots=True)
class Proposing:
    """Whom proposals depend on. `in_order`: all of them on outcomes, as the control arm's do;
    `follows`: on the best idea, batch by batch of `batch` ideas.
    """

    in_order: bool = False
    follows: bool = False
    batch: int = 1


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Whether improvements are confirmed; `early`: while others are still under way."""

    enabled: bool
    early: bool


@dataclass(frozen=True, slots=True)
class Rules:
    """What decisions go by.

    `budgets` names those below the full one that are climbed; `seeds`: as many as the reference
    is run with. `retries` of a trial after failures of the machine, by each driver, the first
    after `pause_s` seconds, each further one after twice as many. `compact_after`: trials.
    """

    extent: Extent
    settings: Settings
    metric: MetricSpec
    published: float | None
    judging: Judging
    proposing: Proposing
    confirmation: Confirmation
    strategies: Strategies
    budgets: tuple[str, ...]
    schedule: Schedule | None
    seeds: int
    retries: int
    pause_s: float
    compact_after: int
