"""Reading runs: what was measured goes to an analyst, who may ask for another run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcscientist.campaign.once import once
from hpcscientist.campaign.pursuit.attempt_store import AttemptStore
from hpcscientist.campaign.pursuit.idea_context import IdeaContext
from hpcscientist.campaign.pursuit.notes_writer import figures, summed_up
from hpcscientist.conduct.reference import values as reference_values
from hpcscientist.conduct.strategy.steps import Ran, Read
from hpcscientist.records.events import RunsRead
from hpcscientist.records.experiment import AnalysisReply, FurtherRun, RunOutcome
from hpcscientist.records.idea import BASELINE_ATTEMPT

if TYPE_CHECKING:
    from hpcscientist.authoring.run_reading import RunAnalyst


class _Unanswered(Exception):
    """There is no usable reply."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """Has an idea's runs read."""

    analyst: RunAnalyst
    attempt_store: AttemptStore

    async def read(self, context: IdeaContext, step: Read) -> FurtherRun | None:
        """Have an analyst read the runs so far; return which run is asked for next.

        A reply that cannot be used asks for none. Raises EndpointError.
        """
        reply = await self._reply(context, step)
        run = None if reply is None else reply.run
        idea_id = context.idea.idea_id
        self.attempt_store.journal.record(RunsRead(idea_id=idea_id, number=step.number, run=run))
        return run

    async def _reply(self, context: IdeaContext, step: Read) -> AnalysisReply | None:
        baseline = reference_values(self.attempt_store.state, self.attempt_store.specs.recipe.spec)
        reference = RunOutcome(
            attempt=BASELINE_ATTEMPT,
            kind="main",
            title="the reference",
            values={metric: summed_up(values) for metric, values in baseline.items() if values},
        )
        title = context.idea.proposal.title
        main = RunOutcome(
            attempt=step.main, kind="main", title=title, values=self._values(context, step.main)
        )
        outcomes = (main, *(self._outcome(context, step.main, ran) for ran in step.runs))
        curves = {
            outcome.attempt: self._curve(context, outcome.attempt)
            for outcome in outcomes
            if outcome.failure is None
        }

        async def ask() -> AnalysisReply:
            reply = await self.analyst.next(context.brief, outcomes, reference, curves, step.number)
            if reply is None:
                raise _Unanswered
            return reply

        path = self.attempt_store.paths.idea(context.idea.idea_id).reading(step.number)
        try:
            return await once(path, AnalysisReply, ask, self.attempt_store.integrity)
        except _Unanswered:
            return None

    def _outcome(self, context: IdeaContext, main: int, ran: Ran) -> RunOutcome:
        return RunOutcome(
            attempt=main if ran.number is None else ran.number,
            kind=ran.run.kind,
            title=ran.run.title,
            change=ran.run.change,
            values={} if ran.number is None else self._values(context, ran.number),
            failure=ran.failure,
        )

    def _values(
        self, context: IdeaContext, attempt: int
    ) -> dict[str, tuple[float, float | None, int]]:
        return figures(self.attempt_store, context.idea.idea_id, attempt)

    def _curve(self, context: IdeaContext, attempt: int) -> str:
        """The learning curve of an attempt's first seed."""
        full = self.attempt_store.state.full.get((context.idea.idea_id, attempt), {})
        return self.attempt_store.curve(min(full)) if full else ""
