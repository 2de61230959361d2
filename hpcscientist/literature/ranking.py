"""Scores how well papers fit a topic and its task attributes (Dolphin, arXiv 2501.03916, 3.1).

Related tasks share a subject: a paper on detection in point clouds is close to the topic of
classifying them, and still of little use for it. So each paper gets two scores from 1 to 10, one
for the topic and one for the attributes of its task, and both count.

Models use the scale differently: a small one gives 1 to papers on the very task, or 8 to all.
So if the expected scores are known, papers are separated only by their rank in this survey
(`kept`).
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
from hpcscientist.models.role_client import UNANSWERED, CallPurpose, RoleClient
from hpcscientist.recipe.schema import Topic
from hpcscientist.records.idea import SURVEY_ID
from hpcscientist.records.literature import Hit, RankReply, TaskAttributes

Vector: TypeAlias = Mapping[str, float]  # weight by word

_HALF, _FIFTH = 2, 5  # divisors
_NAMED = 5  # words named in a reason


@dataclass(frozen=True, slots=True)
class Fit:
    """A paper's two scores, 1 to 10, with a reason; None if it could not be judged.

    The expected scores are None if the probabilities of other scores are unknown.
    """

    topic: int | None
    attributes: int | None
    reason: str
    expected_topic: float | None = None
    expected_attributes: float | None = None

    @property
    def has_odds(self) -> bool:
        """Whether both expected scores are known."""
        return self.expected_topic is not None and self.expected_attributes is not None

    @property
    def worth(self) -> tuple[float, float] | None:
        """The lower and the higher score, each as expected score if known; None if not judged."""
        if self.topic is None or self.attributes is None:
            return None
        topic = self.topic if self.expected_topic is None else self.expected_topic
        other = self.attributes if self.expected_attributes is None else self.expected_attributes
        return min(topic, other), max(topic, other)


class Ranker(Protocol):
    """Scores papers.

    Obligations: return one fit per paper, in the papers' order; the same papers in the same order
    get the same fits. A paper that cannot be judged has no scores, only the reason. Raises what
    asking a model raises, except ReplyError.
    """

    async def rank(
        self, topic: Topic, attributes: TaskAttributes, papers: Sequence[Hit]
    ) -> tuple[Fit, ...]:
        """Score papers."""
        ...


class ModelRanker:
    """Asks a model about each paper separately, so that no abstract can mention another."""

    def __init__(self, client: RoleClient) -> None:
        self._client = client

    async def rank(
        self, topic: Topic, attributes: TaskAttributes, papers: Sequence[Hit]
    ) -> tuple[Fit, ...]:
        """Score papers concurrently; a paper's id determines its call's ordinal (`ordinals`)."""
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
                CallPurpose(SURVEY_ID, 0, "rank", ordinal=place), RankReply, prompt
            )
        except UNANSWERED as error:
            return Fit(None, None, one_line(f"not judged: {error}"))
        expected = (reply.expectation(field) for field in ("topic", "attributes"))
        return Fit(reply.topic, reply.attributes, line(reply.reason, 300), *expected)


def kept(fits: Sequence[Fit], threshold: int) -> tuple[list[bool], str]:
    """Return for each paper, in order of retrieval, whether it is kept, and what decided that.

    Without expected scores, papers are compared with `threshold`, and "" is returned. If that
    keeps none or all, or if expected scores are known, papers are split in two where their scores
    separate most clearly (Otsu, 1979), so at least one is kept and at least one is not: "rank".
    If all scores are equal, the first half of the retrieved papers is kept: "retrieval". In the
    other cases a paper that was not judged is kept.
    """
    worths = [fit.worth for fit in fits]
    known = [worth for worth in worths if worth is not None]
    if not any(fit.has_odds for fit in fits):
        reach = [worth is None or worth[0] >= threshold for worth in worths]
        if 0 < sum(worth[0] >= threshold for worth in known) < len(known):
            return reach, ""
    for part in (0, 1):  # if all lower scores are equal, the higher ones decide
        values = sorted((worth[part] for worth in known), reverse=True)
        if values and values[0] > values[-1]:
            least = values[_cut(values) - 1]
            return [worth is None or worth[part] >= least for worth in worths], "rank"
    half = (len(fits) + 1) // 2
    return [place < half for place in range(len(fits))], "retrieval"


def _cut(values: Sequence[float]) -> int:
    """Return the size of the upper class in Otsu's split of values sorted in descending order.

    The split maximises the variance between the two classes; equal values share a class.
    """
    count, total = len(values), fsum(values)

    def between(upper: int) -> float:
        above = fsum(values[:upper])
        means = above / upper - (total - above) / (count - upper)
        return upper * (count - upper) * means**2

    cuts = (upper for upper in range(1, count) if values[upper - 1] > values[upper])
    return max(cuts, key=between)


def quantiles(fits: Sequence[Fit]) -> list[float | None]:
    """Return for each paper the share of judged papers not better than it; None if not judged."""
    known = sorted(fit.worth for fit in fits if fit.worth is not None)
    return [bisect_right(known, fit.worth) / len(known) if fit.worth else None for fit in fits]


def ordinals(paper_ids: Sequence[str]) -> dict[str, int]:
    """Return the ordinal of each paper's call: the first 28 bits of SHA-256 of its id, plus 1.

    The ordinal does not depend on other papers, so recorded replies stay with their papers when a
    search finds other papers or another order. If two ids collide, the later one in the order of
    ids takes the next free ordinal.
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
    """Scores papers by their words, without a model; also a reference for a model's scores.

    The topic's title and the attributes (all of them) are each compared with title and abstract,
    as vectors of weighted words. Words are the library's index terms without stop words
    (`models.embedding.keywords`). Each word counts once and has the weight ln((n + 1/2) / df),
    where df of the n papers contain it, so words that distinguish papers count most. Few papers
    use the exact words of the attributes, so each vector is expanded: the mean vector of the
    nearest fifth of the papers is added (Rocchio, 1971, with blind feedback), which brings in data
    sets, measures and other names of the task. A score is 1 + 9 c / m, rounded, at most 10, where
    m is the mean cosine c of the nearest half. So scores are relative to these papers: 8 is about
    three quarters of the mean of the nearest half.
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
    """Return the index terms of a text, without stop words."""
    return frozenset(telling(text))


# The order of a set of words differs between processes, so all sums are exact (fsum).
def _unit(vector: Vector) -> Vector:
    length = sqrt(fsum(value * value for value in vector.values()))
    return {word: value / length for word, value in vector.items()} if length else {}


def _dot(one: Vector, other: Vector) -> float:
    return fsum(value * other[word] for word, value in one.items() if word in other)


def _widened(query: Vector, vectors: Sequence[Vector]) -> Vector:
    """Return a query plus the mean of the nearest papers; papers with cosine 0 are left out."""
    cosines = [_dot(query, vector) for vector in vectors]
    least = min(_nearest(cosines, _FIFTH), default=0.0)
    # Ties with the last one are included, so that the order of the papers does not matter.
    near = [v for v, cosine in zip(vectors, cosines, strict=True) if cosine and cosine >= least]
    parts: dict[str, list[float]] = defaultdict(list)
    for vector in near:
        for word, value in vector.items():
            parts[word].append(value)
    mean = _unit({word: fsum(values) for word, values in parts.items()})
    return _unit({word: query.get(word, 0.0) + value for word, value in mean.items()})


def _nearest(cosines: Sequence[float], parts: int) -> list[float]:
    """Return the largest 1/`parts` of the cosines, at least one if there are any."""
    return sorted(cosines, reverse=True)[: max(1, len(cosines) // parts)]


def _scores(cosines: Sequence[float]) -> list[int]:
    best = _nearest(cosines, _HALF)
    high = fsum(best) / (len(best) or 1)
    return [min(10, 1 + round(9 * cosine / high)) if high else 1 for cosine in cosines]


def _reason(queries: Sequence[Vector], vector: Vector) -> str:
    """Return a reason that names the words that add most to each cosine."""
    said = []
    for name, query in zip(("topic", "attributes"), queries, strict=True):
        shared = sorted(query.keys() & vector.keys(), key=lambda w: (-query[w] * vector[w], w))
        said.append(f"{name}: {', '.join(shared[:_NAMED]) or 'no word in common'}")
    return one_line("; ".join(said))
