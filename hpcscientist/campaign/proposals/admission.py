"""Admission: ideas are proposed concurrently and let in one after the other.

What was recorded of an idea stands: on resume it is read, not proposed again. Look-alikes
are judged in order of proposal, so that the verdict does not depend on timing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Literal

from hpcscientist.campaign.journal import Journal
from hpcscientist.campaign.milestones import Milestones
from hpcscientist.campaign.plan import Plan
from hpcscientist.campaign.proposals.idea_file import proposed, read_idea, record_idea
from hpcscientist.campaign.proposals.knowledge import IN_PROGRESS, Knowledge
from hpcscientist.campaign.proposals.outlook import Outlook
from hpcscientist.campaign.state import CampaignState
from hpcscientist.errors import PlaybookExhausted, ReplyError, RunDirectoryError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.ideation.bank import Bank
from hpcscientist.ports.proposer import Proposer
from hpcscientist.records.events import IdeaAdmitted, IdeaEnded, ProposalsExhausted
from hpcscientist.records.idea import Idea, Proposal, idea_id_of
from hpcscientist.records.proposing import Leader, ProposalTask

CONTROL_MODEL = "search"  # what its ideas name for their model


@dataclass(slots=True)
class Admission:
    """Has ideas proposed and lets them in.

    `control` proposes the ideas that the plan gives to the control arm, if it gives it any.
    """

    plan: Plan
    paths: RunPaths
    journal: Journal
    knowledge: Knowledge
    proposer: Proposer
    bank: Bank
    control: Proposer | None = None
    outlook: Outlook = field(default_factory=Outlook)
    ended: Milestones = field(default_factory=Milestones)
    _awaited: int = 0
    _settled: int = 1  # all ideas below that are told as outcomes have ended
    _judged: Milestones = field(default_factory=Milestones)

    @property
    def state(self) -> CampaignState:
        """What the journal says."""
        return self.knowledge.state

    def is_exhausted(self, number: int) -> bool:
        """Whether nothing is left to propose for an idea, and it was never proposed.

        The control arm ends with the model's, or it would have more than its share.
        """
        last = self.state.exhausted
        return last is not None and number >= last and idea_id_of(number) not in self.state.ideas

    async def propose(self, number: int, round_number: int) -> Idea | None:
        """Have idea `number` proposed; return it if it was let in.

        Raises EndpointError, RunDirectoryError, and ModelError of the embedder.
        """
        try:
            if self.is_exhausted(number):
                await self._turn(number)
                return None
            return await self._propose(number, round_number)
        finally:
            self._judged.reach(number)

    async def _propose(self, number: int, round_number: int) -> Idea | None:
        proposer = self._proposer(number)
        idea_id = idea_id_of(number)
        known = self._known(idea_id)
        if known is not None:
            await self._prepare(known)
            await self._turn(number)
            return await self._let_in(known)
        if self._came_to_nothing(idea_id):
            await self._turn(number)
            self._end_unusable(idea_id, number, round_number, "as an earlier driver found")
            return None
        task = await self._task(idea_id, number, round_number)
        try:
            answer = await proposer.propose(task)
        except PlaybookExhausted as error:
            self.journal.record(ProposalsExhausted(number=number, reason=str(error)))
            return None
        except ReplyError as error:
            await self._turn(number)
            self._end_unusable(idea_id, number, round_number, str(error))
            return None
        idea = Idea(
            idea_id=idea_id,
            number=number,
            round=round_number,
            proposal=answer.proposal,
            model=self.plan.model_name if proposer is self.proposer else CONTROL_MODEL,
            seed=self.plan.seed,
            shown=answer.shown,
            knobs=answer.knobs,
            mode=task.mode,
            direction=task.direction.title if task.direction else "",
            papers=tuple(reference.paper_id for reference in task.references),
            prompts=self.outlook.prompts(idea_id, number, round_number)
            if proposer is self.proposer
            else (),
        )
        await self._prepare(idea)
        await self._turn(number)  # look-alikes are judged in order of proposal
        # An earlier idea found nothing left: so it ends there, but for what was paid for.
        if proposer.by_outcomes and self.is_exhausted(number):
            return None
        return await self._let_in(idea)

    def _proposer(self, number: int) -> Proposer:
        if self.control is not None and self.plan.arm(number) == "control":
            return self.control
        return self.proposer

    def _known(self, idea_id: str) -> Idea | None:
        """The idea as it was recorded before this driver took the campaign up.

        Raises RunDirectoryError where its file is not what the journal says.
        """
        path, told = self.paths.idea(idea_id).idea, self.state.ideas.get(idea_id)
        idea = read_idea(path, told.idea_hash if told else "")
        # Without a hash it was unusable, or a driver was killed between the file and the journal.
        if idea is None and told is not None and told.idea_hash:
            raise RunDirectoryError(f"{path}: is gone; restore it from a backup")
        return idea

    def _came_to_nothing(self, idea_id: str) -> bool:
        """Whether an earlier driver got no usable proposal for an idea, which is then its end."""
        idea = self.state.ideas.get(idea_id)
        return idea is not None and not idea.idea_hash

    def _end_unusable(self, idea_id: str, number: int, round_number: int, why: str) -> None:
        self._record_proposed(_unusable(idea_id, number, round_number, self.plan), "")
        self._end(idea_id, "failed", f"no usable proposal: {why}")

    async def _prepare(self, idea: Idea) -> None:
        """Have the idea's summary embedded, beside the loop."""
        if idea.knobs is None and self._verdict(idea.idea_id) is not False:
            await asyncio.to_thread(self.bank.prepare, idea.proposal.summary)

    async def _let_in(self, idea: Idea) -> Idea | None:
        """Record an idea whose turn it is, and let it in unless it repeats another."""
        told = self.state.ideas.get(idea.idea_id)
        path = self.paths.idea(idea.idea_id).idea
        self._record_proposed(idea, told.idea_hash if told else record_idea(path, idea))
        verdict = self._verdict(idea.idea_id)
        if verdict is False:
            return None
        if not verdict:
            # Beside the loop, for a large bank takes its time; nobody else's turn comes before.
            reason, like = await asyncio.to_thread(self._likeness, idea)
            if reason is not None:
                self._end(idea.idea_id, "rejected", reason, like)
                return None
            self.journal.record(IdeaAdmitted(idea_id=idea.idea_id))
        self.bank.add(idea.idea_id, idea.proposal.summary, idea.knobs)
        return idea

    def _verdict(self, idea_id: str) -> bool | None:
        """Whether the journal shows that an idea was let in; None where it does not say.

        What it says stands: a model's vectors differ in their last digits between a CPU and a
        GPU, and a campaign may be resumed on the other.
        """
        idea = self.state.ideas.get(idea_id)
        if idea is None or (idea.ended is None and not idea.admitted):
            return None
        ended = idea.ended
        return ended is None or ended.status != "rejected" or ended.vetted

    async def _task(self, idea_id: str, number: int, round_number: int) -> ProposalTask:
        if self._proposer(number).by_outcomes:
            return await self._measured(idea_id, number, round_number)
        begun = self.outlook.begun(idea_id)
        if begun is not None:
            return begun
        leader = await self._leader(number, round_number) if self.outlook.follows else None

        def task(idea_id: str, number: int) -> ProposalTask:
            return self._informed(idea_id, number, round_number, leader)

        told = await self.outlook.directed(task, idea_id, number, round_number)
        self.outlook.begin(told)
        return told

    async def _leader(self, number: int, round_number: int) -> Leader | None:
        """The idea to be developed; waits for the baseline and all that it is chosen from."""
        before = self.outlook.settled(number, round_number)
        while self._awaited < before:
            awaited = self._awaited
            await self.ended.wait(awaited)
            self._awaited = max(self._awaited, awaited + 1)
        return self.knowledge.leader(before)

    def _informed(
        self, idea_id: str, number: int, round_number: int, leader: Leader | None
    ) -> ProposalTask:
        """What is known now, for one idea."""
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
            mode=self.outlook.mode(leader),
            instruction=self.outlook.instruction,
            references=self.outlook.references,
            leader=leader,
        )

    async def _measured(self, idea_id: str, number: int, round_number: int) -> ProposalTask:
        """What one is told who learns from outcomes alone; waits until these are there.

        They are those of its own ideas behind the campaign's lag, and of earlier rounds: which
        these are does not depend on how much runs at once, nor on who is faster.
        """
        before = max(number - self.plan.lag + 1, self.plan.first_of(round_number))
        while self._settled < before:
            settled = self._settled
            if self._proposer(settled).by_outcomes:
                await self.ended.wait(settled)
            self._settled = max(self._settled, settled + 1)
        return ProposalTask(
            idea_id=idea_id,
            number=number,
            round=round_number,
            feedback="",
            archive=(),
            scores=self.knowledge.scores(before=before),
        )

    async def _turn(self, number: int) -> None:
        if number > 1:
            await self._judged.wait(number - 1)

    def _record_proposed(self, idea: Idea, idea_hash: str) -> None:
        self.journal.record(proposed(idea, idea_hash))

    def _likeness(self, idea: Idea) -> tuple[str | None, str | None]:
        """Why an idea repeats an earlier one, None if it does not; which, if of this campaign."""
        if idea.knobs is not None:
            same = self.bank.same_knobs(idea.knobs)
            return (f"has the same knobs as {same}" if same else None), None
        near = self.bank.look_alike(idea.proposal.summary)
        if near is None:
            return None, None
        reason = f"looks like {near.words} (cosine {near.cosine:.2f})"
        return reason, None if near.origin else near.idea_id

    def _end(
        self,
        idea_id: str,
        status: Literal["failed", "rejected"],
        reason: str,
        like: str | None = None,
    ) -> None:
        self.journal.record(
            IdeaEnded(idea_id=idea_id, status=status, reason=reason, attempt=None, like=like)
        )


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
