"""Plans ideas, has their code reviewed, and has their runs read by an analyst."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from hpcscientist.campaign.integrity import FileIntegrity, once
from hpcscientist.campaign.pursuit.attempt_store import AttemptStore
from hpcscientist.campaign.pursuit.idea_context import IdeaContext
from hpcscientist.campaign.pursuit.notes_writer import figures, summed_up
from hpcscientist.conduct.reference import values as reference_values
from hpcscientist.conduct.strategy.steps import Ran, Read
from hpcscientist.errors import IdeaDamaged
from hpcscientist.files.atomic import write_text
from hpcscientist.files.hashing import hash_bytes
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import one_line
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.records.authoring import Brief
from hpcscientist.records.events import AttemptReviewed, AuthorGaveUp, IdeaPlanned, RunsRead
from hpcscientist.records.experiment import (
    AnalysisReply,
    CodeReview,
    ExperimentPlan,
    FurtherRun,
    RunOutcome,
)
from hpcscientist.records.idea import BASELINE_ATTEMPT
from hpcscientist.records.proposing import Vetted

if TYPE_CHECKING:
    from hpcscientist.authoring.planner import Planner
    from hpcscientist.authoring.review.advisor import Advisor
    from hpcscientist.authoring.run_reading import RunAnalyst

# Reading runs: an analyst gets the measurements, and may ask for another run.


class _Unanswered(Exception):
    """The analyst gave no usable reply."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """Asks an analyst to read an idea's runs."""

    analyst: RunAnalyst
    attempt_store: AttemptStore

    async def read(self, context: IdeaContext, step: Read) -> FurtherRun | None:
        """Have an analyst read the runs so far; return the run that it asks for next, or None.

        An unusable reply counts as None. Raises EndpointError.
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
        """Return the learning curve of an attempt's first seed."""
        full = self.attempt_store.state.full.get((context.idea.idea_id, attempt), {})
        return self.attempt_store.curve(min(full)) if full else ""


_NAME, _LACKING = 80, 300  # characters


@dataclass(slots=True)
class CodeWorkflow:
    """Has ideas planned and reviewed, and records the results. `planner` or `advisor` None: that
    stage is left out.
    """

    paths: RunPaths
    journal: Journal
    state: CampaignState
    integrity: FileIntegrity
    planner: Planner | None = None
    advisor: Advisor | None = None

    async def plan(self, vetted: Vetted) -> Brief:
        """Return an idea with its plan, without one if none can be made. Raises EndpointError."""
        idea, planner = vetted.idea, self.planner
        brief = Brief(idea=idea, concepts=vetted.concepts)
        known = self.planned(brief)
        if planner is None or idea.arm == "control" or known is not None:
            return brief if known is None else known[0]
        planned = await planner.plan(idea, vetted.concepts)
        remark = "; ".join(planned.problems)
        if planned.plan is None:
            self.give_up(idea.idea_id, "plan", remark)
            return brief
        path = self.paths.idea(idea.idea_id).plan
        text = planned.plan.model_dump_json(indent=2) + "\n"
        write_text(path, text)
        self.integrity.keep(path, text)
        plan_hash = hash_bytes(text.encode())
        self.journal.record(IdeaPlanned(idea_id=idea.idea_id, plan_hash=plan_hash, remark=remark))
        return brief.model_copy(update={"plan": planned.plan})

    def planned(self, brief: Brief) -> tuple[Brief, str] | None:
        """Return an idea with its recorded plan and a remark: why it has no plan, or what was cut.

        None if nothing was recorded. Raises IdeaDamaged.
        """
        idea_id = brief.idea.idea_id
        reason = self.state.ideas[idea_id].gave_up.get("plan")
        if reason is not None:
            return brief, reason
        known = self._known_plan(idea_id)
        return None if known is None else (brief.model_copy(update={"plan": known[0]}), known[1])

    def _known_plan(self, idea_id: str) -> tuple[ExperimentPlan, str] | None:
        """Return a recorded plan with its remark, None if there is none. Raises IdeaDamaged if its
        file is missing or was changed.
        """
        event, path = self.state.ideas[idea_id].planned, self.paths.idea(idea_id).plan
        if event is None:
            return None
        try:
            content = self.integrity.read(path)
            if hash_bytes(content) == event.plan_hash:
                return ExperimentPlan.model_validate_json(content), event.remark
            what = "is not what was planned"
        except (OSError, ValidationError) as error:
            what = f"cannot be read: {error.strerror if isinstance(error, OSError) else 'damaged'}"
        raise IdeaDamaged(f"{path}: {what}; restore it from a backup")

    def give_up(self, idea_id: str, task: str, reason: str, attempt: int = 0) -> None:
        """Record that a task was given up, so that drivers that resume go on without it too.

        `attempt`: the version that no longer counts, 0 if there was none.
        """
        event = AuthorGaveUp(idea_id=idea_id, task=task, reason=reason, attempt=attempt)
        self.journal.record(event)

    async def review(self, context: IdeaContext, number: int, same_as_reference: bool) -> None:
        """Have an advisor review an attempt, and record its findings. Raises EndpointError."""
        advisor = self.advisor
        assert advisor is not None  # else there is nothing to review
        idea_id, files = context.idea.idea_id, context.files(number)

        async def judge() -> CodeReview:
            return await advisor.review(context.brief, number, files, same_as_reference)

        path = self.paths.idea(idea_id).review(number)
        review = await once(path, CodeReview, judge, self.integrity)
        self.journal.record(
            AttemptReviewed(
                idea_id=idea_id,
                attempt=number,
                complete=review.complete,
                same_as_reference=review.same_as_reference,
                marks=review.marks,
                expected=review.expected,
                lacking=lacking(review),
            )
        )


def lacking(review: CodeReview) -> str:
    """Return in one line what a review found missing, or ""; review.json has the details."""
    if review.complete:
        return ""
    found = [f"{one_line(check.concept, _NAME)} is {check.state}" for check in review.lacking]
    if review.toy:
        found.append("the method is only pretended")
    return one_line("; ".join(found), _LACKING)
