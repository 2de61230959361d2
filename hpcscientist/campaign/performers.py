"""Maps each action to the object that performs it. A finished action's events are journalled."""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.campaign.claims import Claims
from hpcscientist.campaign.confirmation import Confirming
from hpcscientist.campaign.proposals.admission import Admission
from hpcscientist.campaign.pursuit.effort import Effort
from hpcscientist.campaign.pursuit.idea_runner import IdeaRunner
from hpcscientist.campaign.result_files import Compactor
from hpcscientist.campaign.trial_runner import DueTrials, TrialRunner
from hpcscientist.conduct import reference
from hpcscientist.conduct.actions import (
    Action,
    Admit,
    Brief,
    Compact,
    Decide,
    Judge,
    Propose,
    RunTrial,
    Spend,
    Take,
)
from hpcscientist.conduct.rules import Rules
from hpcscientist.conduct.strategy.steps import Conclude
from hpcscientist.errors import IdeaDamaged
from hpcscientist.history.state import CampaignState
from hpcscientist.judgement.baseline_drift import BaselineDrift
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import Stage


@dataclass(frozen=True, slots=True)
class Performers:
    """All performers of one driver."""

    rules: Rules
    state: CampaignState
    admission: Admission
    idea_runner: IdeaRunner
    effort: Effort
    due: DueTrials
    trials: TrialRunner
    baseline_drift: BaselineDrift
    confirming: Confirming
    compactor: Compactor
    claims: Claims

    def begin(self) -> None:
        """Restore what an earlier driver left to what its journal says. Raises OSError."""
        self.compactor.results.restore()
        self.catch_up()

    def end(self) -> None:
        """Restore the run directory to what the journal says, and write all claims, before this
        driver leaves. Raises OSError.
        """
        self.catch_up()
        self.idea_runner.attempt_store.integrity.look()
        self.compactor.results.restore()
        self.claims.write_all()

    def catch_up(self) -> None:
        """Emit the decisions that follow from finished baseline trials, in case a killed driver
        did not.
        """
        if reference.has_run(self.state, self.rules):
            self.baseline_drift.tell()
            self.confirming.tell()

    async def perform(self, action: Action) -> None:
        """Perform an action. Raises EndpointError, MachineTrouble, DiskFull, RunDirectoryError."""
        try:
            match action:
                case RunTrial():
                    spec = self.due.spec(action)
                    with self.due.integrity.trial_of(action.idea_id):
                        await self.trials.once(spec)
                    await self._follow_up(action.idea_id)
                case Propose(number, round_number):
                    await self.admission.propose(number, round_number)
                case Admit(number):
                    await self.admission.admit(number)
                case Brief(idea_id):
                    await self.idea_runner.brief(idea_id)
                case Take(idea_id, step):
                    await self.idea_runner.take(action)
                    if isinstance(step, Conclude):
                        self.claims.write(idea_id)
                case Decide(idea_id, after):
                    self.effort.decide(idea_id, after)
                    await self.idea_runner.note(idea_id)
                case Judge():
                    self.confirming.judge(action)
                case Spend():
                    self.confirming.spend(action)
                case Compact():
                    await self.compactor.compact()
                case _:
                    raise AssertionError(f"{action.key} is the conductor's")
        except IdeaDamaged as error:
            self._leave(action, error)

    def _leave(self, action: Action, error: IdeaDamaged) -> None:
        """Leave a damaged idea to the next driver; other ideas go on. Raises the error if no idea
        can be left.
        """
        idea_id = action.idea_id if isinstance(action, RunTrial | Take | Brief) else ""
        progress = self.state.progress
        if isinstance(action, RunTrial) and action.stage is Stage.CONFIRM:
            self.confirming.set_aside(idea_id, str(error))
        elif idea_id in progress.open or idea_id in progress.aside:
            self.idea_runner.leave(idea_id, str(error))
        else:
            raise error

    async def _follow_up(self, idea_id: str) -> None:
        """Record what follows from the end of a trial."""
        if idea_id == BASELINE_ID:
            self.catch_up()
        elif idea_id in self.state.progress.open:
            await self.idea_runner.note(idea_id)
