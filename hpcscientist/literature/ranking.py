"""How well papers fit a topic and its task attributes (Dolphin, arXiv 2501.03916, 3.1).

Related tasks share a subject: a paper on detection in point clouds is close to the topic of
classifying them, and still of little use for it. So a paper is scored twice from 1 to 10, on the
topic and on the attributes of its task, and both scores count.

What a score is worth differs between models: a small one gives 1 to papers on the very task, or 8
to all. So where a model's expectations are known, papers are told apart by their rank in this
survey alone (`kept`).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import fsum, log, sqrt
from typing import Protocol, TypeAlias

from hpcscientist.files.text import one_line
from hpcscientist.literature import material
from hpcscientist.literature.material import together
from hpcscientist.models.embedding.keywords import telling
from hpcscientist.models.prompting.fitting import of_template
from hpcscientist.models.prompting.prompts import line
from hpcscientist.models.role_client import UNANSWERED, Call, RoleClient
from hpcscientist.recipe.schema import Topic
from hpcscientist.records.idea import SURVEY_ID
from hpcscientist.records.literature import Hit, RankReply, TaskAttributes

Vector: TypeAlias = Mapping[str, float]  # weight by word

_HALF, _FIFTH = 2, 5  # parts
_NAMED = 5  # words


@dataclass(frozen=True, slots=True)
class Fit:
    """A paper's two scores, 1 to 10, and why; None where it could not be judged.

    The expectations of both are None where nobody told the odds of other scores.
    """

    topic: int | None
    attributes: int | None
    reason: str
    expected_topic: float | None = None
    expected_attributes: float | None = None

    @property
    def has_odds(self) -> bool:
        """Whether expectations are known."""
        return self.expected_topic is not None and self.expected_attributes is not None

    @property
    def worth(self) -> tuple[float, float] | None:
        """The lower of both scores, by expectation where that is known, and the higher."""
        if self.topic is None or self.attributes is None:
            return None
        topic = self.topic if self.expected_topic is None else self.expected_topic
        other = self.attributes if self.expected_attributes is None else self.expected_attributes
        return min(topic, other), max(topic, other)


class Ranker(Protocol):
    """Scores papers.

    Obligations: one fit a paper, in the papers' order; the same papers in the same order get the
    same fits. A paper that cannot be judged has no scores and the reason. Raises what asking a
    model raises, ReplyError excepted.
    """

    async def rank(
        self, topic: Topic, attributes: TaskAttributes, papers: Sequence[Hit]
    ) -> tuple[Fit, ...]:
        """Score papers."""
        ...


class ModelRanker:
    """Asks a model about each paper by itself, so that no abstract can tell of another."""

    def __init__(self, client: RoleClient) -> None:
        self._client = client

    async def rank(
        self, topic: Topic, attributes: TaskAttributes, papers: Sequence[Hit]
    ) -> tuple[Fit, ...]:
        """Score papers side by side; a paper's call is named by its id (see `ordinals`)."""
        own = ordinals([paper.paper_id for paper in papers])
        return await together(
            [partial(self._judge, topic, attributes, own[p.paper_id], p) for p in papers]
        )

    async def _judge(self, topic: Topic, attributes: TaskAttributes, place: int, hit: Hit) -> Fit:
        prompt = of_template(
            "rank",
            (
                material.sentences("abstract", material.abstract_of(hit)),
                material.described(topic),
            ),
            attributes=attributes,
            title=material.title_of(hit),
        )
        try:
            reply = await self._client.ask(
                Call(SURVEY_ID, 0, "rank", ordinal=place), RankReply, prompt
            )
        except UNANSWERED as error:
            return Fit(None, None, one_line(f"not judged: {error}"))
        expected = (reply.expectation(field) for field in ("topic", "attributes"))
        return Fit(reply.topic, reply.attributes, line(reply.reason, 300), *expected)


def kept(fits: Sequence[Fit], threshold: int) -> tuple[list[bool], str]:
    """Return which papers are kept, given in the order of retrieval, and what decided that.

    Scores whose odds nobody told are held against `threshold`. Where that keeps none or all, and
    where expectations are known, papers are cut in two where their scores part most clearly (Otsu,
    1979): so never none, and never all of several. Scores that are all alike tell nothing; then
    the first half of those retrieved is kept. A paper that was not judged is kept else.
    """
    worths = [fit.worth for fit in fits]
    known = [worth for worth in worths if worth is not None]
    if not any(fit.has_odds for fit in fits):
        reach = [worth is None or worth[0] >= threshold for worth in worths]
        if 0 < sum(worth[0] >= threshold for worth in known) < len(known):
            return reach, ""
    for part in (0, 1):  # the higher of both scores counts where the lower ones are alike
        values = sorted((worth[part] for worth in known), reverse=True)
        if values and values[0] > values[-1]:
            least = values[_cut(values) - 1]
            return [worth is None or worth[part] >= least for worth in worths], "rank"
    half = (len(fits) + 1) // 2
    return [place < half for place in range(len(fits))], "retrieval"


def _cut(values: Sequence[float]) -> int:
    """Return how many of the values, the largest first, are the upper of two classes whose means
    differ most for their sizes; equal values are in one class.
    """
    count, total = len(values), fsum(values)

    def between(upper: int) -> float:
        above = fsum(values[:upper])
        means = above / upper - (total - above) / (count - upper)
        return upper * (count - upper) * means**2

    cuts = (upper for upper in range(1, count) if values[upper - 1] > values[upper])
    return max(cuts, key=between)


def quantiles(fits: Sequence[Fit]) -> list[float | None]:
    """Return for each judged paper the share of judged papers that are no better than it."""
    known = sorted(fit.worth for fit in fits if fit.worth is not None)
    return [bisect_right(known, fit.worth) / len(known) if fit.worth else None for fit in fits]


def ordinals(paper_ids: Sequence[str]) -> dict[str, int]:
    """Return the ordinal of each paper's call: the first 28 bits of SHA-256 of its id, plus 1.

    It depends on no other paper, so that recorded replies stay with their papers when a search
    finds others, or the same in another order. Where two ids share it the later one, in the
    order of ids, takes the next that is free.
    """
    found: dict[str, int] = {}
    taken = set[int]()
    for paper_id in sorted(set(paper_ids)):
        ordinal = int(hashlib.sha256(paper_id.encode()).hexdigest()[:7], 16) + 1
        while ordinal in taken:
            ordinal += 1
        taken.add(ordinal)
        found[paper_id] = ordinal
    return found


class WordRanker:
    """Scores papers by their words, without a model: a yardstick, and for where there is none.

    Topic (its title) and attributes (all of them) are each compared with title and abstract as
    vectors of weighted words. Words are the library's index terms without those that tell nothing
    (`models.embedding.keywords`); each counts once and weighs ln((n + 1/2) / df), where df of the n
    papers have it, so what sets papers apart counts. Few papers use the very words of the
    attributes, so the vectors are widened by the papers' own: the mean of the nearest fifth is
    added (Rocchio, 1971, with blind feedback), which brings in data sets, measures and other names
    of the task. A score is 1 + 9 c / m, rounded, at most 10; m is the mean cosine c of the nearer
    half. So it is relative to these papers: 8 is about three quarters of what the nearer half has.
    """

    async def rank(
        self, topic: Topic, attributes: TaskAttributes, papers: Sequence[Hit]
    ) -> tuple[Fit, ...]:
        """Score papers by their words."""
        words = [stems(material.text_of(paper)) for paper in papers]
        counts = Counter(word for of in words for word in of)
        weights = {word: log((len(papers) + 0.5) / df) for word, df in counts.items()}
        vectors = [_unit({word: weights[word] for word in of}) for of in words]
        task = " ".join((attributes.inputs, attributes.outputs, *attributes.other))
        queries = [
            _widened(_unit({w: weights[w] for w in stems(text) if w in weights}), vectors)
            for text in (topic.title, task)
        ]
        topical, fitting = (
            _scores([_dot(query, vector) for vector in vectors]) for query in queries
        )
        return tuple(
            Fit(one, other, _reason(queries, vector))
            for one, other, vector in zip(topical, fitting, vectors, strict=True)
        )


def stems(text: str) -> frozenset[str]:
    """Return the index terms of a text, without words that tell nothing."""
    return frozenset(telling(text))


# Sets of words have no order that is the same in every process, so all sums are exact (fsum).
def _unit(vector: Vector) -> Vector:
    length = sqrt(fsum(value * value for value in vector.values()))
    return {word: value / length for word, value in vector.items()} if length else {}


def _dot(one: Vector, other: Vector) -> float:
    return fsum(value * other[word] for word, value in one.items() if word in other)


def _widened(query: Vector, vectors: Sequence[Vector]) -> Vector:
    """Return a query with the mean of the papers nearest to it added; none without a word."""
    cosines = [_dot(query, vector) for vector in vectors]
    least = min(_nearest(cosines, _FIFTH), default=0.0)
    # All that are as near as the last of them, so that the order of the papers does not matter.
    near = [v for v, cosine in zip(vectors, cosines, strict=True) if cosine and cosine >= least]
    parts: dict[str, list[float]] = defaultdict(list)
    for vector in near:
        for word, value in vector.items():
            parts[word].append(value)
    mean = _unit({word: fsum(values) for word, values in parts.items()})
    return _unit({word: query.get(word, 0.0) + value for word, value in mean.items()})


def _nearest(cosines: Sequence[float], parts: int) -> list[float]:
    """Return the largest of so many parts, at least one cosine if there are any."""
    return sorted(cosines, reverse=True)[: max(1, len(cosines) // parts)]


def _scores(cosines: Sequence[float]) -> list[int]:
    best = _nearest(cosines, _HALF)
    high = fsum(best) / (len(best) or 1)
    return [min(10, 1 + round(9 * cosine / high)) if high else 1 for cosine in cosines]


def _reason(queries: Sequence[Vector], vector: Vector) -> str:
    """Name the words that add most to each cosine."""
    said = []
    for name, query in zip(("topic", "attributes"), queries, strict=True):
        shared = sorted(query.keys() & vector.keys(), key=lambda w: (-query[w] * vector[w], w))
        said.append(f"{name}: {', '.join(shared[:_NAMED]) or 'no word in common'}")
    return one_line("; ".join(said))
