"""A library in memory that can be made to fail."""

from __future__ import annotations

from hpcscientist.errors import LibraryError
from hpcscientist.models.embedding.keywords import terms
from hpcscientist.records.literature import FormulaHit, Hit, Paper, SearchBy, SymbolHit

SHELF = {
    "arxiv:1": ("Wider networks", "We double the width of a network."),
    "arxiv:2": ("Deep networks", "Depth helps a network."),
    "doi:3": ("Momentum", "Gradients are accumulated."),
    "doi:4": ("Dropout", "Units are left out while training."),
}


class Shelf:
    """A library in memory: hits share words with the query, most of them first."""

    fingerprint = "shelf"

    def __init__(self, papers: dict[str, tuple[str, str]], fails_at: int = 0) -> None:
        self._papers, self._fails_at = papers, fails_at
        self.asked: list[str] = []

    def __len__(self) -> int:
        return len(self._papers)

    def search(self, query: str, limit: int = 10, by: SearchBy = "both") -> tuple[Hit, ...]:
        self.asked.append(query)
        if len(self.asked) == self._fails_at:
            raise LibraryError("papers.arrow is damaged; build the library again")
        wanted, found = set(terms(query)), []
        for paper_id, (title, abstract) in self._papers.items():
            score = len(wanted.intersection(terms(f"{title} {abstract}")))
            hit = Hit(
                paper_id=paper_id, title=title, abstract=abstract, year=2001, origin="shelf",
                score=score,
            )  # fmt: skip
            found.append(hit)
        ranked = sorted(found, key=lambda hit: (-hit.score, hit.paper_id))
        return tuple(hit for hit in ranked if hit.score)[:limit]

    def paper(self, paper_id: str) -> Paper | None:
        return None

    def formulas(self, query: str, limit: int = 10) -> tuple[FormulaHit, ...]:
        return ()

    def symbols(self, query: str, limit: int = 10) -> tuple[SymbolHit, ...]:
        return ()
