"""One order out of the hits of several searches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from hpcscientist.records.known.literature import Hit

CONSTANT = 60  # of the paper


@dataclass(frozen=True, slots=True)
class Found:
    """A paper and the queries that found it, in the order in which they were asked."""

    hit: Hit
    queries: tuple[str, ...]


def reciprocal(ranks: Iterable[int]) -> float:
    """Return what reciprocal rank fusion gives a paper that searches found at these ranks.

    It is the sum of 1 / (60 + rank), ranks from 1 (Cormack, Clarke and Büttcher, SIGIR 2009), and
    the same in any order.
    """
    return fsum(1 / (CONSTANT + rank) for rank in ranks)


def merge(searches: Mapping[str, Sequence[Hit]]) -> tuple[Found, ...]:
    """Return the papers of several searches, each once, the best first.

    Scores of different searches cannot be compared, ranks can: see `reciprocal`. Ties go to the
    better best rank, then to the smaller id, so the order of the searches does not matter.
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

    return tuple(Found(hits[p], tuple(ranks[p])) for p in sorted(hits, key=order))
