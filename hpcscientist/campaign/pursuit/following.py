"""Further runs of a scored idea: those that an analyst asks for, or the ablations of its plan.

Each is a leg of its own, from the code that was scored. What it comes to never changes what that
code measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.campaign.pursuit.analysis import Analysis
from hpcscientist.campaign.pursuit.course import Arrived, Course, End, Leg, Spoilt
from hpcscientist.campaign.pursuit.craft import Craft
from hpcscientist.campaign.pursuit.effort import given_up
from hpcscientist.campaign.pursuit.legs import Legs
from hpcscientist.campaign.reference import Reference
from hpcscientist.files.text import one_line
from hpcscientist.records.authoring import ExtendTask
from hpcscientist.records.experiment import FurtherRun

_TITLE = 200  # characters


@dataclass(frozen=True, slots=True)
class Following:
    """Does further runs, `most` of an idea at most.

    `ablates`: where no analyst asks for runs, the parts that a plan names are left out in turn.
    """

    most: int
    ablates: bool
    reference: Reference
    craft: Craft
    legs: Legs

    async def follow_up(self, course: Course, main: Arrived) -> Spoilt | None:
        """Do an idea's further runs; return the one that the machine spoilt and that it waits for.

        An idea that was given up before all seeds has none. Raises EndpointError, DiskFull.
        """
        attempt = main.tried.attempt
        if given_up(self.legs.tryout.state, attempt.idea_id, attempt.number) is not None:
            return None
        analysis = self.craft.analysis(course.brief, main.tried, course.diary)
        if analysis is not None:
            return await self._analyse(course, main, analysis)
        return await self._ablate(course, main) if self.ablates else None

    async def _analyse(self, course: Course, main: Arrived, analysis: Analysis) -> Spoilt | None:
        baseline = await self.reference.ran()
        for number in range(1, self.most + 1):
            run = await analysis.next(baseline, number)
            if run is None:
                return None
            end = await self._further(course, main, run, number)
            if isinstance(end, Spoilt) and not self._is_given_up(end):
                return end
            analysis.add(run, end)
            if isinstance(end, Spoilt):
                # A driver that resumes would run it again: nothing may be built on it.
                return None
        await analysis.next(baseline, self.most + 1)  # reads the last of them
        return None

    async def _ablate(self, course: Course, main: Arrived) -> Spoilt | None:
        """Leave out what the plan says may be left out, a part a run."""
        plan = course.brief.plan
        parts = () if plan is None else plan.ablations[: self.most]
        for number, part in enumerate(parts, start=1):
            end = await self._further(course, main, _without(part), number)
            if isinstance(end, Spoilt):  # as above
                return None if self._is_given_up(end) else end
        return None

    async def _further(self, course: Course, main: Arrived, run: FurtherRun, number: int) -> End:
        task = ExtendTask(
            brief=course.brief,
            files=main.tried.draft.files,
            run=run,
            number=number,
            seen=tuple(course.seen),
        )
        leg = Leg(run=number, kind=run.kind, parent=main.tried.attempt.number)
        author = self.craft.author
        written = await self.craft.ask(
            course.brief, f"extend/{number}", course.latest + 1, lambda: author.extend(task)
        )
        return await self.legs.go(course, leg, written)

    def _is_given_up(self, end: Spoilt) -> bool:
        return self.legs.tryout.is_given_up(end.trial_id)


def _without(part: str) -> FurtherRun:
    """The run that shows what a part of the method gives."""
    return FurtherRun(
        kind="ablation",
        title=one_line(f"Without {part}", _TITLE),
        purpose=f"What does this part give: {part}?",
        change=f"Leave this part out: {part}",
    )
