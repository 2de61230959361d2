"""One list out of what the offline library and the services find, each paper in it once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hpcscientist.literature.library import keys
from hpcscientist.literature.library.sameness.merge import merged
from hpcscientist.literature.merging import reciprocal
from hpcscientist.literature.sources.ids import normal_title
from hpcscientist.records.known.literature import Hit, Paper, Why


@dataclass(frozen=True, slots=True)
class Listed:
    """A paper at its place in one search; `why` where the offline library found it."""

    paper: Paper
    why: Why | None = None


@dataclass(slots=True)
class Joined:
    """A paper, whoever found it: what each says of it, and its ranks, which count from 1."""

    records: list[Paper] = field(default_factory=list)
    ranks: dict[int, int] = field(default_factory=dict)
    why: Why = field(default_factory=Why)

    @property
    def score(self) -> float:
        """By reciprocal rank fusion."""
        return reciprocal(self.ranks.values())

    @property
    def paper_id(self) -> str:
        """The id that it was found under first."""
        return self.records[0].paper_id

    def as_hit(self) -> Hit:
        """Return it as a hit."""
        paper = one_of(self.records)
        return Hit(
            paper_id=paper.paper_id,
            title=paper.title,
            abstract=paper.abstract,
            year=paper.year,
            origin=paper.origin,
            score=self.score,
            why=self.why,
        )


def join(searches: Sequence[Sequence[Listed]]) -> list[Joined]:
    """Return the papers of several searches, the best first.

    A paper keeps the id under which the first of them knows it. Ties go to the better best rank,
    then to the smaller id.
    """
    found = _Papers()
    for number, search in enumerate(searches):
        for rank, listed in enumerate(search, start=1):
            joined = found.of(listed.paper)
            joined.records.append(listed.paper)
            joined.ranks.setdefault(number, rank)
            joined.why = listed.why or joined.why
    return sorted(found.papers, key=lambda j: (-j.score, min(j.ranks.values()), j.paper_id))


def one_of(records: Sequence[Paper]) -> Paper:
    """Return one paper out of several records of it, under the id of the first."""
    if len(records) == 1:
        return records[0]
    return merged(records).model_copy(update={"paper_id": records[0].paper_id})


class _Papers:
    """The papers so far, by what tells that two are one."""

    def __init__(self) -> None:
        self.papers: list[Joined] = []
        self._by_id: dict[str, Joined] = {}
        self._by_title: dict[str, list[Joined]] = {}

    def of(self, paper: Paper) -> Joined:
        """Return the paper that a record is of, a new one where it is none of those so far."""
        ids, title = keys.ids(paper), normal_title(paper.title)
        joined = next((self._by_id[i] for i in ids if i in self._by_id), None) or next(
            (j for j in self._by_title.get(title, ()) if keys.same_paper(j.records[0], paper)), None
        )
        if joined is None:
            joined = Joined()
            self.papers.append(joined)
            self._by_title.setdefault(title, []).append(joined)
        for name in ids:
            self._by_id.setdefault(name, joined)
        return joined
