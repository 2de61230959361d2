"""Admission: ideas are proposed concurrently and let in one after the other.

What was recorded of an idea stands: on resume it is read, not proposed again. Look-alikes
are judged in order of proposal, so that the verdict does not depend on timing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pydantic import ValidationError

from hpcscientist.campaign.journal import Journal
from hpcscientist.campaign.knowledge import IN_PROGRESS, Knowledge
from hpcscientist.campaign.milestones import Milestones
from hpcscientist.campaign.plan import Plan
from hpcscientist.errors import PlaybookExhausted, ReplyError, RunDirectoryError
from hpcscientist.files.atomic import write_text
from hpcscientist.files.rundir import RunPaths
from hpcscientist.ideation.bank import Bank
from hpcscientist.ports.proposer import Proposer
from hpcscientist.records.events import IdeaEnded, IdeaProposed, NoteTaken
from hpcscientist.records.idea import Idea, Proposal, idea_id_of
from hpcscientist.records.proposing import ProposalTask


@dataclass(slots=True)
class Admission:
    """Has ideas proposed and lets them in; `exhausted` once there are no more to propose."""

    plan: Plan
    paths: RunPaths
    journal: Journal
    knowledge: Knowledge
    proposer: Proposer
    bank: Bank
    exhausted: bool = False
    _judged: Milestones = field(default_factory=Milestones)

    async def propose(self, number: int, round_number: int) -> Idea | None:
        """Have idea `number` proposed; return it if it was let in.

        Raises EndpointError and RunDirectoryError.
        """
        try:
            return await self._propose(number, round_number)
        finally:
            self._judged.reach(number)

    async def _propose(self, number: int, round_number: int) -> Idea | None:
        if self.proposer.ordered:
            await self._turn(number)
        idea_id = idea_id_of(number)
        known = self._known(idea_id)
        if known is not None and not self.proposer.ordered:
            await self._turn(number)
            return self._let_in(known)
        task = self._task(idea_id, number, round_number)
        try:
            proposed = await self.proposer.propose(task)
        except PlaybookExhausted as error:
            self.exhausted = True
            self.journal.record(NoteTaken(name="exhausted", text=str(error)))
            return None
        except ReplyError as error:
            await self._turn(number)
            self._record_proposed(_unusable(idea_id, number, round_number, self.plan))
            self._end(idea_id, "failed", f"no usable proposal: {error}")
            return None
        await self._turn(number)  # look-alikes are judged in order of proposal
        idea = Idea(
            idea_id=idea_id,
            number=number,
            round=round_number,
            proposal=proposed.proposal,
            model=self.plan.model_name,
            seed=self.plan.seed,
            shown=proposed.shown,
            knobs=proposed.knobs,
        )
        if known is not None and (known.knobs, known.proposal) != (idea.knobs, idea.proposal):
            raise RunDirectoryError(
                f"{idea_id}: the search proposes other knobs than before, as another version of "
                "Optuna may; resume with the versions in campaign.toml, or launch anew"
            )
        return self._let_in(idea)

    def _known(self, idea_id: str) -> Idea | None:
        """The idea as it was recorded before this driver took the campaign up."""
        path = self.paths.idea(idea_id).idea
        try:
            return Idea.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise RunDirectoryError(f"{path}: is damaged; restore it from a backup") from error

    def _let_in(self, idea: Idea) -> Idea | None:
        """Record an idea whose turn it is, and let it in unless it repeats another."""
        path = self.paths.idea(idea.idea_id).idea
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, idea.model_dump_json(indent=2) + "\n")
        self._record_proposed(idea)
        reason = self._likeness(idea)
        if reason is not None:
            self._end(idea.idea_id, "rejected", reason)
            return None
        self.bank.add(idea.idea_id, idea.proposal.summary, idea.knobs)
        return idea

    def _task(self, idea_id: str, number: int, round_number: int) -> ProposalTask:
        if self.proposer.ordered:
            return ProposalTask(
                idea_id=idea_id,
                number=number,
                round=round_number,
                feedback="",
                archive=(),
                scores=self.knowledge.scores(before=self._settled(number, round_number)),
            )
        feedback, archive = self.knowledge.feedback(), self.knowledge.archive()
        told = {entry.idea_id for entry in archive if entry.finding != IN_PROGRESS}
        shown = tuple(sorted(told.union(feedback.shown)))
        return ProposalTask(
            idea_id=idea_id,
            number=number,
            round=round_number,
            feedback=feedback.text,
            archive=archive,
            scores=(),
            shown=shown,
        )

    def _settled(self, number: int, round_number: int) -> int:
        """The first idea whose outcome an ordered proposal may not depend on."""
        first_of_round = self.plan.first_of(round_number)
        return max(number - self.plan.in_flight + 1, first_of_round)

    async def _turn(self, number: int) -> None:
        if number > 1:
            await self._judged.wait(number - 1)

    def _record_proposed(self, idea: Idea) -> None:
        self.knowledge.remember(idea)
        self.journal.record(
            IdeaProposed(
                idea_id=idea.idea_id,
                number=idea.number,
                round=idea.round,
                title=idea.proposal.title,
                parent_ids=idea.proposal.parent_ids,
            )
        )

    def _likeness(self, idea: Idea) -> str | None:
        """Why an idea repeats an earlier one; None if it does not."""
        if idea.knobs is not None:
            same = self.bank.same_knobs(idea.knobs)
            return f"has the same knobs as {same}" if same else None
        near = self.bank.look_alike(idea.proposal.summary)
        return f"looks like {near.idea_id} (cosine {near.cosine:.2f})" if near else None

    def _end(self, idea_id: str, status: Literal["failed", "rejected"], reason: str) -> None:
        self.journal.record(IdeaEnded(idea_id=idea_id, status=status, reason=reason, attempt=None))


def _unusable(idea_id: str, number: int, round_number: int, plan: Plan) -> Idea:
    """A place holder in the record for a proposal that never came."""
    nothing = "(the model gave no usable proposal)"
    return Idea(
        idea_id=idea_id,
        number=number,
        round=round_number,
        proposal=Proposal(
            title=nothing,
            hypothesis=nothing,
            method=nothing,
            experiment_plan=nothing,
            summary=nothing,
        ),
        model=plan.model_name,
        seed=plan.seed,
    )
