"""Reading runs: what was measured goes to an analyst, who may ask for another run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcscientist.campaign.once import once
from hpcscientist.campaign.pursuit.course import Course
from hpcscientist.campaign.pursuit.diary import figures, summed_up
from hpcscientist.campaign.pursuit.tryout import Tryout
from hpcscientist.conduct.reference import values as reference_values
from hpcscientist.conduct.strategy.steps import Ran, Read
from hpcscientist.records.events import RunsRead
from hpcscientist.records.experiment import AnalysisReply, FurtherRun, RunOutcome
from hpcscientist.records.idea import BASELINE_ATTEMPT

if TYPE_CHECKING:
    from hpcscientist.authoring.runs.reading import RunAnalyst


class _Unanswered(Exception):
    """There is no usable reply."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """Has an idea's runs read."""

    analyst: RunAnalyst
    tryout: Tryout

    async def read(self, course: Course, step: Read) -> FurtherRun | None:
        """Have an analyst read the runs so far; return which run is asked for next.

        A reply that cannot be used asks for none. Raises EndpointError.
        """
        reply = await self._reply(course, step)
        run = None if reply is None else reply.run
        idea_id = course.idea.idea_id
        self.tryout.journal.record(RunsRead(idea_id=idea_id, number=step.number, run=run))
        return run

    async def _reply(self, course: Course, step: Read) -> AnalysisReply | None:
        baseline = reference_values(self.tryout.state, self.tryout.specs.recipe.spec)
        reference = RunOutcome(
            attempt=BASELINE_ATTEMPT,
            kind="main",
            title="the reference",
            values={metric: summed_up(values) for metric, values in baseline.items() if values},
        )
        title = course.idea.proposal.title
        main = RunOutcome(
            attempt=step.main, kind="main", title=title, values=self._values(course, step.main)
        )
        outcomes = (main, *(self._outcome(course, step.main, ran) for ran in step.runs))
        curves = {
            outcome.attempt: self._curve(course, outcome.attempt)
            for outcome in outcomes
            if outcome.failure is None
        }

        async def ask() -> AnalysisReply:
            reply = await self.analyst.next(course.brief, outcomes, reference, curves, step.number)
            if reply is None:
                raise _Unanswered
            return reply

        path = self.tryout.paths.idea(course.idea.idea_id).reading(step.number)
        try:
            return await once(path, AnalysisReply, ask, self.tryout.integrity)
        except _Unanswered:
            return None

    def _outcome(self, course: Course, main: int, ran: Ran) -> RunOutcome:
        return RunOutcome(
            attempt=main if ran.number is None else ran.number,
            kind=ran.run.kind,
            title=ran.run.title,
            change=ran.run.change,
            values={} if ran.number is None else self._values(course, ran.number),
            failure=ran.failure,
        )

    def _values(self, course: Course, attempt: int) -> dict[str, tuple[float, float | None, int]]:
        return figures(self.tryout, course.idea.idea_id, attempt)

    def _curve(self, course: Course, attempt: int) -> str:
        """The learning curve of an attempt's first seed."""
        full = self.tryout.state.full.get((course.idea.idea_id, attempt), {})
        return self.tryout.curve(min(full)) if full else ""
