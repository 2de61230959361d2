"""Who turns ideas into code in this campaign, and who looks at what comes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from hpcscientist.authoring import attempts
from hpcscientist.campaign.journal import Journal
from hpcscientist.campaign.once import once
from hpcscientist.campaign.pursuit.tryout import Tried, Tryout
from hpcscientist.errors import RunDirectoryError
from hpcscientist.files.atomic import write_text
from hpcscientist.files.hashing import hash_bytes, hash_texts
from hpcscientist.files.regular import read_regular
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import one_line
from hpcscientist.records.authoring import Brief, Draft, GaveUp
from hpcscientist.records.events import AttemptReviewed, AuthorGaveUp, IdeaPlanned
from hpcscientist.records.experiment import CodeReview, ExperimentPlan
from hpcscientist.records.vetting import Vetted

if TYPE_CHECKING:
    from hpcscientist.authoring.advisor import Advisor
    from hpcscientist.authoring.planner import Planner
    from hpcscientist.authoring.reading import RunAnalyst

_NAME, _LACKING = 80, 300  # characters


@dataclass(frozen=True, slots=True)
class Crew:
    """Who helps an author; None for a step that is left out."""

    planner: Planner | None = None
    advisor: Advisor | None = None
    analyst: RunAnalyst | None = None


@dataclass(slots=True)
class Craft:
    """Has ideas planned, written and reviewed, and keeps what is said of them."""

    paths: RunPaths
    journal: Journal
    tryout: Tryout
    crew: Crew

    async def brief(self, vetted: Vetted) -> tuple[Brief, str]:
        """Return an idea with its plan, as far as one could be made, and a remark on that: why
        there is none, or what was cut of it. Raises EndpointError.
        """
        idea, planner = vetted.idea, self.crew.planner
        brief = Brief(idea=idea, concepts=vetted.concepts)
        if planner is None or idea.arm == "control":
            return brief, ""
        reason = self.given_up(brief, "plan")
        if reason is not None:
            return brief, reason
        known = self._known_plan(idea.idea_id)
        if known is not None:
            return brief.model_copy(update={"plan": known[0]}), known[1]
        planned = await planner.plan(idea, vetted.concepts)
        remark = "; ".join(planned.problems)
        if planned.plan is None:
            self.give_up(brief, "plan", remark)
            return brief, remark
        path = self.paths.idea(idea.idea_id).plan
        text = planned.plan.model_dump_json(indent=2) + "\n"
        write_text(path, text)
        plan_hash = hash_bytes(text.encode())
        self.journal.record(IdeaPlanned(idea_id=idea.idea_id, plan_hash=plan_hash, remark=remark))
        return brief.model_copy(update={"plan": planned.plan}), remark

    def _known_plan(self, idea_id: str) -> tuple[ExperimentPlan, str] | None:
        """A plan that is recorded, with its remark. Raises RunDirectoryError where its file is
        gone or was changed.
        """
        event, path = self.tryout.state.ideas[idea_id].planned, self.paths.idea(idea_id).plan
        if event is None:
            return None
        try:
            content = read_regular(path, follow=False)
            if hash_bytes(content) == event.plan_hash:
                return ExperimentPlan.model_validate_json(content), event.remark
            what = "is not what was planned"
        except (OSError, ValidationError) as error:
            what = f"cannot be read: {error.strerror if isinstance(error, OSError) else 'damaged'}"
        raise RunDirectoryError(f"{path}: {what}; restore it from a backup")

    async def ask(
        self, brief: Brief, task: str, number: int, asked: Callable[[], Awaitable[Draft | GaveUp]]
    ) -> Draft | GaveUp:
        """Return what an author makes of a task, as attempt `number`.

        An attempt that is recorded stands as it is, whatever would be asked for it today; and once
        an author has given up, it has for good.
        """
        reason = self.given_up(brief, task)
        if reason is not None:
            return GaveUp(reason=reason)
        written = self._written(brief.idea.idea_id, number)
        if written is not None:
            return written
        made = await asked()
        if isinstance(made, GaveUp):
            self.give_up(brief, task, made.reason)
        return made

    def _written(self, idea_id: str, number: int) -> Draft | None:
        """An attempt that is recorded, unless what lies there is another."""
        idea = self.tryout.state.ideas[idea_id]
        if number not in idea.code_hashes:
            return None
        draft = attempts.load(self.paths.idea(idea_id), number)
        if draft is None or hash_texts(draft.files) != idea.code_hashes[number]:
            return None  # it is asked for again, and must come to the same
        known = idea.note_hashes[number]
        return draft if known in ("", hash_bytes(draft.note.encode())) else None

    def given_up(self, brief: Brief, task: str) -> str | None:
        """Return why a task of an idea was given up for good; None if it was not."""
        return self.tryout.state.ideas[brief.idea.idea_id].gave_up.get(task)

    def give_up(self, brief: Brief, task: str, reason: str) -> None:
        """Record that a task comes to nothing, so that drivers that resume go on without, too."""
        idea_id = brief.idea.idea_id
        self.journal.record(AuthorGaveUp(idea_id=idea_id, task=task, reason=reason))

    async def review(self, brief: Brief, tried: Tried, same_as_reference: bool) -> CodeReview:
        """Return what an advisor makes of an attempt. Raises EndpointError."""
        advisor = self.crew.advisor
        assert advisor is not None  # else there is nothing to review
        number, idea_id = tried.attempt.number, brief.idea.idea_id

        async def judge() -> CodeReview:
            return await advisor.review(brief, number, tried.draft.files, same_as_reference)

        review = await once(self.paths.idea(idea_id).review(number), CodeReview, judge)
        self.journal.record(
            AttemptReviewed(
                idea_id=idea_id,
                attempt=number,
                complete=review.complete,
                same_as_reference=review.same_as_reference,
                marks=review.marks,
                lacking=lacking(review),
            )
        )
        return review


def lacking(review: CodeReview) -> str:
    """Name what a review found lacking, in one line; its remarks stand in review.json."""
    if review.complete:
        return ""
    found = [f"{one_line(check.concept, _NAME)} is {check.state}" for check in review.lacking]
    if review.toy:
        found.append("the method is only pretended")
    return one_line("; ".join(found), _LACKING)
