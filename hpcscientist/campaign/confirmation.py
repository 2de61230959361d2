"""Confirmation: improvements run again with fresh seeds on the test split, once for each idea.

An idea is confirmed as soon as its verdict is final: during the campaign with online error
control, else at the end. The choice is in the journal, so a driver that resumes confirms the same
ideas. Before any trial is queued, the journal records that the idea's only look at the test split
is spent. The baseline runs there first: if it fails, nothing can be confirmed and no idea's look is
wasted. People see the outcome, but proposers never do: nothing may be selected by the test split.
"""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.campaign.integrity import FileIntegrity
from hpcscientist.campaign.proposals.idea_file import known_idea
from hpcscientist.campaign.specs import SpecFactory
from hpcscientist.conduct.actions import JudgeFindings, Spend
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
    """Chooses and records what is confirmed, for one driver."""

    paths: RunPaths
    journal: Journal
    state: CampaignState
    specs: SpecFactory
    integrity: FileIntegrity
    settings: Settings

    def judge(self, action: JudgeFindings) -> None:
        """Compute the findings, and record which ideas to confirm."""
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
        """Give an idea or the baseline access to the test split.

        An idea whose files differ from what was measured waits for the next driver.
        """
        idea_id, attempt = action.idea_id, BASELINE_ATTEMPT
        if idea_id != BASELINE_ID:
            try:  # check before the look is spent: a damaged copy then costs no look
                attempt = self._checked(idea_id)
            except IdeaDamaged as error:
                self.set_aside(idea_id, str(error))
                return
        seeds = self.specs.fresh_seeds()
        self.journal.record(SplitSpent(idea_id=idea_id, attempt=attempt, seeds=seeds))

    def tell(self) -> None:
        """Record a note if a failed baseline trial makes confirmation impossible.

        The results on validation remain valid.
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
        """Leave an idea to the next driver, because its files differ from what was measured."""
        text = f"{idea_id} cannot be confirmed: {why}"
        self.journal.record(NoteTaken(name=f"{idea_id} damaged", text=text))
        generation = self.state.generation
        self.journal.record(
            ConfirmationSetAside(idea_id=idea_id, generation=generation, reason=why)
        )

    def _checked(self, idea_id: str) -> int:
        """Return the idea's final attempt, after checking that its files are unchanged."""
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
