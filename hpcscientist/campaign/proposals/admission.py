"""Admission: ideas are proposed concurrently and admitted one after the other.

A recorded proposal is final: it is in idea.json, and the journal has that file's hash. Look-alikes
are judged in the order of their numbers, so that the verdict does not depend on timing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import RootModel

from hpcscientist.campaign.integrity import FileIntegrity, V, once
from hpcscientist.campaign.proposals.idea_file import (
    known_idea,
    proposed,
    read_idea,
    write_idea,
)
from hpcscientist.campaign.proposals.proposal_context import IN_PROGRESS, Knowledge, ProposalContext
from hpcscientist.config.extent import Extent
from hpcscientist.errors import IdeaDamaged, LibraryError, PlaybookExhausted, ReplyError
from hpcscientist.files.hashing import hash_bytes
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.entities import IdeaState
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.ideation.bank import Bank, touched
from hpcscientist.models.role_client import UNANSWERED
from hpcscientist.ports import Proposer, Reconsider
from hpcscientist.records.events import (
    IdeaAdmitted,
    IdeaEnded,
    IdeaRevised,
    NoteTaken,
    ProposalsExhausted,
)
from hpcscientist.records.idea import Idea, Proposal, idea_id_of
from hpcscientist.records.literature import ConceptRecord
from hpcscientist.records.proposing import Leader, ProposalTask, Repeated, Vetted

if TYPE_CHECKING:
    from hpcscientist.literature.analyst import Analyst
    from hpcscientist.models.stage import Judge, VettingStage


# Vetting: checks an idea's novelty and feasibility before code is written for it.
#
# Ideas are vetted concurrently: no verdict depends on another idea. A rejected idea keeps its
# file with the verdict and the evidence for it.


class Concepts(RootModel[tuple[ConceptRecord, ...]]):
    """The content of concepts.json."""


@dataclass(slots=True)
class Vetting:
    """Vets ideas with its judges, in order; `analyst` None: no concepts are looked up."""

    paths: RunPaths
    journal: Journal
    state: CampaignState
    integrity: FileIntegrity
    judges: Sequence[tuple[VettingStage[Any], Judge]] = ()
    analyst: Analyst | None = None

    async def vet(self, idea: Idea) -> Vetted | None:
        """Return an idea that goes on, None for one that was rejected. Raises EndpointError."""
        if idea.arm == "control":  # a search uses no literature, and its settings always fit
            return Vetted(idea=idea)
        if not self.state.ideas[idea.idea_id].attempts:  # else it was vetted before
            reason = await self._objection(idea)
            if reason is not None:
                ended = IdeaEnded(
                    idea_id=idea.idea_id,
                    status="rejected",
                    reason=reason,
                    attempt=None,
                    vetted=True,
                )
                self.journal.record(ended)
                return None
        return Vetted(idea=idea, concepts=await self.concepts(idea))

    async def _objection(self, idea: Idea) -> str | None:
        for stage, judge in self.judges:
            path = self.paths.idea(idea.idea_id).verdict(stage.name)
            try:
                found = await self._once(path, stage.verdict, partial(judge.judge, idea))
            except LibraryError as error:
                # This is no evidence against the idea, and no verdict is recorded.
                self._note(f"{idea.idea_id}: its {stage.name} is undecided, for {error}")
                continue
            if found.objection is not None:
                return str(found.objection)
        return None

    async def concepts(self, idea: Idea) -> tuple[ConceptRecord, ...]:
        """Return an idea's concepts as the library knows them; they are looked up only once."""
        if self.analyst is None or idea.arm == "control":
            return ()
        analyst = self.analyst

        async def make() -> Concepts:
            return Concepts(await analyst.analyse(idea))

        try:
            path = self.paths.idea(idea.idea_id).concepts
            return (await self._once(path, Concepts, make)).root
        except LibraryError as error:
            self._note(f"{idea.idea_id}: its concepts are not looked up, for {error}")
            return ()

    async def _once(self, path: Path, kind: type[V], make: Callable[[], Awaitable[V]]) -> V:
        return await once(path, kind, make, self.integrity)

    def _note(self, text: str) -> None:
        self.journal.record(NoteTaken(name="library", text=text))


CONTROL_MODEL = "search"  # the model name that the control arm's ideas record


@dataclass(slots=True)
class Admission:
    """Asks for proposals and admits ideas.

    `control` proposes the ideas that the extent assigns to the control arm, if any. `reconsider`
    replaces a proposal that repeats an earlier idea; None: such a proposal is rejected at once.
    """

    extent: Extent
    paths: RunPaths
    journal: Journal
    knowledge: Knowledge
    proposer: Proposer
    bank: Bank
    integrity: FileIntegrity
    control: Proposer | None = None
    context: ProposalContext = field(default_factory=ProposalContext)
    reconsider: Reconsider | None = None
    names: frozenset[str] = frozenset()  # of the reference's code that ideas may change
    _preparing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _is_prepared: bool = False
    _is_banked: bool = False

    @property
    def state(self) -> CampaignState:
        """The campaign's state."""
        return self.knowledge.state

    async def propose(self, number: int, round_number: int) -> None:
        """Ask for idea `number` and record it. Raises EndpointError, RunDirectoryError."""
        idea_id, proposer = idea_id_of(number), self._proposer(number)
        path = self.paths.idea(idea_id).idea
        # A driver may have been killed between the file and the journal.
        idea = read_idea(path, read=partial(self.integrity.read, recorded=False))
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
        if idea.knobs is None:  # embed in a thread, concurrently with earlier ideas
            await asyncio.to_thread(self.bank.prepare, idea.proposal.summary)
        idea_hash = self._write(path, idea)
        self.journal.record(proposed(idea, idea_hash, touched(idea.proposal, self.names)))

    def _write(self, path: Path, idea: Idea) -> str:
        """Write an idea's file and its copy; return its hash."""
        text = write_idea(path, idea)
        self.integrity.keep(path, text)
        return hash_bytes(text.encode())

    async def admit(self, number: int) -> None:
        """Admit the next idea in order of number, unless it repeats an earlier one: then it goes
        back to its proposer once. Raises the embedder's ModelError, EndpointError,
        RunDirectoryError.
        """
        idea = self.state.ideas[idea_id_of(number)]
        if not idea.idea_hash:
            self._end(idea.idea_id, "failed", "no usable proposal: as an earlier driver found")
            return
        async with self._preparing:
            await self._bank()
        # In a thread, because a large bank is slow; no other idea of this arm is judged meanwhile.
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
        """Ask once for another proposal in place of a look-alike; return whether there is one.

        If the driver is killed meanwhile, the next one asks the same and gets the recorded replies.
        """
        if self.reconsider is None or idea.knobs is not None or idea.revised:
            return False
        path, other = self.paths.idea(idea.idea_id).idea, self.state.ideas.get(like or "")
        read = self.integrity.read
        try:
            known = known_idea(path, read=read)
            if hash_bytes(read(path)) == idea.idea_hash:  # else a killed driver already revised it
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
        except (*UNANSWERED, IdeaDamaged):
            return False
        proposal = known.proposal
        await asyncio.to_thread(self.bank.prepare, proposal.summary)
        idea_hash = self._write(path, known)
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
        """Prepare the proposal context, once, before the first idea."""
        async with self._preparing:
            if not self._is_prepared:
                await self.context.prepare()
                self._is_prepared = True

    async def _bank(self) -> None:
        """Fill the bank with the ideas that earlier drivers admitted, once.

        They are not judged again: an embedding model's vectors differ in their last digits between
        CPU and GPU, and a campaign may resume on the other one.
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
        """Return one idea's task with everything that is known now."""
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
        """Return the task of a proposer that learns from outcomes alone.

        It gets the scores of its own ideas that are `lag` or more behind, and of earlier rounds.
        This set does not depend on how many ideas run at once, nor on which ends first.
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
        """Return why an idea repeats an earlier one, or None; and its id if of this campaign."""
        if idea.knobs is not None:
            same = self.bank.same_knobs(idea.knobs)
            return (f"has the same knobs as {same}" if same else None), None
        near = self.bank.look_alike(idea.summary, idea.title, idea.touches)
        if near is None:
            return None, None
        same = f" of titles, both change {', '.join(near.changes)}" if near.changes else ""
        reason = f"looks like {near.words} (cosine {near.cosine:.2f}{same})"
        if near.same_title:
            reason = f"has the title of {near.words}"
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
    """Return whether an idea was admitted; the first journal version did not always record it."""
    if idea.admitted or idea.ended is None:
        return idea.admitted
    return bool(idea.idea_hash) and (idea.ended.status != "rejected" or idea.ended.vetted)


def _unusable(idea_id: str, number: int, round_number: int, extent: Extent) -> Idea:
    """Return a placeholder for an idea without a usable proposal."""
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
