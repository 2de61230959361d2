"""How many seeds an attempt is given, stage by stage, as `loop.allocation` says, and with halving
also how far it climbs the recipe's steps before.

After each stage it is decided from the state whether another comes, and the decision is in the
journal before anything is done about it. A driver that resumes reads it there: which ideas had
ended by then, and how far the baseline was, changes nothing any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from hpcscientist.campaign.pursuit.tryout import Tried, Tryout
from hpcscientist.campaign.reference import Reference
from hpcscientist.campaign.specs import trial_seeds
from hpcscientist.campaign.state import CampaignState
from hpcscientist.config.settings import Settings
from hpcscientist.feedback import online
from hpcscientist.feedback.decision import Rule
from hpcscientist.feedback.effort import Decision, Schedule, climb, decide, promote, schedule_of
from hpcscientist.records.events import BudgetDecided, SeedsDecided
from hpcscientist.records.idea import Idea


@dataclass(slots=True)
class Effort:
    """Runs the seeds of attempts for one driver."""

    settings: Settings
    tryout: Tryout
    reference: Reference
    _come: dict[int, dict[str, float]] = field(default_factory=dict)  # rung -> idea -> mean
    _stepped: dict[str, dict[str, float]] = field(default_factory=dict)  # step -> idea -> value

    async def climb(self, idea: Idea, tried: Tried, index: int) -> tuple[Tried, int]:
        """Run an attempt at a step, counted from 0; return it with that report, and 1 if it
        is decided that it goes on from there, else 0. Raises DiskFull.
        """
        tried = await self.tryout.step(idea, tried, index)
        step = self.tryout.specs.steps[index].name
        return tried, int(tried.scored and self._goes_on(idea, tried, step))

    async def seeds(self, idea: Idea, tried: Tried, which: range) -> tuple[Tried, int]:
        """Run some of an attempt's seeds, counted from 0; return it with the first report that is
        not scored, or the last, and how many more it is decided to run. Raises DiskFull.
        """
        tried = await self.tryout.seeds(idea, tried, which)
        schedule = self._schedule
        if schedule is None or not tried.scored or which.stop == schedule.at_most:
            return tried, 0
        return tried, (await self._decided(idea, tried, which.stop, schedule)).more

    def _goes_on(self, idea: Idea, tried: Tried, step: str) -> bool:
        """Whether it was decided that an attempt goes on from a step, or is decided so now."""
        state, attempt = self.tryout.state.ideas[idea.idea_id], tried.attempt.number
        known = state.climbed.get((attempt, step))
        if known is not None:
            return known.goes_on
        metric, rate = self.tryout.specs.recipe.spec.primary, self.settings.loop.halving
        come = self._stepped.get(step)
        if come is None:
            come = self._stepped[step] = self._known_on(step)
        value = tried.values[metric.name]
        earlier = [other for name, other in come.items() if name != idea.idea_id]
        come[idea.idea_id] = value
        decision = climb(value, earlier, step, metric, rate)
        self.tryout.journal.record(
            BudgetDecided(
                idea_id=idea.idea_id,
                attempt=attempt,
                budget=step,
                value=value,
                goes_on=bool(decision.more),
                reason=decision.reason,
            )
        )
        return bool(decision.more)

    def _known_on(self, step: str) -> dict[str, float]:
        """By idea, the value of its latest attempt that came to a step, as the journal says."""
        found: dict[str, float] = {}
        for idea in self.tryout.state.ideas.values():
            attempts = [attempt for attempt, name in idea.climbed if name == step]
            if attempts:
                found[idea.idea_id] = idea.climbed[max(attempts), step].value
        return found

    async def _decided(
        self, idea: Idea, tried: Tried, seeds: int, schedule: Schedule
    ) -> SeedsDecided:
        """Return what was decided after so many seeds, or decide it now."""
        state, attempt = self.tryout.state.ideas[idea.idea_id], tried.attempt.number
        known = state.decided.get((attempt, seeds))
        if known is not None:
            return known
        if self.settings.loop.allocation == "sequential":
            decision = await self._look(idea, attempt, schedule)
        else:
            decision = self._rank(idea, attempt, seeds, schedule)
        event = SeedsDecided(
            idea_id=idea.idea_id,
            attempt=attempt,
            seeds=seeds,
            more=decision.more,
            reason=decision.reason,
            given_up=decision.given_up,
        )
        self.tryout.journal.record(event)
        return event

    async def _look(self, idea: Idea, attempt: int, schedule: Schedule) -> Decision:
        metric = self.tryout.specs.recipe.spec.primary
        baseline = (await self.reference.ran())[metric.name]
        values = self.tryout.state.scores(idea.idea_id, attempt, metric.name)
        level = strictest(self.settings, idea.number)
        return decide(baseline, values, metric, self.settings.loop.q, schedule, level)

    def _rank(self, idea: Idea, attempt: int, seeds: int, schedule: Schedule) -> Decision:
        metric, rate = self.tryout.specs.recipe.spec.primary, self.settings.loop.halving
        come = self._come.get(seeds)
        if come is None:
            come = self._come[seeds] = self._known(seeds)
        own = trial_seeds(self.settings.seed, seeds)
        value = _mean(self.tryout.state, idea.idea_id, attempt, own, metric.name)
        earlier = [mean for other, mean in come.items() if other != idea.idea_id]
        come[idea.idea_id] = value
        return promote(value, earlier, seeds, metric, schedule, rate)

    def _known(self, seeds: int) -> dict[str, float]:
        """By idea, the mean of its latest attempt that came to a rung, as the journal says."""
        state, metric = self.tryout.state, self.tryout.specs.recipe.spec.primary
        own = trial_seeds(self.settings.seed, seeds)
        found: dict[str, float] = {}
        for idea in state.ideas.values():
            attempts = [attempt for attempt, rung in idea.decided if rung == seeds]
            if attempts:
                found[idea.idea_id] = _mean(state, idea.idea_id, max(attempts), own, metric.name)
        return found

    @property
    def _schedule(self) -> Schedule | None:
        return schedule_of(self.settings.loop, self.tryout.specs.recipe.spec.seeds)


def strictest(settings: Settings, number: int) -> float:
    """Return the strictest level that an idea's p-value may be held against, by its number."""
    q = settings.loop.q
    if Rule.of(settings.loop, settings.rounds).control == "online":
        return online.least_level(number, q)
    return q / settings.ideas  # Benjamini-Hochberg rejects what Bonferroni would


def given_up(state: CampaignState, idea_id: str, attempt: int) -> str | None:
    """Say why an attempt was left below the full budget, or with fewer seeds than it might have
    had; None if it was not.
    """
    idea = state.ideas[idea_id]
    reasons = [e.reason for e in idea.climbed.values() if e.attempt == attempt and not e.goes_on]
    reasons += [e.reason for e in idea.decided.values() if e.attempt == attempt and e.given_up]
    return reasons[-1] if reasons else None


def _mean(
    state: CampaignState, idea_id: str, attempt: int, seeds: Sequence[int], metric: str
) -> float:
    values = state.scores(idea_id, attempt, metric)
    return fmean(values[seed] for seed in seeds)
