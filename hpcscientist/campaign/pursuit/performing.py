"""Doing a step: an author, a reviewer or an analyst is asked, or trials are run."""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.campaign.pursuit.analysis import Analysis
from hpcscientist.campaign.pursuit.asking import Asking
from hpcscientist.campaign.pursuit.course import Course
from hpcscientist.campaign.pursuit.craft import Craft, lacking
from hpcscientist.campaign.pursuit.effort import Effort, given_up
from hpcscientist.campaign.pursuit.tryout import Tried, Tryout
from hpcscientist.campaign.reference import Reference
from hpcscientist.campaign.strategy.steps import (
    Abandon,
    AnyStep,
    Climb,
    Conclude,
    Judged,
    Measured,
    Pilot,
    Piloted,
    Read,
    Review,
    Seeds,
    SetAside,
    Write,
    Written,
)
from hpcscientist.files.hashing import hash_texts
from hpcscientist.records.authoring import GaveUp


@dataclass(slots=True)
class Performer:
    """Does steps, all but an idea's last. What was done before is not done again.

    `catches_nothing_done`: a version that predicts what the reference predicts is no attempt. The
    control arm may draw the reference's own settings, so there it is one.
    """

    craft: Craft
    asking: Asking
    tryout: Tryout
    effort: Effort
    reference: Reference
    analysis: Analysis | None
    catches_nothing_done: bool

    async def perform(self, course: Course, step: AnyStep) -> object:
        """Return what a step comes to. Raises EndpointError, DiskFull, RunDirectoryError."""
        match step:
            case Pilot() | Climb() | Seeds():
                return await self._run(course, step)
            case Write() | Review() | Read():
                return await self._ask(course, step)
            case Abandon(task, reason):
                self.craft.give_up(course.brief, task, reason)
                return None
            case Conclude() | SetAside():
                raise AssertionError("an idea's last step is its pursuit's")

    async def _run(self, course: Course, step: Pilot | Climb | Seeds) -> Piloted | Measured:
        if isinstance(step, Pilot):
            return await self._pilot(course, step)
        idea, tried = course.idea, course.tried[step.version.number]
        if isinstance(step, Climb):
            tried, more = await self.effort.climb(idea, tried, step.index)
        elif step.version.run:
            tried, more = await self.tryout.seeds(idea, tried, step.which), 0
        else:
            tried, more = await self.effort.seeds(idea, tried, step.which)
        return self._measured(course, tried, more)

    async def _ask(self, course: Course, step: Write | Review | Read) -> object:
        match step:
            case Write():
                return await self._write(course, step)
            case Review(number, idle):
                review = await self.craft.review(course.brief, course.tried[number], idle)
                course.reviews[number] = review
                return Judged(review.complete, lacking(review))
            case Read():
                assert self.analysis is not None  # else no run is to be read
                return await self.analysis.read(course, step)

    async def _write(self, course: Course, step: Write) -> Written | GaveUp:
        number = step.version.number
        made = await self.craft.ask(
            course.brief, step.task, number, lambda: self.asking.ask(course, step)
        )
        if isinstance(made, GaveUp):
            return made
        course.drafts[number] = made
        return Written(hash_texts(made.files))

    async def _pilot(self, course: Course, step: Pilot) -> Piloted:
        version = step.version
        draft = course.drafts[version.number]
        args = course.idea, version.number, draft, version.parent, version.kind
        if self.craft.given_up(course.brief, f"pilot/{version.number}") is not None:
            tried = self.tryout.piloted(*args)
        else:
            tried = await self.tryout.pilot(*args)
        course.tried[version.number] = tried
        if not tried.scored:
            return Piloted(tried.outcome, tried.report.trial_id, lost=self._is_lost(tried))
        metric = self.tryout.specs.recipe.spec.primary
        # A further run may be as bad as it likes, or do nothing: it tells what a part gives.
        judged = version.run == 0
        return Piloted(
            outcome=tried.outcome,
            trial_id=tried.report.trial_id,
            value=tried.values[metric.name],
            hopeless=await self.reference.objection(tried.report) if judged else None,
            idle=judged and await self._does_nothing(course, tried),
        )

    async def _does_nothing(self, course: Course, tried: Tried) -> bool:
        catches = self.catches_nothing_done and course.idea.arm == "model"
        return catches and await self.reference.same(tried.report)

    def _measured(self, course: Course, tried: Tried, more: int) -> Measured:
        idea_id, number = course.idea.idea_id, tried.attempt.number
        course.tried[number] = tried
        metric, state = self.tryout.specs.recipe.spec.primary, self.tryout.state
        return Measured(
            outcome=tried.outcome,
            trial_id=tried.report.trial_id,
            lost=self._is_lost(tried),
            more=more,
            known=len(state.scores(idea_id, number, metric.name)),
            short=given_up(state, idea_id, number),
        )

    def _is_lost(self, tried: Tried) -> bool:
        """Whether the machine spoilt the latest trial under two drivers."""
        return self.tryout.is_given_up(tried.report.trial_id)
