"""Reviewers of one paper, and their area chair (The AI Scientist, arXiv 2408.06292, section 4).

Several reviewers fill in the form in parallel and independently. Each then reconsiders its review
until it has nothing to change. An area chair sums up but gives no scores: a score is the mean over
reviewers, of expectations if the server returns log-probabilities.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from hpcscientist.config.settings import RoleSettings, Settings
from hpcscientist.errors import ReplyError, UsageError
from hpcscientist.feedback.statistics import CONFIDENCE
from hpcscientist.files.rundir import ReviewPaths, RunPaths
from hpcscientist.files.text import one_line
from hpcscientist.literature.material import together
from hpcscientist.models.open import open_models
from hpcscientist.models.prompting.fitting import Prompt, from_the_end, of_template
from hpcscientist.models.recorded import RecordedModel
from hpcscientist.models.role_client import UNANSWERED, CallPurpose, RoleClient, Roles
from hpcscientist.recipe.checks.files import REVIEWS_PLAYBOOK
from hpcscientist.records.model_calls import ModelReply, ModelRequest
from hpcscientist.records.reviews import Effort, Interval, Mark, Measure, MemberReview, Spread
from hpcscientist.reviews.form import Form, FormReply
from hpcscientist.reviews.paper import PaperText
from hpcscientist.reviews.reading import Ask, PaperReader, Shown, Subject

# Opens the models that judge papers, and records every call beside the review.


ROLE: Final = "review"


def open_judge(settings: Settings, spec: str, papers: tuple[Path, ...]) -> Roles:
    """Open the model of a SPEC, or else of the settings' role `review`.

    `playbook` means the recorded reviews beside the recipe of the paper's campaign. Raises
    ModelSpecError, and UsageError if no model is named.
    """
    spec = spec or settings.review.model or settings.model
    if not spec:
        raise UsageError(
            "no model reviews: give http://HOST:PORT/v1#NAME (see `hpcsci serve`) or playbook:FILE"
        )
    return open_models({ROLE: spec}, _recorded(papers), settings)


def _recorded(papers: tuple[Path, ...]) -> Path | None:
    """Return the recorded reviews in the campaign folder that contains a paper."""
    for paper in papers:
        for folder in paper.absolute().parents:
            run = RunPaths(folder)
            if run.campaign.is_file():
                found = run.recipe / REVIEWS_PLAYBOOK
                return found if found.is_file() else None
    return None


@dataclass(slots=True)
class JudgeCosts:
    """The number and cost of a judge's replies, including replies that were recorded earlier."""

    effort: Effort = field(default_factory=Effort)
    models: tuple[str, ...] = ()

    def add(self, request: ModelRequest, reply: ModelReply, _: int) -> None:
        """Count a reply."""
        was = self.effort
        self.effort = Effort(
            replies=was.replies + 1,
            repairs=was.repairs + bool(request.repair),
            prompt_tokens=was.prompt_tokens + reply.prompt_tokens,
            completion_tokens=was.completion_tokens + reply.completion_tokens,
            estimated=was.estimated or reply.tokens_estimated,
            seconds=was.seconds + reply.latency_s,
        )
        if reply.model not in self.models:
            self.models = tuple(sorted((*self.models, reply.model)))


@dataclass(frozen=True, slots=True)
class JudgeClient:
    """One judge that records into one folder: its client, its tally and the recorded model."""

    client: RoleClient
    tally: JudgeCosts
    recorded: RecordedModel


def judge_client(
    roles: Roles, paths: ReviewPaths, settings: Settings, temperature: float
) -> JudgeClient:
    """Return a judge whose calls are recorded in a folder."""
    tally = JudgeCosts()
    recorded = RecordedModel(roles, paths, tally.add)
    own: RoleSettings = settings.review.model_copy(update={"temperature": temperature})
    client = RoleClient(recorded, ROLE, own, settings.seed, roles.windows.get(ROLE))
    return JudgeClient(client, tally, recorded)


ROUND: Final = 100  # ordinals of reflections: ROUND * reviewer + round


@dataclass(frozen=True, slots=True)
class Example:
    """A worked example: another paper and its review, as JSON with the form's fields."""

    paper: str
    review: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel: `ensemble` reviewers, each with at most `reflections` rounds including the first."""

    ensemble: int = 5
    reflections: int = 5
    examples: tuple[Example, ...] = ()
    chair: bool = True


@dataclass(frozen=True, slots=True)
class PanelReview:
    """The reviews of a paper and the chair's summary. `lost` says why reviewers are missing."""

    members: tuple[MemberReview, ...]
    chair: MemberReview | None
    parts: int
    lost: tuple[str, ...]


class Reviewers:
    """A panel that reviews papers by a form: reviewer M is stage `review-FORM`, ordinal and sample
    M.
    """

    def __init__(self, client: RoleClient, form: Form, panel: Panel) -> None:
        self._client, self._form, self._panel = client, form, panel

    async def review(self, paper: PaperText, subject: Subject, reader: PaperReader) -> PanelReview:
        """Review a paper.

        A reviewer without a usable reply is left out and reported in `lost`. Raises ReplyError if
        none is left, and EndpointError.
        """
        shown = await reader.shown(paper, partial(self._ask, None, 1))
        members, lost = await self._members(subject, shown)
        if not members and shown.parts == 1:
            # Some servers reveal their context length only when they refuse a long prompt.
            again = await reader.shown(paper, partial(self._ask, None, 1))
            if again.parts > 1:
                shown = again
                members, lost = await self._members(subject, shown)
        if not members:
            raise ReplyError(f"{subject.name}: no reviewer gave a usable reply: {lost[0]}")
        chair = None
        if self._panel.chair:
            try:
                chair = await self._chair(paper, subject, members)
            except UNANSWERED as error:
                lost = [*lost, one_line(f"area chair: {error}")]
        return PanelReview(tuple(members), chair, shown.parts, tuple(lost))

    async def _members(
        self, subject: Subject, shown: Shown
    ) -> tuple[list[MemberReview], list[str]]:
        async def one(member: int) -> MemberReview | str:
            try:
                return await self._member(subject, shown, member)
            except UNANSWERED as error:
                return one_line(f"reviewer {member}: {error}")

        numbers = range(1, self._panel.ensemble + 1)
        found = await together([partial(one, number) for number in numbers])
        members = [of for of in found if isinstance(of, MemberReview)]
        return members, [of for of in found if isinstance(of, str)]

    async def _member(self, subject: Subject, shown: Shown, member: int) -> MemberReview:
        reply_type, prompt = self._ask(None, 1, shown)
        call = CallPurpose(
            subject.name, subject.number, self._form.stage("review"), member, sample=member
        )
        reply: Any = await self._client.ask(call, reply_type, prompt)
        settled, rounds = False, 1
        while not settled and rounds < self._panel.reflections:
            rounds += 1
            stage, ordinal = self._form.stage("reconsider"), ROUND * member + rounds
            call = replace(call, stage=stage, ordinal=ordinal)
            again_type, prompt = self._ask(reply, rounds, shown)
            try:
                again: Any = await self._client.ask(call, again_type, prompt)
            except UNANSWERED:  # keep the last review
                rounds -= 1
                break
            reply, settled = again.revised() or reply, again.done
        return self._form.read(reply, member, rounds, settled)

    def _ask(self, previous: FormReply | None, number: int, shown: Shown) -> Ask:
        """Return the reply schema and prompt of a round; if it is too long, examples go first."""
        form = self._form
        prompt = of_template(
            "review",
            (from_the_end("examples", self._panel.examples),),
            guidance=form.guidance,
            fields=form.fields,
            paper=shown.text,
            count=shown.parts,
            previous=_as_json(previous.model_dump()) if previous is not None else "",
            round=number,
            rounds=self._panel.reflections,
        )
        return (form.reply if previous is None else form.reflection), prompt

    async def _chair(
        self, paper: PaperText, subject: Subject, members: Sequence[MemberReview]
    ) -> MemberReview:
        form = self._form
        words = [field for field in form.fields if field.kind != "score"]
        prompt: Prompt = of_template(
            "chair",
            (from_the_end("reviews", [_as_json(_told(member)) for member in members]),),
            title=paper.title,
            fields=words,
        )
        call = CallPurpose(subject.name, subject.number, form.stage("meta"))
        reply: Any = await self._client.ask(call, form.summing_up, prompt)
        return form.read(reply, 1, 1, settled=True)


def spreads(form: Form, members: Sequence[MemberReview]) -> dict[str, Spread]:
    """Return each score over all reviewers, in the form's order."""
    return {
        field.id: spread([member.marks[field.id] for member in members]) for field in form.scores
    }


def spread(marks: Sequence[Mark]) -> Spread:
    """Return the mean, deviation and interval of several reviewers' marks."""
    expected = [mark.expected for mark in marks if mark.expected is not None]
    sampled = statistics.fmean(mark.sampled for mark in marks)
    whole = len(expected) == len(marks)
    values = [float(of) for of in (expected if whole else [mark.sampled for mark in marks])]
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Spread(
        value=statistics.fmean(values),
        sampled=sampled,
        expected=statistics.fmean(expected) if whole else None,
        deviation=deviation,
        interval=t_interval(values),
        count=len(marks),
    )


def t_interval(values: Sequence[float]) -> Interval | None:
    """Return the 95% t interval of a mean; None for fewer than two values, or all equal."""
    if len(values) < 2 or max(values) == min(values):
        return None
    from scipy.stats import t  # noqa: PLC0415 (slow to import)

    error = statistics.stdev(values) / math.sqrt(len(values))
    low, high = t.interval(CONFIDENCE, len(values) - 1, statistics.fmean(values), error)
    return float(low), float(high)


def gain(before: Sequence[Mark], now: Sequence[Mark]) -> Measure:
    """Return the increase of the mean mark, with Welch's interval."""
    old, new = [mark.value for mark in before], [mark.value for mark in now]
    interval = None
    if min(len(old), len(new)) > 1 and len({*old}) + len({*new}) > 2:
        from scipy.stats import ttest_ind  # noqa: PLC0415 (slow to import)

        found = ttest_ind(new, old, equal_var=False).confidence_interval(CONFIDENCE)
        interval = (float(found.low), float(found.high))
    difference = statistics.fmean(new) - statistics.fmean(old)
    return Measure(value=difference, interval=interval, count=len(new))


def _told(member: MemberReview) -> dict[str, Any]:
    scores = {name: mark.sampled for name, mark in member.marks.items()}
    return {**member.texts, **member.lists, **member.choices, **scores}


def _as_json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)
