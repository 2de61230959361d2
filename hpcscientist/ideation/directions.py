"""Directions for a batch of ideas: a divergent list, then a convergent choice (AI-Researcher).

AI-Researcher (arXiv 2505.18705, 3.1) asks for five directions at once, judges each on novelty,
soundness and potential, and works out the best one. Here the ideas of a batch are worked out side
by side, each from its own direction, so that they do not repeat one another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from math import ceil
from statistics import fmean
from typing import TYPE_CHECKING

from hpcscientist.config.settings import Settings
from hpcscientist.files.text import one_line
from hpcscientist.ideation.material import SUMMARY, knowledge_prompt
from hpcscientist.models.embedding.keywords import KeywordEmbedder
from hpcscientist.models.prompting.prompts import line
from hpcscientist.models.reply_limits import Limit, Limits
from hpcscientist.models.role_client import UNANSWERED, CallPurpose, RoleClient
from hpcscientist.models.stage import (
    SUMMARY_SIZE,
    TITLE_SIZE,
    Calls,
    Expected,
    Kind,
    Means,
    Sample,
    Stage,
    filler,
)
from hpcscientist.ports import Notify, logged
from hpcscientist.records.base import Record
from hpcscientist.records.proposing import (
    BatchTask,
    ConvergeReply,
    Direction,
    DirectionsReply,
    ProposalTask,
)

if TYPE_CHECKING:
    from hpcscientist.recipe.load import Recipe

_RATINGS = ("novelty", "soundness", "potential")
_TITLE = 200  # characters, the most a direction's title may have


class DirectionFinder:
    """Finds a direction for each idea of a batch.

    `ideation` names `count` directions and `review` judges them; both calls are recorded under the
    id of the batch's first idea. `similarity` is the cosine above which two directions are the
    same. `notify` receives a message if a reply is missing.
    """

    def __init__(
        self,
        ideation: RoleClient,
        review: RoleClient,
        recipe: Recipe,
        count: int = 10,
        similarity: float = 0.8,
        notify: Notify = logged,
    ) -> None:
        self._ideation, self._review, self._recipe = ideation, review, recipe
        self._count, self._similarity, self._notify = count, similarity, notify

    async def find(self, task: BatchTask) -> tuple[Direction | None, ...]:
        """Return a direction for each number of the batch, the best first, or None.

        The choice depends only on the replies, not on the campaign's state or on an embedding
        model's rounding, so a resumed campaign makes the same choice. Without usable judgements,
        directions are taken in the order given; without usable directions, all are None. Both cases
        are reported to `notify`. Raises EndpointError.
        """
        first, wanted = task.first, len(task.numbers)
        named = await self._named(first, wanted)
        rated = await self._ratings(first, named) if len(named) > 1 else {}
        order = await asyncio.to_thread(choose, named, rated, wanted, self._similarity)
        chosen = [named[position] for position in order]
        return (*chosen, *[None] * (wanted - len(chosen)))

    async def _named(self, task: ProposalTask, wanted: int) -> tuple[Direction, ...]:
        prompt = knowledge_prompt(
            *("directions", self._recipe, _shared(task)),
            count=self._count,
            chosen=min(wanted, self._count),
        )
        call = CallPurpose(task.idea_id, task.number, "directions")
        try:
            reply = await self._ideation.ask(
                call, DirectionsReply, prompt, {"directions": Limit(least=1, most=self._count)}
            )
        except UNANSWERED as error:
            self._note("directions", task, f"ideas go without directions: {error}")
            return ()
        quoted = ((line(d.title, _TITLE), line(d.summary, SUMMARY)) for d in reply.directions)
        found = [Direction(title=t, summary=s) for t, s in quoted if t and s]
        return tuple(found[: self._count])

    async def _ratings(self, task: ProposalTask, named: Sequence[Direction]) -> dict[int, float]:
        prompt = knowledge_prompt("converge", self._recipe, _shared(task), directions=named)
        call = CallPurpose(task.idea_id, task.number, "converge")
        try:
            reply = await self._review.ask(call, ConvergeReply, prompt, _one_each(len(named)))
        except UNANSWERED as error:
            self._note("converge", task, f"directions are taken in the order given: {error}")
            return {}
        found = ratings(reply, len(named))
        if not found:
            self._note("converge", task, "directions are taken in the order given: none was judged")
        return found

    def _note(self, stage: str, task: ProposalTask, text: str) -> None:
        self._notify(f"{stage}/{task.idea_id}", one_line(text))


def _one_each(count: int) -> Limits:
    """Return limits that allow one judgement for each direction."""
    return {
        "judgements": Limit(least=count, most=count),
        "judgements.direction": Limit(least=1, most=count),
    }


def ratings(reply: ConvergeReply, count: int) -> dict[int, float]:
    """Return the mean of the three ratings by the direction's position, from 0.

    Expectations replace sampled ratings where they are known. A judgement of a direction that does
    not exist is ignored. If a direction is judged twice, the first judgement counts.
    """
    found: dict[int, float] = {}
    for place, given in enumerate(reply.judgements):
        if given.direction <= count:
            mean = fmean(
                reply.expectation(f"judgements.{place}.{name}") or getattr(given, name)
                for name in _RATINGS
            )
            found.setdefault(given.direction - 1, mean)
    return found


def choose(
    named: Sequence[Direction], rated: dict[int, float], wanted: int, similarity: float
) -> tuple[int, ...]:
    """Return the positions of at most `wanted` directions, the best first, ties by position.

    Directions without a rating come last, but stay: a missing rating is no evidence against them. A
    direction is left out if the cosine of its title or summary with a better one's is above
    `similarity`.
    """
    embedder = KeywordEmbedder()
    titles, summaries = embedder.index(), embedder.index()
    order = sorted(range(len(named)), key=lambda i: (-rated.get(i, 0.0), i))
    chosen: list[int] = []
    for position in order:
        if len(chosen) == wanted:
            break
        title, summary = (
            titles.prepare(named[position].title),
            titles.prepare(named[position].summary),
        )
        nearest = (titles.nearest(title), summaries.nearest(summary))
        if any(found is not None and found[1] > similarity for found in nearest):
            continue
        titles.add(title)
        summaries.add(summary)
        chosen.append(position)
    return tuple(chosen)


def _shared(task: ProposalTask) -> ProposalTask:
    """Return a batch's task: it has no direction yet, and nobody else works on one."""
    return task.model_copy(update={"direction": None, "others": ()})


class DirectionsStage(Stage[DirectionFinder]):
    """Directions, once a batch of ideas."""

    name = "directions"
    kinds = (
        Kind("directions", "ideation", DirectionsReply),
        Kind("converge", "review", ConvergeReply),
    )

    def applies(self, settings: Settings, has_library: bool) -> bool:
        """Return whether ideas come in batches."""
        return settings.proposing.batch > 1

    def calls(self, expected: Expected) -> Sequence[Calls]:
        """Return the calls: two a batch; a batch ends with its round."""
        settings = expected.settings
        rounds = min(settings.rounds, settings.ideas) or 1
        batches = rounds * ceil(ceil(settings.ideas / rounds) / settings.proposing.batch)
        return Calls.of("directions", batches), Calls.of("converge", batches)

    def open(self, means: Means) -> DirectionFinder:
        """Return the finder of directions."""
        settings = means.settings
        return DirectionFinder(
            *(means.client("ideation"), means.client("review"), means.recipe),
            *(settings.proposing.directions, settings.loop.similarity, means.notify),
        )

    def answers(self, sample: Sample) -> Mapping[str, Record]:
        """Return as many directions as the stage asks for, which the judging call needs."""
        direction = Direction(title=filler(TITLE_SIZE), summary=filler(SUMMARY_SIZE))
        count = sample.settings.proposing.directions
        return {"directions": DirectionsReply(directions=(direction,) * count)}

    async def weigh(self, opened: DirectionFinder, sample: Sample) -> None:
        """Find directions for a batch of one idea."""
        await opened.find(BatchTask(first=sample.task, numbers=(sample.idea.number,)))


DIRECTIONS = DirectionsStage()
