"""Two rankings are made one by reciprocal rank fusion.

Ranks forget how good a hit was, and a search for words ranks everything that shares one common
word with the query. So a hit by words counts in the sum only if it has half the score of the
best one; weaker ones stand behind all others. On papers whose task is known that keeps the
combination as good as the better of the two (`benchmarks retrieval`); without it, it lies
half-way between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hpcscientist.literature.merging import reciprocal

STRONG = 0.5  # of the best hit's score


@dataclass(frozen=True, slots=True)
class Ranked:
    """A paper, its score and rank in each search, from 1; None where that did not find it."""

    position: int
    score: float
    keyword_rank: int | None
    embedding_rank: int | None


def fuse(words: Sequence[tuple[int, float]], vectors: Sequence[int]) -> list[Ranked]:
    """Return all papers of both rankings, the best first.

    `words` are positions and scores, `vectors` positions, both the best first. On a tie the
    better rank by words decides, then the better by vectors.
    """
    by_words = {position: rank for rank, (position, _) in enumerate(words, start=1)}
    by_vectors = {position: rank for rank, position in enumerate(vectors, start=1)}
    strong = {p: by_words[p] for p, score in words if score >= STRONG * words[0][1]}
    found = [
        Ranked(
            position,
            reciprocal(ranks[position] for ranks in (strong, by_vectors) if position in ranks),
            by_words.get(position),
            by_vectors.get(position),
        )
        for position in dict.fromkeys([*by_words, *by_vectors])
    ]
    return sorted(found, key=_order)


def _order(found: Ranked) -> tuple[float, float, float]:
    last = float("inf")
    return -found.score, found.keyword_rank or last, found.embedding_rank or last
