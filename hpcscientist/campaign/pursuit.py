"""Pursuing one idea: its code is written, tried out and mended until it runs or is given up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hpcscientist.authoring import attempts
from hpcscientist.campaign.journal import Journal
from hpcscientist.campaign.specs import SpecFactory
from hpcscientist.campaign.state import CampaignState
from hpcscientist.campaign.trials import TrialRunner
from hpcscientist.errors import MachineTrouble, RunDirectoryError
from hpcscientist.files.atomic import read_tail
from hpcscientist.files.rundir import RunPaths
from hpcscientist.ports.author import Author
from hpcscientist.records.authoring import Draft, FixTask, GaveUp
from hpcscientist.records.events import AttemptWritten, IdeaEnded
from hpcscientist.records.idea import Attempt, Idea
from hpcscientist.records.outcome import IdeaFailed, IdeaFailure, MachineFailed, Outcome, Scored

LOG_TAIL = 16 * 1024


@dataclass(slots=True)
class Pursuit:
    """Pursues ideas. `set_aside` says which the machine failed; a driver that resumes
    takes them up again, unless `in_order`: then later ideas depend on their outcome, and
    MachineTrouble is raised at once.
    """

    debug_rounds: int
    in_order: bool
    paths: RunPaths
    journal: Journal
    state: CampaignState
    specs: SpecFactory
    trials: TrialRunner
    author: Author
    set_aside: list[str] = field(default_factory=list)

    async def pursue(self, idea: Idea) -> None:
        """Take an idea to its end, or set it aside. Raises EndpointError, DiskFull."""
        if self.state.ideas[idea.idea_id].ended is not None:
            return
        written = await self.author.write(idea)
        notes: list[str] = []
        seen: list[str] = []
        failed: IdeaFailed | None = None
        for number in range(1, self.debug_rounds + 2):
            if isinstance(written, GaveUp):
                break
            attempt = self._snapshot(idea, number, written)
            notes.append(written.note)
            seen.append(attempt.code_hash)
            outcome, trial_id = await self._try_out(idea, attempt)
            if isinstance(outcome, Scored):
                self._end(idea, "scored", None, number)
                return
            if isinstance(outcome, MachineFailed):
                self._leave_to_resume(idea, number, outcome, trial_id)
                return
            failed = outcome
            if outcome.failure is IdeaFailure.TAMPERING or number > self.debug_rounds:
                break
            task = FixTask(
                idea=idea,
                files=written.files,
                outcome=outcome,
                log_tail=read_tail(self.paths.trial(trial_id).log, LOG_TAIL),
                round=number,
                rounds=self.debug_rounds,
                earlier=tuple(notes[1:]),  # the first is no diagnosis
                seen=tuple(seen),
            )
            written = await self.author.fix(task)
        reason = _reason(failed, written, len(seen))
        standing = self._standing(idea, len(seen)) if seen else None
        self._end(idea, "failed", reason, standing)

    def _leave_to_resume(
        self, idea: Idea, number: int, outcome: MachineFailed, trial_id: str
    ) -> None:
        """Set an idea aside that the machine failed; end it if that happened under two drivers."""
        reason = f"machine failed ({outcome.failure.value}): {outcome.detail}"
        if self.state.trials[trial_id].run > self.trials.retries + 1:
            self._end(idea, "failed", reason, self._standing(idea, number))
            return
        self.set_aside.append(f"{idea.idea_id}: {reason}")
        if self.in_order:
            self.check()

    def check(self) -> None:
        """Raise MachineTrouble if ideas were set aside."""
        if self.set_aside:
            raise MachineTrouble(
                f"the machine failed trials again and again, {len(self.set_aside)} ideas wait "
                f"for it ({self.set_aside[0]}); mend that and run `hpcsci resume`"
            )

    def _snapshot(self, idea: Idea, number: int, draft: Draft) -> Attempt:
        attempt = attempts.save(
            self.paths.idea(idea.idea_id), number, draft, self.specs.recipe.reference
        )
        before = self.state.ideas[idea.idea_id].code_hashes.get(number)
        if before not in (None, attempt.code_hash):
            raise RunDirectoryError(
                f"{idea.idea_id}: attempt {number} has other code than when it was run; restore "
                "the run directory, or launch anew"
            )
        self.journal.record(
            AttemptWritten(idea_id=idea.idea_id, attempt=number, code_hash=attempt.code_hash)
        )
        return attempt

    async def _try_out(self, idea: Idea, attempt: Attempt) -> tuple[Outcome, str]:
        """Pilot, then all seeds; return the first outcome that is not scored, or the last."""
        tokens = self.state.tokens.get(idea.idea_id, 0)
        pilot = self.specs.pilot(idea, attempt, tokens)
        (report,) = await self.trials.run([pilot])
        if not isinstance(report.outcome, Scored):
            return report.outcome, pilot.trial_id
        reports = await self.trials.run(self.specs.full(idea, attempt, tokens))
        for report in reports:
            if not isinstance(report.outcome, Scored):
                return report.outcome, report.trial_id
        return reports[-1].outcome, reports[-1].trial_id

    def _standing(self, idea: Idea, last: int) -> int:
        """The latest attempt with scored seeds: a later failure never discards a good run."""
        metric = self.specs.recipe.spec.primary.name
        for number in range(last, 0, -1):
            if self.state.scores(idea.idea_id, number, metric):
                return number
        return last

    def _end(
        self,
        idea: Idea,
        status: Literal["scored", "failed"],
        reason: str | None,
        attempt: int | None,
    ) -> None:
        self.journal.record(
            IdeaEnded(idea_id=idea.idea_id, status=status, reason=reason, attempt=attempt)
        )


def _reason(failed: IdeaFailed | None, written: Draft | GaveUp, attempts_made: int) -> str:
    parts = []
    if failed is not None:
        parts.append(f"{failed.failure.value}: {failed.detail}")
    if isinstance(written, GaveUp):
        parts.append(f"given up: {written.reason}")
    elif attempts_made > 1:
        parts.append(f"after {attempts_made} attempts")
    return "; ".join(parts)
