"""Pursuing one idea to its end: planned, written, mended, reviewed, measured, followed up.

An idea's way is made of legs. The first is the idea itself, in one of two `ways`; each further
run, once the idea was scored, is another. What a later leg comes to never changes what an earlier
one measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hpcscientist.campaign.journal import Journal
from hpcscientist.campaign.pursuit.course import Arrived, Course, Dropped, End, Failed, Spoilt
from hpcscientist.campaign.pursuit.craft import Craft
from hpcscientist.campaign.pursuit.diary import Diary
from hpcscientist.campaign.pursuit.effort import given_up
from hpcscientist.campaign.pursuit.following import Following
from hpcscientist.campaign.pursuit.tryout import Tryout
from hpcscientist.campaign.pursuit.ways import Ways
from hpcscientist.campaign.state import CampaignState
from hpcscientist.errors import MachineTrouble
from hpcscientist.files.text import one_line
from hpcscientist.records.events import IdeaEnded, IdeaSetAside
from hpcscientist.records.experiment import CodeReview
from hpcscientist.records.idea import Idea
from hpcscientist.records.vetting import Vetted

_NAME, _LACKING = 80, 300  # characters


@dataclass(slots=True)
class Pursuit:
    """Pursues ideas. `set_aside` says which the machine failed; a driver that resumes
    takes them up again, unless `in_order`: then later ideas depend on their outcome, and
    MachineTrouble is raised at once.
    """

    in_order: bool
    journal: Journal
    state: CampaignState
    tryout: Tryout
    craft: Craft
    ways: Ways
    following: Following
    set_aside: list[str] = field(default_factory=list)

    async def pursue(self, vetted: Vetted) -> None:
        """Take an idea to its end, or set it aside. Raises EndpointError, DiskFull."""
        idea = vetted.idea
        if self.state.ideas[idea.idea_id].ended is not None:
            return
        brief, remark = await self.craft.brief(vetted)
        course = Course(brief, Diary(self.tryout, brief))
        course.diary.planned(remark)
        end = await self.ways.of(idea).go(course)
        if isinstance(end, Arrived):
            spoilt = await self.following.follow_up(course, end)
            if spoilt is not None:
                self._set_aside(course, spoilt)
                return
        self._conclude(course, end)

    def check(self) -> None:
        """Raise MachineTrouble if ideas were set aside."""
        if self.set_aside:
            raise MachineTrouble(
                f"the machine failed trials again and again, {len(self.set_aside)} ideas wait "
                f"for it ({self.set_aside[0]}); mend that and run `hpcsci resume`"
            )

    def _conclude(self, course: Course, end: End) -> None:
        """Record how an idea ended, or that it waits for the machine."""
        idea = course.idea
        match end:
            case Arrived():
                number = end.tried.attempt.number
                short = given_up(self.state, idea.idea_id, number)
                parts = [part for part in (short, _lacking(end.review)) if part]
                self._end(course, "scored", "; ".join(parts) or None, number)
            case Spoilt():
                if self.tryout.is_given_up(end.trial_id):
                    standing = self._standing(idea, end.number)
                    self._end(course, "failed", _machine(end), standing)
                else:
                    self._set_aside(course, end)
            case Dropped():
                self._end(course, "failed", end.why, end.number)
            case Failed():
                last = None if course.last is None else self._standing(idea, course.last)
                self._end(course, "failed", end.reason(len(course.files)), last)

    def _set_aside(self, course: Course, end: Spoilt) -> None:
        self.journal.record(
            IdeaSetAside(
                idea_id=course.idea.idea_id,
                generation=self.state.generation,
                trial_id=end.trial_id,
                reason=_machine(end),
            )
        )
        self.set_aside.append(f"{course.idea.idea_id}: {_machine(end)}")
        if self.in_order or course.idea.arm == "control":
            self.check()  # the search's next proposals depend on this one's outcome

    def _standing(self, idea: Idea, last: int) -> int:
        """The latest attempt with scored seeds: a later failure never discards a good run."""
        metric = self.tryout.specs.recipe.spec.primary.name
        for number in range(last, 0, -1):
            if self.state.scores(idea.idea_id, number, metric):
                return number
        return last

    def _end(
        self,
        course: Course,
        status: Literal["scored", "failed"],
        reason: str | None,
        attempt: int | None,
    ) -> None:
        course.diary.concluded(status, attempt, reason)
        idea_id = course.idea.idea_id
        self.journal.record(
            IdeaEnded(idea_id=idea_id, status=status, reason=reason, attempt=attempt)
        )


def _lacking(review: CodeReview | None) -> str | None:
    """Name what a review found lacking, in one line; its remarks stand in review.json."""
    if review is None or review.complete:
        return None
    found = [f"{one_line(check.concept, _NAME)} is {check.state}" for check in review.lacking]
    if review.toy:
        found.append("the method is only pretended")
    return one_line("; ".join(found), _LACKING)


def _machine(end: Spoilt) -> str:
    return f"machine failed ({end.outcome.failure.value}): {end.outcome.detail}"
