"""What an author is asked for a version of an idea's code, with all that it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hpcscientist.campaign.pursuit.course import Course
from hpcscientist.campaign.pursuit.tryout import Tryout
from hpcscientist.conduct.reference import pilot_values
from hpcscientist.conduct.strategy.steps import (
    Another,
    Completion,
    Extension,
    First,
    Improvement,
    Repair,
    Write,
)
from hpcscientist.ports.author import Author
from hpcscientist.records.asked.authoring import (
    CompleteTask,
    Draft,
    ExtendTask,
    FixTask,
    GaveUp,
    ImproveTask,
    RedraftTask,
    Variant,
)
from hpcscientist.records.outcome import IdeaFailed, Scored


@dataclass(frozen=True, slots=True)
class Asking:
    """Asks an author for versions."""

    author: Author
    tryout: Tryout

    async def ask(self, course: Course, step: Write) -> Draft | GaveUp:
        """Have a version written. Raises EndpointError."""
        match step.wish:
            case First():
                return await self.author.write(course.brief)
            case Another() as wish:
                return await self.author.redraft(_another(course, step, wish))
            case Repair() as wish:
                return await self.author.fix(self._repair(course, step, wish))
            case Completion() as wish:
                return await self.author.complete(_completion(course, step, wish))
            case Improvement() as wish:
                reference = pilot_values(course.state)
                return await self.author.improve(_improvement(course, step, wish, reference))
            case Extension() as wish:
                return await self.author.extend(_extension(course, step, wish))

    def _repair(self, course: Course, step: Write, wish: Repair) -> FixTask:
        version, tried = step.version, course.tried(step.version.parent)
        assert isinstance(tried.outcome, IdeaFailed)
        return FixTask(
            idea=course.idea,
            files=tried.draft.files,
            outcome=tried.outcome,
            log_tail=self.tryout.log_tail(tried),
            round=wish.round,
            rounds=wish.rounds,
            run=version.run,
            node=version.number if wish.grown else 0,
            earlier=_notes(course, wish.earlier),
            seen=course.seen(step.known),
        )


def _another(course: Course, step: Write, wish: Another) -> RedraftTask:
    return RedraftTask(
        brief=course.brief,
        number=step.version.number,
        earlier=_notes(course, wish.earlier),
        seen=course.seen(step.known),
    )


def _completion(course: Course, step: Write, wish: Completion) -> CompleteTask:
    return CompleteTask(
        brief=course.brief,
        files=course.draft(step.version.parent).files,
        review=course.review(step.version.parent),
        round=wish.round,
        seen=course.seen(step.known),
    )


def _improvement(
    course: Course, step: Write, wish: Improvement, reference: dict[str, float]
) -> ImproveTask:
    tried = course.tried(step.version.parent)
    return ImproveTask(
        brief=course.brief,
        files=tried.draft.files,
        number=step.version.number,
        values=tried.values,
        reference=reference,
        led=_notes(course, wish.led),
        tried=tuple(_variant(course, child, last) for child, last in wish.others),
        seen=course.seen(step.known),
    )


def _variant(course: Course, child: int, last: int) -> Variant:
    """What was made of a version, with its repairs if it took any."""
    tried, note = course.tried(last), course.draft(child).note
    outcome = tried.outcome
    if isinstance(outcome, Scored):
        return Variant(note=note, values=tried.values)
    return Variant(note=note, failure=f"{outcome.failure.value}: {outcome.detail}")


def _extension(course: Course, step: Write, wish: Extension) -> ExtendTask:
    return ExtendTask(
        brief=course.brief,
        files=course.draft(step.version.parent).files,
        run=wish.run,
        number=wish.number,
        seen=course.seen(step.known),
    )


def _notes(course: Course, numbers: Sequence[int]) -> tuple[str, ...]:
    return tuple(course.draft(number).note for number in numbers)
