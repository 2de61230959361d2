"""Measures the lengths of a campaign's prompts: renders them for a model that only measures."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from dataclasses import dataclass, field
from statistics import fmean

from hpcscientist.campaign.stages import stages
from hpcscientist.campaign.strategies import strategy_of
from hpcscientist.config.settings import Settings
from hpcscientist.errors import ReplyError
from hpcscientist.feedback.summary import CHARACTERS_A_TOKEN
from hpcscientist.models.answers import estimate_tokens
from hpcscientist.models.stage import PART_SIZE, SUMMARY_SIZE, TITLE_SIZE, Means, Sample, filler
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.base import Record
from hpcscientist.records.idea import Idea, Proposal, idea_id_of
from hpcscientist.records.literature import (
    Formula,
    FormulaHit,
    Hit,
    Paper,
    SearchBy,
    SymbolHit,
)
from hpcscientist.records.model_calls import ModelReply, ModelRequest
from hpcscientist.records.proposing import ArchiveEntry, ProposalTask

# Characters of a feedback line beside title and summary: id, effect, interval, p-value.
_BESIDE = 100
_ABSTRACT, _FORMULA = 1500, 120  # characters


@dataclass(slots=True)
class _Scales:
    """A model that notes the length of each prompt and then refuses the request.

    `answers` are replies, by kind of call, that it gives so that later calls are made.
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


def weigh(recipe: Recipe, settings: Settings, applied: Collection[str] = ()) -> dict[str, int]:
    """Return about how many tokens the prompt of each kind of call has, midway through a campaign.

    `applied` are the campaign's optional stages. Tokens are estimated from characters. A proposal's
    prompt grows with the earlier ideas: it is rendered with as many as an average proposal shows.
    Papers are assumed to be as long as abstracts.
    """
    scales, shown = _Scales(), _sample_proposal(recipe)
    idea = _idea(shown, settings, scales.name)
    sample = Sample(
        *(recipe, settings, applied, strategy_of(settings).versions(settings, applied), idea),
        _task(idea, settings, shown),
    )
    means = Means(
        *(scales, recipe, settings, applied), library=_Library(), notify=lambda name, text: None
    )

    async def ask() -> None:
        for stage in stages():
            if not stage.optional or stage.name in applied:
                scales.answers = dict(stage.answers(sample))
                with contextlib.suppress(ReplyError):  # by then the prompt is measured
                    await stage.weigh(stage.open(means), sample)

    asyncio.run(ask())
    return scales.weights


def _sample_proposal(recipe: Recipe) -> Proposal:
    """Return a proposal as long as the recipe's seed ideas on average."""
    seeds = recipe.seed_ideas

    def text(name: str, size: int) -> str:
        known = [len(getattr(seed, name)) for seed in seeds]
        return filler(max(1, round(fmean(known))) if known else size)

    return Proposal(
        title=text("title", TITLE_SIZE),
        hypothesis=text("hypothesis", PART_SIZE),
        method=text("method", PART_SIZE),
        experiment_plan=text("experiment_plan", PART_SIZE),
        summary=text("summary", SUMMARY_SIZE),
    )


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
    """Return how many earlier ideas an average proposal shows, if it shows at most `most`."""
    growing = min(ideas, most)
    return (growing * (growing - 1) / 2 + (ideas - growing) * most) / ideas


@dataclass(frozen=True, slots=True)
class _Library:
    """A library that finds as many papers as requested, each of realistic length."""

    fingerprint: str = ""

    def __len__(self) -> int:
        return 1

    def search(self, query: str, limit: int = 10, by: SearchBy = "both") -> tuple[Hit, ...]:
        """Return papers that differ only in their ids."""
        return tuple(
            Hit(
                paper_id=f"title:{number}",
                title=filler(TITLE_SIZE),
                abstract=filler(_ABSTRACT),
                year=None,
                origin="",
                score=0.0,
            )
            for number in range(limit)
        )

    def paper(self, paper_id: str) -> Paper | None:
        """Return None: prompts show no paper's full text."""
        return None

    def formulas(self, query: str, limit: int = 10) -> tuple[FormulaHit, ...]:
        """Return formulas that differ only in their ids."""
        formula = Formula(text=filler(_FORMULA), context=filler(SUMMARY_SIZE))
        return tuple(
            FormulaHit(
                formula_id=f"title:{number}#f1",
                paper_id=f"title:{number}",
                title=filler(TITLE_SIZE),
                formula=formula,
            )
            for number in range(limit)
        )

    def symbols(self, query: str, limit: int = 10) -> tuple[SymbolHit, ...]:
        """Return nothing: the library holds no code."""
        return ()
