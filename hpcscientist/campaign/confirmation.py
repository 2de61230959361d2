"""Confirmation: improvements are run again with fresh seeds on the test split, once an idea.

An idea comes to it as soon as nothing can change its verdict any more: with online error
control while the campaign goes on, else at the end. What decides is in the journal, so a
driver that resumes confirms the same ideas; and before any trial is queued the journal says
that the idea's only look at the test split is spent. The baseline runs there first: where it
fails nothing can be confirmed, and no idea's look is spent for nothing. What comes of it is told
to people and never to a proposer: nothing may be chosen by the test split.
"""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.campaign.integrity import Integrity
from hpcscientist.campaign.proposals.idea_file import known_idea
from hpcscientist.campaign.specs import SpecFactory
from hpcscientist.conduct.actions import Judge, Spend
from hpcscientist.config.settings import Settings
from hpcscientist.errors import IdeaDamaged
from hpcscientist.files.handed import LARGEST_TEXT
from hpcscientist.files.hashing import holds
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.judgement import judging
from hpcscientist.records.events import ConfirmationSetAside, IdeasJudged, NoteTaken, SplitSpent
from hpcscientist.records.findings import Verdict
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import IdeaFailed


@dataclass(frozen=True, slots=True)
class Confirming:
    """Says what is confirmed, for one driver."""

    paths: RunPaths
    journal: Journal
    state: CampaignState
    specs: SpecFactory
    integrity: Integrity
    settings: Settings

    def judge(self, action: Judge) -> None:
        """Look at the findings, and put on record which ideas are to be confirmed."""
        spec = self.specs.recipe.spec
        found = judging.judge(self.state, spec.objective, self.settings, seeds=spec.seeds)
        improved = {i for i, finding in found.items() if finding.verdict is Verdict.IMPROVEMENT}
        self.journal.record(
            IdeasJudged(
                ended=action.ended,
                improved=tuple(i for i in found if i in improved),
                last=action.last,
            )
        )

    def spend(self, action: Spend) -> None:
        """Let an idea or the baseline to the test split; an idea that is not what was measured
        waits for the next driver.
        """
        idea_id, attempt = action.idea_id, BASELINE_ATTEMPT
        if idea_id != BASELINE_ID:
            try:  # before the look is spent: a damaged copy costs none
                attempt = self._checked(idea_id)
            except IdeaDamaged as error:
                self.set_aside(idea_id, str(error))
                return
        seeds = self.specs.fresh_seeds()
        self.journal.record(SplitSpent(idea_id=idea_id, attempt=attempt, seeds=seeds))

    def tell(self) -> None:
        """Say so where a trial of the baseline is why nothing can be confirmed.

        What the search measured stands all the same.
        """
        trials = self.state.confirming.get((BASELINE_ID, BASELINE_ATTEMPT), {})
        for trial in trials.values():
            report = trial.report if trial.phase == "failed" else None
            if report is not None and isinstance(report.outcome, IdeaFailed):
                failed = report.outcome
                text = (
                    f"nothing can be confirmed: {report.trial_id} failed "
                    f"({failed.failure.value}): {failed.detail}"
                )
                self.journal.record(NoteTaken(name="baseline unconfirmed", text=text))

    def set_aside(self, idea_id: str, why: str) -> None:
        """Leave an idea to the next driver: it is not what was measured."""
        text = f"{idea_id} cannot be confirmed: {why}"
        self.journal.record(NoteTaken(name=f"{idea_id} damaged", text=text))
        generation = self.state.generation
        self.journal.record(
            ConfirmationSetAside(idea_id=idea_id, generation=generation, reason=why)
        )

    def _checked(self, idea_id: str) -> int:
        """The attempt that stands, which is what was measured."""
        idea = self.state.ideas[idea_id]
        assert idea.ended is not None
        assert idea.ended.attempt is not None
        number = idea.ended.attempt
        place = self.paths.idea(idea_id)
        code = place.code(number)
        for path in (code, place.idea):
            self.integrity.check(path)
        if not holds(code, idea.code_hashes[number], LARGEST_TEXT):
            raise IdeaDamaged(
                f"{code}: is not the code that was measured; restore it from a backup"
            )
        known_idea(place.idea, idea.idea_hash)
        return number
