"""Admission: ideas are proposed side by side and let in one after the other.

What was recorded of an idea stands: its proposal is in idea.json, of which the journal has the
hash. Look-alikes are judged in order of proposal, so that the verdict does not depend on timing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from hpcscientist.campaign.integrity import Integrity
from hpcscientist.campaign.proposals.idea_file import (
    known_idea,
    proposed,
    read_idea,
    record_idea,
    rewrite_idea,
)
from hpcscientist.campaign.proposals.proposal_context import IN_PROGRESS, Knowledge, ProposalContext
from hpcscientist.config.extent import Extent
from hpcscientist.errors import IdeaDamaged, PlaybookExhausted, ReplyError
from hpcscientist.files.handed import read_regular
from hpcscientist.files.hashing import hash_file
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.entities import IdeaState
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.ideation.bank import Bank, touched
from hpcscientist.models.role_client import UNANSWERED
from hpcscientist.ports import Proposer, Reconsider
from hpcscientist.records.events import IdeaAdmitted, IdeaEnded, IdeaRevised, ProposalsExhausted
from hpcscientist.records.idea import Idea, Proposal, idea_id_of
from hpcscientist.records.proposing import Leader, ProposalTask, Repeated

CONTROL_MODEL = "search"  # what its ideas name for their model


@dataclass(slots=True)
class Admission:
    """Has ideas proposed and lets them in.

    `control` proposes the ideas that the extent gives to the control arm, if it gives it any.
    `reconsider` gives another proposal for one that repeats an earlier idea; None: nobody does.
    """

    extent: Extent
    paths: RunPaths
    journal: Journal
    knowledge: Knowledge
    proposer: Proposer
    bank: Bank
    integrity: Integrity
    control: Proposer | None = None
    context: ProposalContext = field(default_factory=ProposalContext)
    reconsider: Reconsider | None = None
    names: frozenset[str] = frozenset()  # of the reference's code that ideas may change
    _preparing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _is_prepared: bool = False
    _is_banked: bool = False

    @property
    def state(self) -> CampaignState:
        """What the journal says."""
        return self.knowledge.state

    async def propose(self, number: int, round_number: int) -> None:
        """Have idea `number` proposed. Raises EndpointError, RunDirectoryError."""
        idea_id, proposer = idea_id_of(number), self._proposer(number)
        path = self.paths.idea(idea_id).idea
        self.integrity.check(path, recorded=False)
        # A driver may have been killed between the file and the journal.
        idea = read_idea(path)
        if idea is None:
            await self._prepare()
            task = await self._task(idea_id, number, round_number)
            try:
                answer = await proposer.propose(task)
            except PlaybookExhausted as error:
                self.journal.record(ProposalsExhausted(number=number, reason=str(error)))
                return
            except ReplyError as error:
                self.journal.record(
                    proposed(_unusable(idea_id, number, round_number, self.extent), "")
                )
                self._end(idea_id, "failed", f"no usable proposal: {error}")
                return
            idea = Idea(
                idea_id=idea_id,
                number=number,
                round=round_number,
                proposal=answer.proposal,
                model=self.extent.model_name if proposer is self.proposer else CONTROL_MODEL,
                seed=self.extent.seed,
                shown=answer.shown,
                knobs=answer.knobs,
                mode=task.mode,
                direction=task.direction.title if task.direction else "",
                papers=tuple(reference.paper_id for reference in task.references),
                prompts=self.context.prompts(idea_id, number, round_number)
                if proposer is self.proposer
                else (),
            )
        if idea.knobs is None:  # embedded beside the loop, and beside those before it
            await asyncio.to_thread(self.bank.prepare, idea.proposal.summary)
        idea_hash = record_idea(path, idea)
        self.integrity.keep(path, read_regular(path).decode())
        self.journal.record(proposed(idea, idea_hash, touched(idea.proposal, self.names)))

    async def admit(self, number: int) -> None:
        """Let an idea in whose turn it is, unless it repeats another: then it goes back to its
        proposer once. Raises ModelError of the embedder, EndpointError, RunDirectoryError.
        """
        idea = self.state.ideas[idea_id_of(number)]
        if not idea.idea_hash:
            self._end(idea.idea_id, "failed", "no usable proposal: as an earlier driver found")
            return
        async with self._preparing:
            await self._bank()
        # Beside the loop, for a large bank takes its time; nobody else's turn comes before.
        reason, like = await asyncio.to_thread(self._likeness, idea)
        if reason is not None and await self._is_revised(idea, reason, like):
            reason, like = await asyncio.to_thread(self._likeness, idea)
        if reason is not None:
            still = "went back to its proposer once, and still " if idea.revised else ""
            self._end(idea.idea_id, "rejected", still + reason, like)
            return
        self.journal.record(IdeaAdmitted(idea_id=idea.idea_id))
        self._add(idea)

    async def _is_revised(self, idea: IdeaState, reason: str, like: str | None) -> bool:
        """Have another idea proposed in place of a look-alike, once; whether there is one.

        A driver may be killed meanwhile: the next one asks the same, and is given what was said.
        """
        if self.reconsider is None or idea.knobs is not None or idea.revised:
            return False
        path, other = self.paths.idea(idea.idea_id).idea, self.state.ideas.get(like or "")
        self.integrity.check(path)
        try:
            known = known_idea(path)
            if hash_file(path) == idea.idea_hash:  # else it was revised, and the driver killed
                repeated = Repeated(
                    proposal=known.proposal,
                    title=other.title if other else "",
                    summary=other.summary if other else "",
                    reason=reason,
                )
                task = await self._task(idea.idea_id, idea.number, idea.round)
                proposal = await self.reconsider(task, repeated)
                prompts = self.context.prompts(idea.idea_id, idea.number, idea.round)
                known = known.model_copy(update={"proposal": proposal, "prompts": prompts})
                rewrite_idea(path, known)
        except (*UNANSWERED, IdeaDamaged):
            return False
        proposal, idea_hash = known.proposal, hash_file(path)
        await asyncio.to_thread(self.bank.prepare, proposal.summary)
        self.integrity.keep(path, read_regular(path).decode())
        self.journal.record(
            IdeaRevised(
                idea_id=idea.idea_id,
                title=proposal.title,
                parent_ids=proposal.parent_ids,
                summary=proposal.summary,
                idea_hash=idea_hash,
                changes=touched(proposal, self.names),
                like=like or "",
            )
        )
        return True

    def _add(self, idea: IdeaState) -> None:
        self.bank.add(idea.idea_id, idea.summary, idea.knobs, idea.title, idea.touches)

    async def _prepare(self) -> None:
        """Have ready what is needed before the first idea; whoever comes first sees to it."""
        async with self._preparing:
            if not self._is_prepared:
                await self.context.prepare()
                self._is_prepared = True

    async def _bank(self) -> None:
        """Remember what earlier drivers let in. What the journal says of that stands: a model's
        vectors differ in their last digits between a CPU and a GPU, and a campaign may be resumed
        on the other.
        """
        if self._is_banked:
            return
        for idea in self.state.in_order():
            if _was_let_in(idea):
                await asyncio.to_thread(self._add, idea)
        self._is_banked = True

    def _proposer(self, number: int) -> Proposer:
        if self.control is not None and self.extent.arm(number) == "control":
            return self.control
        return self.proposer

    async def _task(self, idea_id: str, number: int, round_number: int) -> ProposalTask:
        if self._proposer(number).by_outcomes:
            return self._measured(idea_id, number, round_number)
        begun = self.context.begun(idea_id)
        if begun is not None:
            return begun
        leader = None
        if self.context.follows:
            leader = self.knowledge.leader(self.context.settled(number, round_number))
        task = partial(self._informed, round_number=round_number, leader=leader)
        told = await self.context.directed(task, idea_id, number, round_number)
        self.context.begin(told)
        return told

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
            mode=self.context.mode(leader),
            instruction=self.context.instruction,
            references=self.context.references,
            leader=leader,
        )

    def _measured(self, idea_id: str, number: int, round_number: int) -> ProposalTask:
        """What one is told who learns from outcomes alone.

        They are those of its own ideas behind the campaign's lag, and of earlier rounds: which
        these are does not depend on how much runs at once, nor on who is faster.
        """
        before = max(number - self.extent.lag + 1, self.extent.first_of(round_number))
        return ProposalTask(
            idea_id=idea_id,
            number=number,
            round=round_number,
            feedback="",
            archive=(),
            scores=self.knowledge.scores(before=before),
        )

    def _likeness(self, idea: IdeaState) -> tuple[str | None, str | None]:
        """Why an idea repeats an earlier one, None if it does not; which, if of this campaign."""
        if idea.knobs is not None:
            same = self.bank.same_knobs(idea.knobs)
            return (f"has the same knobs as {same}" if same else None), None
        near = self.bank.look_alike(idea.summary, idea.title, idea.touches)
        if near is None:
            return None, None
        same = f" of titles, both change {', '.join(near.changes)}" if near.changes else ""
        reason = f"looks like {near.words} (cosine {near.cosine:.2f}{same})"
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


def _was_let_in(idea: IdeaState) -> bool:
    """Whether an idea is what others may look like: the first version of the journal does not say
    of all that were let in.
    """
    if idea.admitted or idea.ended is None:
        return idea.admitted
    return bool(idea.idea_hash) and (idea.ended.status != "rejected" or idea.ended.vetted)


def _unusable(idea_id: str, number: int, round_number: int, extent: Extent) -> Idea:
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
        model=extent.model_name,
        seed=extent.seed,
    )
