"""The rules that a campaign's decisions follow. All of them are fixed at launch."""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.conduct.strategy.strategy import Strategies
from hpcscientist.config.extent import Extent
from hpcscientist.config.settings import Settings
from hpcscientist.feedback.effort import Schedule
from hpcscientist.records.objective import Objective


@dataclass(frozen=True, slots=True)
class Judging:
    """The rules by which pilots judge versions.

    `hopeless`: the setting `authoring.hopeless`; `piloted`: the baseline runs a pilot trial;
    `catches_nothing_done`: a model's version whose pilot predicts exactly what the baseline's
    predicts does not count as an attempt.
    """

    hopeless: float
    piloted: bool
    catches_nothing_done: bool


@dataclass(frozen=True, slots=True)
class Proposing:
    """The rules for what proposals wait for.

    `in_order`: every proposal depends on outcomes of earlier ideas, as the control arm's do;
    `follows`: proposals follow up the best idea, in batches of `batch` ideas.
    """

    in_order: bool = False
    follows: bool = False
    batch: int = 1


@dataclass(frozen=True, slots=True)
class ConfirmationRules:
    """The rules for confirming improvements; `early`: while other ideas are still under way."""

    enabled: bool
    early: bool


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules of one campaign.

    `budgets` names the budgets below the full one that an attempt climbs. `seeds` is the number of
    seeds that the baseline runs. Each driver reruns a trial at most `retries` times after machine
    failures: first after `pause_s` seconds, then after twice as long each time. `compact_after`
    counts trials.
    """

    extent: Extent
    settings: Settings
    objective: Objective
    published: float | None
    judging: Judging
    proposing: Proposing
    confirmation: ConfirmationRules
    strategies: Strategies
    budgets: tuple[str, ...]
    schedule: Schedule | None
    seeds: int
    retries: int
    pause_s: float
    compact_after: int
