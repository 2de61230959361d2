"""Takes the steps of open ideas that `decide` asks for, and keeps the ideas' notes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from hpcscientist.authoring.planner import PLAN
from hpcscientist.authoring.review.advisor import ADVISE
from hpcscientist.authoring.run_reading import ANALYSE
from hpcscientist.campaign.agents import Agents, Session
from hpcscientist.campaign.proposals.admission import Vetting
from hpcscientist.campaign.proposals.idea_file import known_idea
from hpcscientist.campaign.pursuit.attempt_store import AttemptStore
from hpcscientist.campaign.pursuit.code_workflow import Analysis, CodeWorkflow
from hpcscientist.campaign.pursuit.idea_context import IdeaContext
from hpcscientist.campaign.pursuit.notes_writer import NotesWriter
from hpcscientist.conduct.actions import Take
from hpcscientist.conduct.idea_outcomes import IdeaOutcomes
from hpcscientist.conduct.reference import pilot_values
from hpcscientist.conduct.rules import Rules
from hpcscientist.conduct.strategy.linear import objected
from hpcscientist.conduct.strategy.steps import (
    Abandon,
    Conclude,
    Read,
    Review,
    SetAside,
    Write,
    WriteCompletion,
    WriteDraft,
    WriteFix,
    WriteFurtherRun,
    WriteImprovement,
)
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.literature.analyst import CONCEPTS
from hpcscientist.ports import Author
from hpcscientist.records.authoring import (
    Brief,
    CompleteTask,
    Draft,
    ExtendTask,
    FixTask,
    GaveUp,
    ImproveTask,
    RedraftTask,
    Variant,
)
from hpcscientist.records.events import IdeaBriefed, IdeaEnded, IdeaSetAside
from hpcscientist.records.idea import Idea
from hpcscientist.records.trial import IdeaFailed, Scored

# Builds the requests for versions of an idea's code, with everything the author is shown.


@dataclass(frozen=True, slots=True)
class AuthorRequests:
    """Asks an author for versions."""

    author: Author
    attempt_store: AttemptStore

    async def ask(self, context: IdeaContext, step: Write) -> Draft | GaveUp:
        """Return the version that the author writes, or why it gave up. Raises EndpointError."""
        match step:
            case WriteDraft() if step.version.number == 1:
                return await self.author.write(context.brief)
            case WriteDraft():
                return await self.author.redraft(_redraft(context, step))
            case WriteFix():
                return await self.author.fix(self._fix(context, step))
            case WriteCompletion():
                return await self.author.complete(_completion(context, step))
            case WriteImprovement():
                return await self.author.improve(_improvement(context, step))
            case WriteFurtherRun():
                return await self.author.extend(_further_run(context, step))
            case _:
                raise AssertionError(f"no request is known for {type(step).__name__}")

    def _fix(self, context: IdeaContext, step: WriteFix) -> FixTask:
        version, tried = step.version, context.tried(step.version.parent)
        outcome = objected(step.objection) if step.objection else tried.outcome
        assert isinstance(outcome, IdeaFailed)
        return FixTask(
            idea=context.idea,
            files=tried.draft.files,
            outcome=outcome,
            log_tail=self.attempt_store.log_tail(tried),
            round=step.round,
            rounds=step.rounds,
            run=version.run,
            node=version.number if step.grown else 0,
            earlier=_notes(context, step.earlier),
            seen=context.seen(step.known),
        )


def _redraft(context: IdeaContext, step: WriteDraft) -> RedraftTask:
    return RedraftTask(
        brief=context.brief,
        number=step.version.number,
        earlier=_notes(context, step.earlier),
        seen=context.seen(step.known),
    )


def _completion(context: IdeaContext, step: WriteCompletion) -> CompleteTask:
    return CompleteTask(
        brief=context.brief,
        files=context.draft(step.version.parent).files,
        review=context.review(step.version.parent),
        round=step.round,
        seen=context.seen(step.known),
    )


def _improvement(context: IdeaContext, step: WriteImprovement) -> ImproveTask:
    tried = context.tried(step.version.parent)
    return ImproveTask(
        brief=context.brief,
        files=tried.draft.files,
        number=step.version.number,
        values=tried.values,
        reference=pilot_values(context.state),
        led=_notes(context, step.led),
        tried=tuple(_variant(context, child, last) for child, last in step.others),
        seen=context.seen(step.known),
    )


def _variant(context: IdeaContext, child: int, last: int) -> Variant:
    """Return an earlier child of a version, with the outcome of its last repair if it had any."""
    tried, note = context.tried(last), context.draft(child).note
    outcome = tried.outcome
    if isinstance(outcome, Scored):
        return Variant(note=note, values=tried.values)
    return Variant(note=note, failure=f"{outcome.failure.value}: {outcome.detail}")


def _further_run(context: IdeaContext, step: WriteFurtherRun) -> ExtendTask:
    return ExtendTask(
        brief=context.brief,
        files=context.draft(step.version.parent).files,
        run=step.run,
        number=step.number,
        seen=context.seen(step.known),
    )


def _notes(context: IdeaContext, numbers: Sequence[int]) -> tuple[str, ...]:
    return tuple(context.draft(number).note for number in numbers)


@dataclass(frozen=True, slots=True)
class _Open:
    """The objects that a driver keeps in memory for an idea that it pursues."""

    context: IdeaContext
    notes_writer: NotesWriter


@dataclass(slots=True)
class IdeaRunner:
    """Pursues ideas for one driver. `analysis` is None if there is no analyst."""

    rules: Rules
    journal: Journal
    state: CampaignState
    attempt_store: AttemptStore
    vetting: Vetting
    workflow: CodeWorkflow
    requests: AuthorRequests
    analysis: Analysis | None
    _open: dict[str, _Open] = field(default_factory=dict)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def brief(self, idea_id: str) -> None:
        """Vet an idea, look it up and plan it. Raises EndpointError, RunDirectoryError."""
        vetted = await self.vetting.vet(self._idea(idea_id))
        if vetted is None:
            return
        brief = await self.workflow.plan(vetted)
        parts = () if brief.plan is None else tuple(brief.plan.ablations)
        self.journal.record(IdeaBriefed(idea_id=idea_id, parts=parts))
        self._open[idea_id] = self._opened(brief)

    async def _at_hand(self, idea_id: str) -> _Open | None:
        """Return the context of a briefed idea, None if it is no longer open. Raises
        IdeaDamaged.
        """
        async with self._opening:  # two of its trials may have ended at once
            if idea_id not in self._open:
                idea = self._idea(idea_id)
                brief = Brief(idea=idea, concepts=await self.vetting.concepts(idea))
                if idea_id not in self.state.progress.open:
                    return None
                self._open[idea_id] = self._opened(brief)
            return self._open[idea_id]

    def _opened(self, brief: Brief) -> _Open:
        planned, remark = self.workflow.planned(brief) or (brief, "")
        place = self.attempt_store.paths.idea(brief.idea.idea_id)
        reference, integrity = (
            self.attempt_store.specs.recipe.reference,
            self.attempt_store.integrity,
        )
        context = IdeaContext(planned, reference, self.state, place, integrity)
        notes_writer = NotesWriter(self.attempt_store, planned)
        notes_writer.planned(remark)
        return _Open(context, notes_writer)

    async def take(self, action: Take) -> None:
        """Take a step that runs no trial. Raises EndpointError, RunDirectoryError."""
        idea_id, step = action.idea_id, action.step
        opened = await self._at_hand(idea_id)
        if opened is None:
            return
        context = opened.context
        match step:
            case Write():
                await self._write(context, step)
            case Review(number, idle):
                await self.workflow.review(context, number, idle)
            case Read():
                assert self.analysis is not None  # else no strategy asks for a reading
                await self.analysis.read(context, step)
            case Abandon(task, reason, number):
                self.workflow.give_up(idea_id, task, reason, number)
            case Conclude():
                await self._conclude(idea_id, step)
                return
            case SetAside():
                self._set_aside(idea_id, step)
                return
        await self.note(idea_id)

    async def note(self, idea_id: str) -> None:
        """Add what has happened since the last call to the notes. Raises RunDirectoryError."""
        idea = self.state.ideas[idea_id]
        if idea.briefed is None or idea_id not in self.state.progress.open:
            return
        opened = await self._at_hand(idea_id)
        if opened is not None:
            strategy = self.rules.strategies.of(idea.number, idea.arm, idea.briefed.parts)
            told = strategy.next(IdeaOutcomes(self.state, self.rules, idea)).told
            opened.notes_writer.tell(opened.context, told)

    async def _write(self, context: IdeaContext, step: Write) -> None:
        idea_id, version = context.idea.idea_id, step.version
        made = await self.requests.ask(context, step)
        if isinstance(made, GaveUp):
            self.workflow.give_up(idea_id, step.task, made.reason)
            return
        self.attempt_store.keep(idea_id, version.number, made, version.parent, version.kind)
        context.remember(version.number, made)

    async def _conclude(self, idea_id: str, last: Conclude) -> None:
        """Record how an idea ended."""
        await self.note(idea_id)
        self._open.pop(idea_id).notes_writer.concluded(last.status, last.attempt, last.reason)
        self.journal.record(
            IdeaEnded(idea_id=idea_id, status=last.status, reason=last.reason, attempt=last.attempt)
        )

    def _set_aside(self, idea_id: str, last: SetAside) -> None:
        """Record that an idea waits for the next driver after machine failures."""
        self._leave(idea_id, last.trial_id, last.reason)

    def leave(self, idea_id: str, why: str) -> None:
        """Leave an idea to the next driver, because its files differ from what was recorded."""
        self._leave(idea_id, "", why)

    def _leave(self, idea_id: str, trial_id: str, reason: str) -> None:
        self._open.pop(idea_id, None)
        generation = self.state.generation
        event = IdeaSetAside(
            idea_id=idea_id, generation=generation, trial_id=trial_id, reason=reason
        )
        self.journal.record(event)

    def _idea(self, idea_id: str) -> Idea:
        path = self.attempt_store.paths.idea(idea_id).idea
        read = self.attempt_store.integrity.read
        return known_idea(path, self.state.ideas[idea_id].idea_hash, read)


# Wires up the idea runner of a campaign.


def idea_runner(
    rules: Rules, session: Session, agents: Agents, attempt_store: AttemptStore
) -> IdeaRunner:
    """Return the idea runner for a campaign's configuration."""
    paths, journal, state = session.paths, session.journal, session.state
    stages = agents.stages
    analyst = stages.get(ANALYSE)
    return IdeaRunner(
        rules=rules,
        journal=journal,
        state=state,
        attempt_store=attempt_store,
        vetting=Vetting(
            paths=paths,
            journal=journal,
            state=state,
            integrity=attempt_store.integrity,
            judges=stages.judges(),
            analyst=stages.get(CONCEPTS),
        ),
        workflow=CodeWorkflow(
            *(paths, journal, state, attempt_store.integrity),
            planner=stages.get(PLAN),
            advisor=stages.get(ADVISE),
        ),
        requests=AuthorRequests(agents.author, attempt_store),
        analysis=None if analyst is None else Analysis(analyst, attempt_store),
    )
