"""Builds the requests for versions of an idea's code, with everything the author is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hpcscientist.campaign.pursuit.attempt_store import AttemptStore
from hpcscientist.campaign.pursuit.idea_context import IdeaContext
from hpcscientist.conduct.reference import pilot_values
from hpcscientist.conduct.strategy.linear import IDLE
from hpcscientist.conduct.strategy.steps import (
    Another,
    Completion,
    Extension,
    First,
    Improvement,
    Repair,
    Write,
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
        match step.wish:
            case First():
                return await self.author.write(context.brief)
            case Another() as wish:
                return await self.author.redraft(_another(context, step, wish))
            case Repair() as wish:
                return await self.author.fix(self._repair(context, step, wish))
            case Completion() as wish:
                return await self.author.complete(_completion(context, step, wish))
            case Improvement() as wish:
                reference = pilot_values(context.state)
                return await self.author.improve(_improvement(context, step, wish, reference))
            case Extension() as wish:
                return await self.author.extend(_extension(context, step, wish))

    def _repair(self, context: IdeaContext, step: Write, wish: Repair) -> FixTask:
        version, tried = step.version, context.tried(step.version.parent)
        outcome = IDLE if wish.idle else tried.outcome
        assert isinstance(outcome, IdeaFailed)
        return FixTask(
            idea=context.idea,
            files=tried.draft.files,
            outcome=outcome,
            log_tail=self.attempt_store.log_tail(tried),
            round=wish.round,
            rounds=wish.rounds,
            run=version.run,
            node=version.number if wish.grown else 0,
            earlier=_notes(context, wish.earlier),
            seen=context.seen(step.known),
        )


def _another(context: IdeaContext, step: Write, wish: Another) -> RedraftTask:
    return RedraftTask(
        brief=context.brief,
        number=step.version.number,
        earlier=_notes(context, wish.earlier),
        seen=context.seen(step.known),
    )


def _completion(context: IdeaContext, step: Write, wish: Completion) -> CompleteTask:
    return CompleteTask(
        brief=context.brief,
        files=context.draft(step.version.parent).files,
        review=context.review(step.version.parent),
        round=wish.round,
        seen=context.seen(step.known),
    )


def _improvement(
    context: IdeaContext, step: Write, wish: Improvement, reference: dict[str, float]
) -> ImproveTask:
    tried = context.tried(step.version.parent)
    return ImproveTask(
        brief=context.brief,
        files=tried.draft.files,
        number=step.version.number,
        values=tried.values,
        reference=reference,
        led=_notes(context, wish.led),
        tried=tuple(_variant(context, child, last) for child, last in wish.others),
        seen=context.seen(step.known),
    )


def _variant(context: IdeaContext, child: int, last: int) -> Variant:
    """Return an earlier child of a version, with the outcome of its last repair if it had any."""
    tried, note = context.tried(last), context.draft(child).note
    outcome = tried.outcome
    if isinstance(outcome, Scored):
        return Variant(note=note, values=tried.values)
    return Variant(note=note, failure=f"{outcome.failure.value}: {outcome.detail}")


def _extension(context: IdeaContext, step: Write, wish: Extension) -> ExtendTask:
    return ExtendTask(
        brief=context.brief,
        files=context.draft(step.version.parent).files,
        run=wish.run,
        number=wish.number,
        seen=context.seen(step.known),
    )


def _notes(context: IdeaContext, numbers: Sequence[int]) -> tuple[str, ...]:
    return tuple(context.draft(number).note for number in numbers)
