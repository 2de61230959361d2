"""Answers from the journal for each step of an idea: the tree that strategies replay.

A trial lost to a machine failure has no outcome while this driver may still rerun it. The next
driver may rerun it again, unless the journal says that the idea continues without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from hpcscientist.conduct.agenda import is_lost, is_used_up
from hpcscientist.conduct.reference import does_nothing, hopeless
from hpcscientist.conduct.rules import Rules
from hpcscientist.conduct.strategy.steps import (
    Abandon,
    AnyStep,
    Climb,
    Judged,
    Measured,
    Pilot,
    Piloted,
    Read,
    Review,
    Seeds,
    Version,
    Write,
    Written,
)
from hpcscientist.history.entities import IdeaState, TrialState
from hpcscientist.history.state import CampaignState
from hpcscientist.records.authoring import GaveUp
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.objective import ObjectiveValue, objective_value
from hpcscientist.records.trial import MachineFailed, Scored, Stage, TrialReport, trial_name

T = TypeVar("T")


class _Unknown(Exception):
    """The journal has no answer yet."""


def _said(what: T | None) -> T:
    if what is None:
        raise _Unknown
    return what


@dataclass(frozen=True, slots=True)
class IdeaOutcomes:
    """The outcomes of one idea's steps, by step."""

    state: CampaignState
    rules: Rules
    idea: IdeaState

    def get(self, step: AnyStep, default: object, /) -> object:
        """Return a step's outcome, `default` if the journal has none."""
        try:
            return self._of(step)
        except _Unknown:
            return default

    def _of(self, step: AnyStep) -> object:
        match step:
            case Pilot(version):
                return self._piloted(version)
            case Climb(version, index):
                return self._climbed(version, index)
            case Seeds():
                return self._seeds(step)
            case _:
                return self._answered(step)

    def _answered(self, step: AnyStep) -> object:
        """Return the reply of the author, the reviewer or the analyst."""
        match step:
            case Write(version, task):
                return self._written(version, task)
            case Abandon(task):
                _said(self.idea.gave_up.get(task))
                return None
            case Review(number):
                event = _said(self.idea.reviews.get(number))
                return Judged(event.complete, event.lacking)
            case Read(number):
                return _said(self.idea.readings.get(number)).run
            case _:
                raise _Unknown

    def _written(self, version: Version, task: str) -> Written | GaveUp:
        reason = self.idea.gave_up.get(task)
        if reason is not None:
            return GaveUp(reason=reason)
        return Written(_said(self.idea.code_hashes.get(version.number)))

    def _piloted(self, version: Version) -> Piloted:
        number = version.number
        left_out = f"pilot/{number}" in self.idea.gave_up
        report, lost = self._ended(number, Stage.PILOT, 0, infra_failed_too=left_out)
        outcome = report.outcome
        if not isinstance(outcome, Scored):
            return Piloted(outcome, report.trial_id, lost)
        if version.run:
            return Piloted(outcome, report.trial_id, measured=self._by_objective(outcome))
        reference = self._reference_pilot()
        judging, objective = self.rules.judging, self.rules.objective
        catches = judging.catches_nothing_done and self.idea.arm == "model"
        why = None
        if reference is not None:
            why = hopeless(report, reference, judging.hopeless, objective.primary)
        return Piloted(
            outcome=outcome,
            trial_id=report.trial_id,
            measured=self._by_objective(outcome, reference),
            hopeless=why,
            idle=catches and does_nothing(report, reference),
        )

    def _by_objective(
        self, outcome: Scored, reference: TrialReport | None = None
    ) -> ObjectiveValue:
        objective, known = self.rules.objective, {}
        if reference is not None and isinstance(reference.outcome, Scored):
            known = reference.outcome.metrics
        named = (*objective.ordering, *objective.tolerances)
        metrics = {metric.name: outcome.value(metric.name) for metric in named}
        return objective_value(metrics, known, objective)

    def _reference_pilot(self) -> TrialReport | None:
        if not self.rules.judging.piloted:
            return None
        name = trial_name(BASELINE_ID, BASELINE_ATTEMPT, Stage.PILOT, 0)
        report = _report(self._trial(name))
        if not isinstance(report.outcome, Scored):
            raise _Unknown  # it will run again, or the campaign stops
        return report

    def _climbed(self, version: Version, index: int) -> Measured:
        report, lost = self._ended(version.number, Stage.STEP, index)
        more = 0
        if isinstance(report.outcome, Scored):
            event = self.idea.climbed.get((version.number, self.rules.budgets[index]))
            more = int(_said(event).goes_on)
        return self._measured(version.number, report, lost, more)

    def _seeds(self, step: Seeds) -> Measured:
        number, schedule = step.version.number, self.rules.schedule
        ended = [self._ended(number, Stage.SEEDS, index) for index in step.which]
        failed = (one for one in ended if not isinstance(one[0].outcome, Scored))
        (report, lost), more = next(failed, ended[-1]), 0
        looked_at = schedule is not None and not step.version.run
        if looked_at and isinstance(report.outcome, Scored) and step.which.stop < self._most:
            more = _said(self.idea.decided.get((number, step.which.stop))).more
        return self._measured(number, report, lost, more)

    @property
    def _most(self) -> int:
        return 0 if self.rules.schedule is None else self.rules.schedule.at_most

    def _measured(self, number: int, report: TrialReport, lost: bool, more: int) -> Measured:
        idea_id = self.idea.idea_id
        return Measured(
            outcome=report.outcome,
            trial_id=report.trial_id,
            lost=lost,
            more=more,
            known=len(self.state.scores(idea_id, number, self.rules.objective.primary.name)),
            short=self.idea.left_short(number),
        )

    def _ended(
        self, number: int, stage: Stage, index: int, infra_failed_too: bool = False
    ) -> tuple[TrialReport, bool]:
        """Return a trial's report, and whether two drivers lost it to machine failures."""
        trial = self._trial(trial_name(self.idea.idea_id, number, stage, index))
        report = _report(trial)
        if isinstance(report.outcome, MachineFailed) and not (
            infra_failed_too or is_used_up(trial, self.state.generation, self.rules.retries)
        ):
            raise _Unknown
        return report, is_lost(trial, self.rules.retries)

    def _trial(self, name: str) -> TrialState:
        return _said(self.state.trials.get(name))


def _report(trial: TrialState) -> TrialReport:
    return _said(trial.report)
