"""Decides how many seeds an attempt gets, stage by stage, as `loop.allocation` says. With halving
it also decides how far an attempt climbs the recipe's steps first.

Each decision depends on the state after a stage, and is journalled before anything follows from it.
A driver that resumes reads it there, so ideas or baseline trials that ended later do not change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from hpcscientist.campaign.specs import SpecFactory, trial_seeds
from hpcscientist.conduct.strategy.steps import Climb, Seeds
from hpcscientist.config.settings import Settings
from hpcscientist.feedback import statistics
from hpcscientist.feedback.decision import Rule
from hpcscientist.feedback.effort import Decision, Schedule, climb, decide, promote, schedule_of
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.records.events import BudgetDecided, SeedsDecided
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import Scored, Stage, trial_name


@dataclass(slots=True)
class EffortDecider:
    """Decides how far attempts go, for one driver."""

    settings: Settings
    specs: SpecFactory
    journal: Journal
    state: CampaignState
    _come: dict[int, dict[str, float]] = field(default_factory=dict)  # rung -> idea -> mean
    _stepped: dict[str, dict[str, float]] = field(default_factory=dict)  # step -> idea -> value

    def decide(self, idea_id: str, after: Climb | Seeds) -> None:
        """Decide after a stage whose trials were all scored, and journal the decision."""
        number = after.version.number
        if isinstance(after, Climb):
            self._climb(idea_id, number, after.index)
        else:
            self._look(idea_id, number, after.which.stop)

    def _climb(self, idea_id: str, attempt: int, index: int) -> None:
        metric, rate = self.specs.recipe.spec.primary, self.settings.loop.halving
        step = self.specs.steps[index].name
        come = self._stepped.get(step)
        if come is None:
            come = self._stepped[step] = self._known_on(step)
        report = self.state.trials[trial_name(idea_id, attempt, Stage.STEP, index)].report
        assert report is not None
        assert isinstance(report.outcome, Scored)
        value = report.outcome.value(metric.name)
        earlier = [other for name, other in come.items() if name != idea_id]
        come[idea_id] = value
        decision = climb(value, earlier, step, metric, rate)
        self.journal.record(
            BudgetDecided(
                idea_id=idea_id,
                attempt=attempt,
                budget=step,
                value=value,
                goes_on=bool(decision.more),
                reason=decision.reason,
            )
        )

    def _look(self, idea_id: str, attempt: int, seeds: int) -> None:
        schedule = schedule_of(self.settings.loop, self.specs.recipe.spec.seeds)
        assert schedule is not None  # else all seeds are run, and nothing is decided
        if self.settings.loop.allocation == "sequential":
            decision = self._tested(idea_id, attempt, schedule)
        else:
            decision = self._ranked(idea_id, attempt, seeds, schedule)
        self.journal.record(
            SeedsDecided(
                idea_id=idea_id,
                attempt=attempt,
                seeds=seeds,
                more=decision.more,
                reason=decision.reason,
                given_up=decision.given_up,
            )
        )

    def _tested(self, idea_id: str, attempt: int, schedule: Schedule) -> Decision:
        metric = self.specs.recipe.spec.primary
        baseline = self.state.scores(BASELINE_ID, BASELINE_ATTEMPT, metric.name)
        values = self.state.scores(idea_id, attempt, metric.name)
        level = strictest(self.settings, self.state.ideas[idea_id].number)
        return decide(baseline, values, metric, self.settings.loop.q, schedule, level)

    def _ranked(self, idea_id: str, attempt: int, seeds: int, schedule: Schedule) -> Decision:
        metric, rate = self.specs.recipe.spec.primary, self.settings.loop.halving
        come = self._come.get(seeds)
        if come is None:
            come = self._come[seeds] = self._known(seeds)
        own = trial_seeds(self.settings.seed, seeds)
        value = _mean(self.state, idea_id, attempt, own, metric.name)
        earlier = [mean for other, mean in come.items() if other != idea_id]
        come[idea_id] = value
        return promote(value, earlier, seeds, metric, schedule, rate)

    def _known_on(self, step: str) -> dict[str, float]:
        """Return by idea the value of its latest attempt that reached a step, from the journal."""
        found: dict[str, float] = {}
        for idea in self.state.ideas.values():
            attempts = [attempt for attempt, name in idea.climbed if name == step]
            if attempts:
                found[idea.idea_id] = idea.climbed[max(attempts), step].value
        return found

    def _known(self, seeds: int) -> dict[str, float]:
        """Return by idea the mean of its latest attempt that reached a rung, from the journal."""
        state, metric = self.state, self.specs.recipe.spec.primary
        own = trial_seeds(self.settings.seed, seeds)
        found: dict[str, float] = {}
        for idea in state.ideas.values():
            attempts = [attempt for attempt, rung in idea.decided if rung == seeds]
            if attempts:
                found[idea.idea_id] = _mean(state, idea.idea_id, max(attempts), own, metric.name)
        return found


def strictest(settings: Settings, number: int) -> float:
    """Return the strictest level that an idea's p-value may be compared with, by idea number."""
    q = settings.loop.q
    if Rule.of(settings.loop, settings.rounds).control == "online":
        return statistics.least_level(number, q)
    return q / settings.ideas  # Benjamini-Hochberg rejects what Bonferroni would


def _mean(
    state: CampaignState, idea_id: str, attempt: int, seeds: Sequence[int], metric: str
) -> float:
    values = state.scores(idea_id, attempt, metric)
    return fmean(values[seed] for seed in seeds)
