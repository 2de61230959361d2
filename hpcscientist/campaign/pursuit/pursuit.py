"""Pursuing one idea to its end: planned, written, mended, reviewed, measured, followed up.

What is done next is the idea's strategy's to say, and all that it says is done side by side.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hpcscientist.campaign.journal import Journal
from hpcscientist.campaign.pursuit.course import Course
from hpcscientist.campaign.pursuit.craft import Craft
from hpcscientist.campaign.pursuit.diary import Diary
from hpcscientist.campaign.pursuit.performing import Performer
from hpcscientist.campaign.pursuit.tryout import Tryout
from hpcscientist.campaign.state import CampaignState
from hpcscientist.campaign.strategy.steps import AnyStep, Conclude, Last, SetAside
from hpcscientist.campaign.strategy.strategies import Strategies
from hpcscientist.campaign.strategy.strategy import Strategy
from hpcscientist.errors import MachineTrouble
from hpcscientist.records.events import IdeaBriefed, IdeaEnded, IdeaSetAside
from hpcscientist.records.idea import Idea
from hpcscientist.records.vetting import Vetted


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
    strategies: Strategies
    performer: Performer
    set_aside: list[str] = field(default_factory=list)

    async def pursue(self, vetted: Vetted) -> None:
        """Take an idea to its end, or set it aside. Raises EndpointError, DiskFull."""
        idea = vetted.idea
        if self.state.ideas[idea.idea_id].ended is not None:
            return
        brief, remark = await self.craft.brief(vetted)
        course = Course(brief, self.tryout.specs.recipe.reference)
        diary = Diary(self.tryout, brief)
        diary.planned(remark)
        parts = () if brief.plan is None else tuple(brief.plan.ablations)
        self.journal.record(IdeaBriefed(idea_id=idea.idea_id, parts=parts))
        strategy = self.strategies.of(idea.number, idea.arm, parts)
        match await self._take(course, diary, strategy):
            case Conclude() as last:
                self._conclude(idea, diary, last)
            case SetAside() as last:
                self._set_aside(idea, last)

    def check(self) -> None:
        """Raise MachineTrouble if ideas were set aside."""
        if self.set_aside:
            raise MachineTrouble(
                f"the machine failed trials again and again, {len(self.set_aside)} ideas wait "
                f"for it ({self.set_aside[0]}); mend that and run `hpcsci resume`"
            )

    async def _take(self, course: Course, diary: Diary, strategy: Strategy) -> Last:
        """Do what the strategy says until it says the last step, and return that."""
        tree: dict[AnyStep, object] = {}
        under_way: dict[asyncio.Task[object], AnyStep] = {}
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    found = strategy.next(tree)
                    diary.tell(course, found.told)
                    if isinstance(last := found.steps[0], Conclude | SetAside):
                        return last
                    begun = set(under_way.values())
                    for step in found.steps:
                        if step not in begun:
                            work = self.performer.perform(course, step)
                            under_way[group.create_task(work)] = step
                    done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        tree[under_way.pop(task)] = task.result()
        except ExceptionGroup as failed:
            error = failed.exceptions[0]
            raise error from error.__cause__

    def _conclude(self, idea: Idea, diary: Diary, last: Conclude) -> None:
        """Record how an idea ended."""
        diary.concluded(last.status, last.attempt, last.reason)
        self.journal.record(
            IdeaEnded(
                idea_id=idea.idea_id,
                status=last.status,
                reason=last.reason,
                attempt=last.attempt,
            )
        )

    def _set_aside(self, idea: Idea, last: SetAside) -> None:
        """Record that an idea waits for the machine. Raises MachineTrouble where others wait."""
        self.journal.record(
            IdeaSetAside(
                idea_id=idea.idea_id,
                generation=self.state.generation,
                trial_id=last.trial_id,
                reason=last.reason,
            )
        )
        self.set_aside.append(f"{idea.idea_id}: {last.reason}")
        if self.in_order or idea.arm == "control":
            self.check()  # the search's next proposals depend on this one's outcome
