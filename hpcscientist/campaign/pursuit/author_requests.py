"""Builds the requests for versions of an idea's code, with everything the author is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hpcscientist.campaign.pursuit.attempt_store import AttemptStore
from hpcscientist.campaign.pursuit.idea_context import IdeaContext
from hpcscientist.conduct.reference import pilot_values
from hpcscientist.conduct.strategy.linear import objected
from hpcscientist.conduct.strategy.steps import (
    Write,
    WriteCompletion,
    WriteDraft,
    WriteFix,
    WriteFurtherRun,
    WriteImprovement,
)
from hpcscientist.ports import Author
from hpcscientist.records.authoring import (
    CompleteTask,
    Draft,
    ExtendTask,
    FixTask,
    GaveUp,
    ImproveTask,
    RedraftTask,
    Variant,
)
from hpcscientist.records.trial import IdeaFailed, Scored


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
