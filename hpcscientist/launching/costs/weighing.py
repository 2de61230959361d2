"""How long a campaign's prompts are: the real ones are made for a model that only weighs them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from hpcscientist.authoring.coder import ModelAuthor
from hpcscientist.authoring.planner import Planner
from hpcscientist.authoring.review.advisor import Advisor
from hpcscientist.authoring.runs.reading import RunAnalyst
from hpcscientist.config.settings import Settings
from hpcscientist.config.steps import Step
from hpcscientist.errors import ReplyError
from hpcscientist.feedback.summary import CHARACTERS_A_TOKEN
from hpcscientist.ideation.directions import DirectionFinder
from hpcscientist.ideation.feasibility import FeasibilityJudge
from hpcscientist.ideation.novelty import NoveltyJudge
from hpcscientist.ideation.propose import ModelProposer
from hpcscientist.launching.costs.samples import (
    LOG,
    PART,
    SUMMARY,
    TITLE,
    Shelf,
    answers,
    filler,
    sample_proposal,
    traceback,
)
from hpcscientist.launching.costs.versions import versions
from hpcscientist.literature.analyst import Analyst
from hpcscientist.literature.survey import Surveyor
from hpcscientist.models.text import estimate_tokens
from hpcscientist.models.voice import Voice
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.asked.authoring import (
    Brief,
    CompleteTask,
    ExtendTask,
    FixTask,
    ImproveTask,
    Variant,
)
from hpcscientist.records.asked.model import ModelReply, ModelRequest
from hpcscientist.records.asked.proposing import ArchiveEntry, BatchTask, ProposalTask
from hpcscientist.records.base import Record
from hpcscientist.records.experiment import CodeReview, ConceptCheck, FurtherRun, RunOutcome
from hpcscientist.records.idea import Idea, Proposal, idea_id_of
from hpcscientist.records.outcome import IdeaFailed, IdeaFailure

# What a line of feedback has beside title and summary: id, effect, interval, p-value.
_BESIDE = 100


@dataclass(slots=True)
class _Scales:
    """A model that refuses every request after noting how long its prompt is.

    `answers` are the replies, by stage, without which a later stage would not be asked.
    """

    name: str = "scales"
    weights: dict[str, int] = field(default_factory=dict)
    answers: dict[str, Record] = field(default_factory=dict)

    async def probe(self) -> None:
        return None

    async def complete(self, request: ModelRequest) -> ModelReply:
        text = sum(estimate_tokens(message.content) for message in request.messages)
        self.weights.setdefault(request.stage, text)
        if request.stage in self.answers:
            return ModelReply(
                text=self.answers[request.stage].model_dump_json(),
                model=self.name,
                prompt_tokens=text,
                completion_tokens=0,
                tokens_estimated=True,
                latency_s=0.0,
            )
        raise ReplyError("this prompt is only weighed")

    async def close(self) -> None:
        return None


def weigh(recipe: Recipe, settings: Settings, steps: tuple[Step, ...] = ()) -> dict[str, int]:
    """Return about how many tokens the prompt of each stage has, midway through a campaign.

    Tokens are estimated from characters. A proposal's prompt grows with what was tried before
    it: it is rendered with as many earlier ideas as the average proposal is shown. Papers are
    taken to be as long as abstracts are.
    """
    sample = sample_proposal(recipe)
    scales = _Scales(answers=answers(sample, settings) if steps else {})
    idea = _idea(sample, settings, scales.name)
    asyncio.run(_ask(scales, recipe, settings, idea, "reflect" in steps))
    asyncio.run(_ask_of_steps(scales, recipe, settings, idea, steps))
    return scales.weights


def _idea(sample: Proposal, settings: Settings, model: str) -> Idea:
    number = max(1, settings.ideas // 2)
    return Idea(
        idea_id=idea_id_of(number),
        number=number,
        round=1,
        proposal=sample,
        model=model,
        seed=settings.seed,
    )


async def _ask(
    scales: _Scales, recipe: Recipe, settings: Settings, idea: Idea, reflects: bool
) -> None:
    author = ModelAuthor(scales, recipe, settings.code, authoring=settings.authoring)
    proposer = ModelProposer(
        *(scales, recipe, settings.seed, settings.ideation),
        reflections=int(reflects),
        notify=_quiet,
    )
    with contextlib.suppress(ReplyError):  # by then it is weighed
        await proposer.propose(_task(idea, settings, idea.proposal))
    await author.write(Brief(idea=idea))
    await author.fix(
        FixTask(
            idea=idea,
            files=recipe.reference,
            outcome=IdeaFailed(failure=IdeaFailure.ERROR, detail=filler(TITLE)),
            log_tail=f"{filler(LOG)}\n{traceback(recipe)}",
            round=1,
            rounds=max(1, settings.loop.debug_rounds),
        )
    )


async def _ask_of_steps(
    scales: _Scales, recipe: Recipe, settings: Settings, idea: Idea, steps: tuple[Step, ...]
) -> None:
    """Have the steps ask what they ask; none of them minds a reply that it does not get."""
    literature, proposing = settings.literature, settings.proposing
    voice = Voice(scales, "review", settings.review)
    library = Shelf()
    if "survey" in steps:
        await Surveyor(voice, voice, library, literature).survey(recipe.spec.topic)
    if "directions" in steps:
        task = BatchTask(first=_task(idea, settings, idea.proposal), numbers=(idea.number,))
        finder = DirectionFinder(voice, voice, recipe, proposing.directions, notify=_quiet)
        await finder.find(task)
    if "novelty" in steps:
        await NoveltyJudge(voice, library, 1, proposing.novelty_hits).judge(idea)
    if "feasibility" in steps:
        await FeasibilityJudge(voice, recipe).judge(idea)
    if "concepts" in steps:
        await Analyst(voice, library, literature).analyse(idea)
    await _ask_of_code(scales, recipe, settings, Brief(idea=idea), steps)


async def _ask_of_code(
    scales: _Scales, recipe: Recipe, settings: Settings, brief: Brief, steps: tuple[Step, ...]
) -> None:
    voice, files = Voice(scales, "review", settings.review), recipe.reference
    author = ModelAuthor(scales, recipe, settings.code, authoring=settings.authoring)
    if "plan" in steps:
        await Planner(Voice(scales, "code", settings.code), recipe).plan(brief.idea)
    if settings.authoring.search == "tree":
        await author.improve(_improvement(recipe, brief))
    if "advise" in steps:
        await Advisor(voice, recipe, 1).review(brief, 1, files, False)
        check = ConceptCheck(concept=filler(TITLE), state="partial", remark=filler(SUMMARY))
        review = CodeReview(attempt=1, checks=(check,), advice=filler(SUMMARY))
        await author.complete(CompleteTask(brief=brief, files=files, review=review, round=1))
    if "analyse" in steps:
        main = RunOutcome(
            attempt=1,
            kind="main",
            title=filler(TITLE),
            values={metric.name: (0.0, 0.0, recipe.spec.seeds) for metric in recipe.spec.metrics},
        )
        runs = settings.authoring.further_runs
        await RunAnalyst(voice, recipe, runs).next(brief, (main,), main, {}, 1)
    if versions(settings, steps).runs_at_most:
        run = FurtherRun(
            kind="ablation",
            title=filler(TITLE),
            purpose=filler(SUMMARY),
            change=filler(PART),
        )
        await author.extend(ExtendTask(brief=brief, files=files, run=run, number=1))


def _improvement(recipe: Recipe, brief: Brief) -> ImproveTask:
    """A version of a tree's middle: made of two others, and improved twice before."""
    values = {metric.name: 0.0 for metric in recipe.spec.metrics}
    return ImproveTask(
        brief=brief,
        files=recipe.reference,
        number=1,
        values=values,
        reference=values,
        led=(filler(SUMMARY),) * 2,
        tried=(Variant(note=filler(SUMMARY), values=values),) * 2,
    )


def _task(idea: Idea, settings: Settings, sample: Proposal) -> ProposalTask:
    entry = ArchiveEntry(
        idea_id=idea.idea_id, title=sample.title, summary=sample.summary, finding="maintenance"
    )
    line = len(sample.title) + len(sample.summary) + _BESIDE
    room = settings.loop.feedback_tokens * CHARACTERS_A_TOKEN
    return ProposalTask(
        idea_id=idea.idea_id,
        number=idea.number,
        round=1,
        feedback=filler(round(line * mean_shown(settings.ideas, room // line))),
        archive=(entry,) * round(mean_shown(settings.ideas, settings.loop.archive)),
        scores=(),
    )


def mean_shown(ideas: int, most: int) -> float:
    """Return how many earlier ideas a proposal is shown on average, if at most `most` are."""
    growing = min(ideas, most)
    return (growing * (growing - 1) / 2 + (ideas - growing) * most) / ideas


def _quiet(name: str, text: str) -> None:
    """Say nothing: no reply is missing that was expected."""
