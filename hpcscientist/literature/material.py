"""Texts of papers and code as prompts show them: untrusted, bounded and sanitised.

A text cannot leave its fence, since fences are longer than any inside the text
(`models.prompting.prompts.fence`), and `models.prompting.prompts` removes whatever else could
affect a model or a terminal. Also here: rank fusion of several searches, and concurrent requests.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import TypeVar

from hpcscientist.models.prompting.fitting import GONE, PromptPart, lines_from_the_end
from hpcscientist.models.prompting.prompts import line, tame
from hpcscientist.recipe.schema import Topic
from hpcscientist.records.literature import Hit

TITLE = 300  # characters
ABSTRACT = 4000  # characters; abstracts have about 1,500, so a longer one is something else

_SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[。！？।])\s*")


def block(text: str, limit: int) -> str:
    """Return a multi-line text, cut at a line break to at most `limit` characters."""
    tamed = tame(text[: limit + 1]).strip("\n")
    if len(text) <= limit:
        return tamed
    kept = tamed[: limit - len(GONE) - 1]
    head, found, _ = kept.rpartition("\n")
    return f"{head if found else kept}\n{GONE}"


def title_of(hit: Hit) -> str:
    """Return a paper's title as prompts show it."""
    return line(hit.title, TITLE)


def abstract_of(hit: Hit) -> str:
    """Return a paper's abstract as prompts show it; "" if it has none."""
    return line(hit.abstract, ABSTRACT)


def text_of(hit: Hit) -> str:
    """Return title and abstract."""
    return f"{title_of(hit)}\n{abstract_of(hit)}".rstrip()


def described(topic: Topic) -> PromptPart:
    """Return a part whose topic loses its description line by line, the last first."""
    text = lines_from_the_end("", topic.description)
    return PromptPart(
        "topic",
        text.steps,
        lambda step: topic.model_copy(update={"description": text.at(step)}),
    )


def sentences(name: str, text: str) -> PromptPart:
    """Return a part whose text loses its sentences one by one, the last first."""
    parts = [part for part in _SENTENCES.split(text) if part]

    def at(step: int) -> str:
        kept = parts[: len(parts) - step]
        return text if step == 0 else " ".join([*kept, GONE]) if kept else ""

    return PromptPart(name, len(parts), at)


def papers(name: str, hits: Sequence[Hit]) -> PromptPart:
    """Return a part of papers, best first, that loses abstracts, then titles, the last first."""
    shown = [(title_of(hit), abstract_of(hit)) for hit in hits]
    count = len(shown)

    def at(step: int) -> tuple[tuple[str, str], ...]:
        whole, named = count - min(step, count), count - max(0, step - count)
        return (*shown[:whole], *((title, "") for title, _ in shown[whole:named]))

    return PromptPart(name, 2 * count, at)


# Rank fusion: one order for the hits of several searches.

CONSTANT = 60  # as in the paper (see `reciprocal`)


@dataclass(frozen=True, slots=True)
class FoundPaper:
    """A paper and the queries that found it, in the order of the queries."""

    hit: Hit
    queries: tuple[str, ...]


def reciprocal(ranks: Iterable[int]) -> float:
    """Return the reciprocal rank fusion score of a paper that searches found at these ranks.

    It is the sum of 1 / (60 + rank), ranks from 1 (Cormack, Clarke and Büttcher, SIGIR 2009). The
    order of the ranks does not matter.
    """
    return fsum(1 / (CONSTANT + rank) for rank in ranks)


def merge(searches: Mapping[str, Sequence[Hit]]) -> tuple[FoundPaper, ...]:
    """Return the papers of several searches, each once, the best first.

    Scores of different searches are not comparable, but ranks are: see `reciprocal`. On a tie the
    better best rank wins, then the smaller id, so the order of the searches does not matter.
    """
    hits: dict[str, Hit] = {}
    ranks: dict[str, dict[str, int]] = {}
    for query, found in searches.items():
        for rank, hit in enumerate(found, start=1):
            hits.setdefault(hit.paper_id, hit)
            ranks.setdefault(hit.paper_id, {}).setdefault(query, rank)

    def order(paper_id: str) -> tuple[float, int, str]:
        of = ranks[paper_id].values()
        return -reciprocal(of), min(of), paper_id

    return tuple(FoundPaper(hits[p], tuple(ranks[p])) for p in sorted(hits, key=order))


# Concurrent requests of the stages in this room.

R = TypeVar("R")

SIDE_BY_SIDE = 32  # requests; bounds the prompts in memory, as models also limit their requests


async def together(
    tasks: Sequence[Callable[[], Awaitable[R]]], width: int = SIDE_BY_SIDE
) -> tuple[R, ...]:
    """Run tasks, at most `width` at once, and return their results in the order of the tasks.

    The first failure cancels the others, and its exception is raised unwrapped.
    """
    room = asyncio.Semaphore(width)

    async def run(task: Callable[[], Awaitable[R]]) -> R:
        async with room:
            return await task()

    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(run(task)) for task in tasks]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return tuple(task.result() for task in running)
