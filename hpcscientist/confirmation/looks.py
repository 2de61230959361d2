"""Looks at the test split: which ideas get one, and which trials may run there.

An improvement runs again with fresh seeds on the test split, once. It does so as soon as its
verdict is final: during the campaign with online error control, else at the end. The choice is in
the journal, so a driver that resumes confirms the same ideas. Before any trial is queued, the
journal records that the idea's only look at the test split is spent. The baseline runs there first:
if it fails, nothing can be confirmed and no idea's look is wasted. People see the outcome, but
proposers never do: nothing may be selected by the test split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hpcscientist.errors import IdeaDamaged, SplitGuarded
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.records.events import ConfirmationSetAside, IdeasJudged, NoteTaken, SplitSpent
from hpcscientist.records.findings import Finding, Verdict
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import IdeaFailed, Split, Stage, TrialSpec


@dataclass(frozen=True, slots=True)
class Looks:
    """Chooses and records who looks at the test split, for one driver.

    `findings` returns the findings of all ideas, `seeds` those of confirmations. `unchanged`
    returns an idea's final attempt if its files are what was measured; else it raises IdeaDamaged.
    """

    journal: Journal
    state: CampaignState
    findings: Callable[[], Mapping[str, Finding]]
    seeds: Callable[[], tuple[int, ...]]
    unchanged: Callable[[str], int]

    def choose(self, ended: int, *, last: bool) -> None:
        """Record which ideas to confirm, after `ended` ideas; `last`: no further idea comes."""
        improved = tuple(
            idea for idea, found in self.findings().items() if found.verdict is Verdict.IMPROVEMENT
        )
        self.journal.record(IdeasJudged(ended=ended, improved=improved, last=last))

    def spend(self, idea_id: str) -> None:
        """Give an idea or the baseline access to the test split.

        An idea whose files differ from what was measured waits for the next driver.
        """
        attempt = BASELINE_ATTEMPT
        if idea_id != BASELINE_ID:
            try:  # check before the look is spent: a damaged copy then costs no look
                attempt = self.unchanged(idea_id)
            except IdeaDamaged as error:
                self.set_aside(idea_id, str(error))
                return
        self.journal.record(SplitSpent(idea_id=idea_id, attempt=attempt, seeds=self.seeds()))

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


def guard_test_split(spec: TrialSpec, state: CampaignState) -> None:
    """Raise SplitGuarded for a trial on the test split that the journal does not allow.

    An idea's trial needs a SplitSpent of that idea with this attempt and seed. A baseline trial
    needs the baseline's or, in campaigns of earlier versions, any idea's. Confirmations run only on
    the test split.
    """
    on_test = spec.split is Split.TEST
    if on_test is not (spec.stage is Stage.CONFIRM):
        raise SplitGuarded(
            f"{spec.trial_id}: a trial of stage {spec.stage.value} may not run on the "
            f"{spec.split.value} split; report this, for no code should ask for it"
        )
    if on_test and not any(_allows(spent, spec) for spent in _spent(spec.idea_id, state)):
        raise SplitGuarded(
            f"{spec.trial_id}: the journal has no split_spent that lets seed {spec.seed} of "
            f"{spec.idea_id} to the test split; restore journal.jsonl from a backup, or report this"
        )


def _spent(idea_id: str, state: CampaignState) -> list[SplitSpent]:
    if idea_id == BASELINE_ID:
        spent = [state.baseline_spent, *(idea.spent for idea in state.ideas.values())]
        return [one for one in spent if one is not None]
    idea = state.ideas.get(idea_id)
    return [idea.spent] if idea is not None and idea.spent is not None else []


def _allows(spent: SplitSpent, spec: TrialSpec) -> bool:
    attempt = BASELINE_ATTEMPT if spec.idea_id == BASELINE_ID else spent.attempt
    return spec.attempt == attempt and spec.seed in spent.seeds
