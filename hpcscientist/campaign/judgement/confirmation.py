"""Confirmation: improvements are run again with fresh seeds on the test split, once an idea.

An idea comes to it as soon as nothing can change its verdict any more: with online error
control while the campaign goes on, else at the end. What decides is in the journal, so a
driver that resumes confirms the same ideas; and before any trial is queued the journal says
that the idea's only look at the test split is spent. The baseline runs there first: where it
fails nothing can be confirmed, and no idea's look is spent for nothing. What comes of it is told
to people and never to a proposer: nothing may be chosen by the test split.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hpcscientist.campaign.journal import Journal
from hpcscientist.campaign.judgement import judging
from hpcscientist.campaign.proposals.idea_file import known_idea
from hpcscientist.campaign.pursuit.tryout import Tryout
from hpcscientist.campaign.reference import Reference
from hpcscientist.campaign.running.trials import TrialRunner
from hpcscientist.campaign.session import Session
from hpcscientist.campaign.specs import BASELINE_ATTEMPT, SpecFactory
from hpcscientist.campaign.standing import IdeaState
from hpcscientist.campaign.state import CampaignState
from hpcscientist.config.settings import Settings
from hpcscientist.errors import MachineTrouble, RunDirectoryError
from hpcscientist.files.hashing import hash_tree
from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.events import ConfirmationSetAside, IdeasJudged, NoteTaken, SplitSpent
from hpcscientist.records.finding import Finding, Verdict
from hpcscientist.records.idea import BASELINE_ID, Attempt
from hpcscientist.records.outcome import IdeaFailed, MachineFailed, Scored
from hpcscientist.records.trial import TrialReport, TrialSpec

Judge = Callable[[], Mapping[str, Finding]]
"""From the state of the campaign to the findings as they are now."""

_SHARE = 20  # ideas are judged anew once a twentieth more have ended: a sweep stays linear


def confirming(
    settings: Settings, session: Session, tryout: Tryout, reference: Reference
) -> Confirming:
    """Return who confirms a campaign's improvements, as it is configured."""
    spec, state, rule = tryout.specs.recipe.spec, session.state, judging.rule_of(settings)
    return Confirming(
        paths=session.paths,
        journal=session.journal,
        state=state,
        specs=tryout.specs,
        trials=tryout.trials,
        reference=reference,
        judge=lambda: judging.judge(state, spec.primary, settings, seeds=spec.seeds),
        early=rule.decision == "fdr" and rule.control == "online",
        enabled=settings.loop.confirm,
    )


@dataclass(slots=True)
class Confirming:
    """Confirms the improvements of one campaign, for one driver.

    `early`: a verdict that `judge` returns is final, else all are at the end alone. `enabled`
    false confirms nothing anew. `set_aside` says which trials the machine failed, and `damaged`
    which ideas are not what was measured; a driver that resumes takes them up again.
    """

    paths: RunPaths
    journal: Journal
    state: CampaignState
    specs: SpecFactory
    trials: TrialRunner
    reference: Reference
    judge: Judge
    early: bool
    enabled: bool
    set_aside: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _over: bool = False
    _whole: bool = False
    _heard: int = 0  # ideas that ended, and how many had when they were judged last
    _judged: int = 0
    _taken: set[str] = field(default_factory=set)
    _baseline: asyncio.Task[bool] | None = None

    def idea_ended(self) -> None:
        """Take note that another idea has come to its end."""
        self._heard += 1
        self._news.set()

    def over(self, *, whole: bool) -> None:
        """Take note that no idea is under way any more; `whole`: all of them have ended."""
        self._over, self._whole = True, whole
        self._news.set()

    async def run(self) -> None:
        """Confirm what there is to confirm, until the ideas are over and all of it has been run.

        Raises DiskFull.
        """
        await self.reference.ran()
        async with asyncio.TaskGroup() as group:
            for idea in self._sorted(i.idea_id for i in self.state.ideas.values() if i.spent):
                self._begin(group, idea)
            while True:
                over = self._over
                for idea in self._improvements(over):
                    self._begin(group, idea)
                if over:
                    return
                await self._news.wait()
                self._news.clear()

    def check(self) -> None:
        """Raise RunDirectoryError if ideas are damaged, MachineTrouble if trials were set aside."""
        if self.damaged:
            raise RunDirectoryError(f"{self.damaged[0]}; then run `hpcsci resume`")
        if self.set_aside:
            raise MachineTrouble(
                "the machine failed trials of confirmations again and again, "
                f"{len(self.set_aside)} wait for it ({self.set_aside[0]}); mend that and run "
                "`hpcsci resume`"
            )

    def _improvements(self, over: bool) -> list[IdeaState]:
        """The ideas whose improvement is final and not on its way to confirmation yet."""
        if not self.enabled or not (self.early or (over and self._whole)):
            return []
        if not over and self._heard - self._judged < max(1, self._judged // _SHARE):
            return []
        self._judged = self._heard
        ended = self.state.progress.ended
        found = self.judge().items()
        improved = self._sorted(i for i, f in found if f.verdict is Verdict.IMPROVEMENT)
        ids = tuple(idea.idea_id for idea in improved)
        if ended:
            self.journal.record(IdeasJudged(ended=ended, improved=ids, last=over))
        return [idea for idea in improved if idea.idea_id not in self._taken]

    def _sorted(self, ideas: Iterable[str]) -> list[IdeaState]:
        return sorted((self.state.ideas[i] for i in ideas), key=lambda idea: idea.number)

    def _begin(self, group: asyncio.TaskGroup, idea: IdeaState) -> None:
        self._taken.add(idea.idea_id)
        if self._baseline is None:  # the first idea has the baseline let to the test split
            self._baseline = group.create_task(self._run_baseline())
        group.create_task(self._run_idea(idea, self._baseline))

    async def _run_baseline(self) -> bool:
        """Return whether all seeds were scored: else nothing is confirmed.

        What the search measured stands all the same.
        """
        seeds = self.specs.fresh_seeds()
        self._spend(BASELINE_ID, BASELINE_ATTEMPT, seeds)
        reports = await self._run("the baseline", self.specs.confirm_baseline(seeds))
        for report in reports:
            if isinstance(report.outcome, IdeaFailed):
                text = (
                    f"nothing can be confirmed: {report.trial_id} failed "
                    f"({report.outcome.failure.value}): {report.outcome.detail}"
                )
                self.journal.record(NoteTaken(name="baseline unconfirmed", text=text))
                break
        return all(isinstance(report.outcome, Scored) for report in reports)

    async def _run_idea(self, idea: IdeaState, baseline: asyncio.Task[bool]) -> None:
        if idea.spent is None and not await baseline:
            return
        stands = idea.spent or idea.ended
        assert stands is not None
        assert stands.attempt is not None
        try:  # before the look is spent: a damaged copy costs none
            attempt = self._attempt(idea, stands.attempt)
            told = known_idea(self.paths.idea(idea.idea_id).idea)
        except RunDirectoryError as error:
            self.damaged.append(str(error))
            self.journal.record(
                ConfirmationSetAside(
                    idea_id=idea.idea_id, generation=self.state.generation, reason=str(error)
                )
            )
            text = f"{idea.idea_id} cannot be confirmed: {error}"
            self.journal.record(NoteTaken(name=f"{idea.idea_id} damaged", text=text))
            return
        if idea.spent is None:
            self._spend(idea.idea_id, stands.attempt, self.specs.fresh_seeds())
        assert idea.spent is not None
        tokens = self.state.tokens.get(idea.idea_id, 0)
        await self._run(idea.idea_id, self.specs.confirm(told, attempt, idea.spent.seeds, tokens))

    def _spend(self, idea_id: str, attempt: int, seeds: tuple[int, ...]) -> None:
        self.journal.record(SplitSpent(idea_id=idea_id, attempt=attempt, seeds=seeds))

    async def _run(self, whose: str, specs: Sequence[TrialSpec]) -> list[TrialReport]:
        reports = await self.trials.run(specs)
        for report in reports:
            outcome = report.outcome
            if isinstance(outcome, MachineFailed) and not self.trials.is_given_up(report.trial_id):
                self.set_aside.append(f"{whose}: {outcome.failure.value}: {outcome.detail}")
                break
        return reports

    def _attempt(self, idea: IdeaState, number: int) -> Attempt:
        """The version that was measured, as it was measured."""
        code, known = self.paths.idea(idea.idea_id).code(number), idea.code_hashes[number]
        if not code.is_dir() or hash_tree(code) != known:
            raise RunDirectoryError(
                f"{code}: is not the code that was measured; restore it from a backup"
            )
        return Attempt(idea_id=idea.idea_id, number=number, code_hash=known, note="")
