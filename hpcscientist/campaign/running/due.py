"""The runs of trials that `decide` wants: what each needs, from the journal and the frozen
configuration.
"""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.campaign.integrity import Integrity
from hpcscientist.campaign.proposals.idea_file import known_idea
from hpcscientist.campaign.running.trials import TrialRunner
from hpcscientist.campaign.specs import SpecFactory
from hpcscientist.conduct.actions import RunTrial
from hpcscientist.errors import IdeaDamaged
from hpcscientist.files.handed.regular import LARGEST_TEXT
from hpcscientist.files.hashing import holds
from hpcscientist.history.state import CampaignState
from hpcscientist.records.events import SplitSpent
from hpcscientist.records.idea import BASELINE_ID, Attempt
from hpcscientist.records.trial import Stage, TrialReport, TrialSpec


@dataclass(frozen=True, slots=True)
class DueTrials:
    """Has wanted runs of trials come to their ends, for one driver."""

    specs: SpecFactory
    trials: TrialRunner
    state: CampaignState
    integrity: Integrity

    def spec(self, action: RunTrial) -> TrialSpec:
        """Return what is to run. Raises IdeaDamaged where the idea or its attempt's code is not
        what is on record.
        """
        return self._spec(action).model_copy(update={"run": action.run})

    async def run(self, spec: TrialSpec) -> TrialReport:
        """Have it come to its end. Raises what `TrialRunner.once` raises."""
        try:
            return await self.trials.once(spec)
        finally:
            self.integrity.trial_ended(spec.idea_id)

    def _spec(self, action: RunTrial) -> TrialSpec:
        if action.idea_id == BASELINE_ID:
            return self._of_reference(action)
        paths, number = self.specs.paths.idea(action.idea_id), action.attempt
        standing = self.state.ideas[action.idea_id]
        code, known = paths.code(number), standing.code_hashes[number]
        for path in (code, paths.idea):
            self.integrity.check(path)
        if not holds(code, known, LARGEST_TEXT):
            raise IdeaDamaged(
                f"{code}: has other code than when it was recorded; restore it from a backup, or "
                "launch anew"
            )
        attempt = Attempt(idea_id=action.idea_id, number=number, code_hash=known, note="")
        idea, index = known_idea(paths.idea, standing.idea_hash), action.index
        tokens = self.state.tokens.get(action.idea_id, 0)
        match action.stage:
            case Stage.PILOT:
                return self.specs.pilot(idea, attempt, tokens)
            case Stage.STEP:
                return self.specs.step(idea, attempt, index, tokens)
            case Stage.CONFIRM:
                seeds = _spent(standing.spent).seeds
                return self.specs.confirm(idea, attempt, index, seeds[index], tokens)
            case _:
                (spec,) = self.specs.full(idea, attempt, tokens, range(index, index + 1))
                return spec

    def _of_reference(self, action: RunTrial) -> TrialSpec:
        if action.stage is Stage.CONFIRM:
            seeds = _spent(self.state.baseline_spent).seeds
            return self.specs.confirm_baseline(action.index, seeds[action.index])
        return self.specs.reference(action.stage, action.index, action.attempt)


def _spent(spent: SplitSpent | None) -> SplitSpent:
    assert spent is not None  # else nothing of it is to be confirmed
    return spent
