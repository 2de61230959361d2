"""Words of the library that are written like words it does not know."""

from __future__ import annotations

from difflib import get_close_matches

from hpcscientist.literature.index.words.fields import SPELLING
from hpcscientist.literature.index.words.keyword import KeywordIndex
from hpcscientist.literature.library.store import Store
from hpcscientist.models.embedding.words import STOP, pieces, stems

_WORDS = 8  # of a query that are looked at
_PAPERS = 5  # that are looked into for a word
_SHORTEST = 3  # letters of a word that is looked at


def suggest(query: str, papers: KeywordIndex, store: Store) -> tuple[str, ...]:
    """Return a word for each of the query's words that no paper has, where one is near."""
    written = list(dict.fromkeys(pieces(query)))
    unknown = [
        word
        for word, stem in zip(written, stems(written), strict=True)
        if len(word) >= _SHORTEST and word not in STOP and not papers.knows(stem)
    ]
    found = [_nearest(word, papers, store) for word in unknown[:_WORDS]]
    return tuple(dict.fromkeys(word for word in found if word))


def _nearest(word: str, papers: KeywordIndex, store: Store) -> str:
    """Return the nearest of the words of titles that have one near; "" if none does."""
    there: dict[str, None] = {}
    for position in papers.near(SPELLING, word, _PAPERS):
        if position in store.positions:
            there |= dict.fromkeys(pieces(store.paper_at(position).title))
    close = get_close_matches(word, there, n=1, cutoff=0.7)
    return close[0] if close else ""
