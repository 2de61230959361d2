"""The port to a library of papers and code."""

from __future__ import annotations

from typing import Protocol

from hpcscientist.records.literature import FormulaHit, Hit, Paper, SearchBy, SymbolHit


class Library(Protocol):
    """Searches papers, formulas and code.

    Obligations: a search without any hit returns none and raises nothing; the same query on the
    same library finds the same in the same order, in every process; any thread may search. What
    is out of reach for the moment (a network) finds nothing: that is no evidence of anything.
    Raises LibraryError where the library itself is damaged.
    """

    @property
    def fingerprint(self) -> str:
        """A text that is equal only for libraries of the same content."""
        ...

    def __len__(self) -> int:
        """Return how many papers it holds."""
        ...

    def search(self, query: str, limit: int = 10, by: SearchBy = "both") -> tuple[Hit, ...]:
        """Return at most `limit` papers, the best first."""
        ...

    def paper(self, paper_id: str) -> Paper | None:
        """Return a paper whole; None if it is not in the library."""
        ...

    def formulas(self, query: str, limit: int = 10) -> tuple[FormulaHit, ...]:
        """Return formulas of the papers that fit best."""
        ...

    def symbols(self, query: str, limit: int = 10) -> tuple[SymbolHit, ...]:
        """Return reference code that fits best."""
        ...
