"""Search by words with tantivy; every hit's score is explained by term and field.

The score is BM25 (Robertson and Zaragoza 2009; k1 1.2, b 0.75), summed over fields with a weight
each. Tantivy sums in float32, in an order of its own; this module sums the weights of the terms
again in float64, in a fixed order. So a paper has the same score however the index was built,
papers with equal scores are ordered by id, and the weights of an explanation add up to the score.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from math import fsum
from pathlib import Path
from typing import Any

from hpcscientist.literature.index import engine
from hpcscientist.literature.index.engine import SPELLING, body
from hpcscientist.literature.library.store import Store
from hpcscientist.models.embedding.keywords import STOP, pieces, spans, stems, telling, words
from hpcscientist.records.literature import Paper

MOST_TERMS = 64  # the rarest terms of a query are used; an abstract as a query has about as many
_MARGIN = 32  # extra hits, so that hits with equal scores can be ordered by id
_CLOSE = 2e-5  # relative error of a float32 sum, with a margin
_EXPLAINED = 256  # at most this many extra hits get exact scores at the end of a list


@dataclass(frozen=True, slots=True)
class Weight:
    """The contribution of a term in a field to a document's score."""

    term: str
    field: str
    weight: float


@dataclass(frozen=True, slots=True)
class KeywordHit:
    """A document that a search found; `label` is its id."""

    position: int
    number: int
    label: str
    score: float
    weights: tuple[Weight, ...]


class KeywordIndex:
    """One open index. Any thread may search. Raises LibraryError if it cannot be opened."""

    def __init__(self, folder: Path, boosts: Mapping[str, float]) -> None:
        self._folder, self._boosts = folder, boosts
        self._schema, self._searcher = engine.open_view(folder)

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def search(self, terms: Sequence[str], limit: int) -> list[KeywordHit]:
        """Return at most `limit` documents with any of the terms, the best first.

        Raises LibraryError if the index turns out to be damaged.
        """
        with self._reading():
            chosen = self._chosen(terms)
            if not chosen or limit < 1:
                return []
            hits = self._candidates(_any([query for _, _, query in chosen]), limit)
            found = [self._explain(chosen, *hit) for hit in hits]
        return sorted(found, key=_rank)[:limit]

    def near(self, field: str, word: str, limit: int) -> list[int]:
        """Return positions of documents with a word in a field that is spelled like `word`.

        One letter may be wrong, missing, extra or swapped with the next; two in a long word.
        """
        import tantivy  # noqa: PLC0415 (heavy)

        distance = 1 if len(word) < 6 else 2
        with self._reading():
            query = tantivy.Query.fuzzy_term_query(self._schema, field, word, distance)
            hits = self._searcher.search(query, limit, count=False).hits
            return [self._stored(address)[0] for _, address in hits]

    def knows(self, term: str) -> bool:
        """Return whether any document has a term."""
        with self._reading():
            return any(self._searcher.doc_freq(field, term) for field in self._boosts)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Raise LibraryError if the index turns out to be damaged."""
        try:
            with engine.reading(self._folder):
                yield
        except OSError as error:
            raise engine.unreadable(self._folder, error) from error

    def _chosen(self, terms: Sequence[str]) -> list[tuple[str, str, Any]]:
        """Return (term, field, query) for each of the rarest terms and each field that has it."""
        import tantivy  # noqa: PLC0415 (heavy)

        counts = {
            term: {field: self._searcher.doc_freq(field, term) for field in self._boosts}
            for term in dict.fromkeys(terms)
        }
        known = [term for term in counts if any(counts[term].values())]
        rarest = sorted(known, key=lambda term: (max(counts[term].values()), term))[:MOST_TERMS]
        return [
            (
                term,
                field,
                tantivy.Query.boost_query(
                    tantivy.Query.term_query(self._schema, field, term, "freq"), boost
                ),
            )
            for term in sorted(rarest)
            for field, boost in self._boosts.items()
            if counts[term][field]
        ]

    def _candidates(self, query: Any, limit: int) -> list[tuple[Any, int, int, str]]:
        """Return (address, position, number, label) of all hits that may be among the best."""
        wanted, most = limit + _MARGIN, max(1, len(self))
        while True:
            hits = self._searcher.search(query, min(wanted, most), count=False).hits
            if len(hits) < wanted or hits[-1][0] < hits[limit - 1][0] * (1 - _CLOSE):
                break
            wanted *= 4
        if len(hits) > limit:
            least = hits[limit - 1][0] * (1 - _CLOSE)
            hits = [hit for hit in hits if hit[0] >= least]
        found = [(score, address, *self._stored(address)) for score, address in hits]
        if len(found) > limit + _EXPLAINED:  # many equal scores: a common word in short titles
            found.sort(key=lambda hit: (-float(f"{hit[0]:.4g}"), hit[4], hit[3]))
        return [hit[1:] for hit in found[: limit + _EXPLAINED]]

    def _explain(
        self, chosen: Sequence[tuple[str, str, Any]], address: Any, *stored: Any
    ) -> KeywordHit:
        weights = []
        for term, field, query in chosen:
            weight = self._weight(query, address)
            if weight is not None:
                weights.append(Weight(term, field, weight))
        position, number, label = stored
        score = fsum(weight.weight for weight in weights)
        return KeywordHit(position, number, label, score, tuple(weights))

    def _weight(self, query: Any, address: Any) -> float | None:
        try:
            told = query.explain(self._searcher, address)
        except ValueError:  # the document does not have the term in this field
            return None
        return float(json.loads(told.to_json())["value"])

    def _stored(self, address: Any) -> tuple[int, int, str]:
        document = self._searcher.doc(address)
        return (
            document.get_first(engine.POSITION),
            document.get_first("number"),
            document.get_first("label"),
        )


def _any(queries: Sequence[Any]) -> Any:
    import tantivy  # noqa: PLC0415 (heavy)

    return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in queries])


def _rank(found: KeywordHit) -> tuple[float, str, int]:
    return -found.score, found.label, found.number


# Suggestions: words of the library that are spelled like unknown words of a query.

_WORDS = 8  # unknown words of a query to look at
_PAPERS = 5  # papers to search for a similar word
_SHORTEST = 3  # letters of a word to look at


def suggest(query: str, papers: KeywordIndex, store: Store) -> tuple[str, ...]:
    """Return a similar word for each of the query's words that no paper has, if there is one."""
    written = list(dict.fromkeys(pieces(query)))
    unknown = [
        word
        for word, stem in zip(written, stems(written), strict=True)
        if len(word) >= _SHORTEST and word not in STOP and not papers.knows(stem)
    ]
    found = [_nearest(word, papers, store) for word in unknown[:_WORDS]]
    return tuple(dict.fromkeys(word for word in found if word))


def _nearest(word: str, papers: KeywordIndex, store: Store) -> str:
    """Return the title word that is spelled most like `word`; "" if none is similar."""
    there: dict[str, None] = {}
    for position in papers.near(SPELLING, word, _PAPERS):
        if position in store.positions:
            there |= dict.fromkeys(pieces(store.paper_at(position).title))
    close = get_close_matches(word, there, n=1, cutoff=0.7)
    return close[0] if close else ""


# Snippets: the passage of a paper that fits a query best, for users.

WIDTH = 200  # characters
_BODY = 20_000  # characters of the text to look at if the abstract has none of the words


def snippet(paper: Paper, query: str, width: int = WIDTH) -> str:
    """Return a passage of a paper with as many different words of a query as possible.

    It is from the abstract if that has any of the words, else from the text. If neither has, it is
    the beginning of the abstract.
    """
    wanted = frozenset(telling(query) or words(query))
    for text in (paper.abstract, body(paper)[:_BODY]):
        found = _best(text, wanted, width)
        if found:
            return found
    return _cut(paper.abstract or body(paper)[:_BODY], 0, width)


def _best(text: str, wanted: frozenset[str], width: int) -> str:
    """Return the passage with the most different words, the first on a tie; "" without any."""
    hits = [(start, end, terms & wanted) for start, end, terms in spans(text) if terms & wanted]
    best, most, first = 0, 0, 0
    for last, (_, end, _) in enumerate(hits):
        while end - hits[first][0] > width and first < last:
            first += 1
        there = len(frozenset().union(*(terms for _, _, terms in hits[first : last + 1])))
        if there > most:
            most, best = there, hits[first][0]
    return _cut(text, best, width) if hits else ""


def _cut(text: str, start: int, width: int) -> str:
    """Return about `width` characters around position `start`, cut between words."""
    begin = max(0, min(start - width // 4, len(text) - width))
    if begin:
        space = text.find(" ", begin, start)
        begin = begin if space < 0 else space + 1
    end = min(len(text), begin + width)
    if end < len(text):
        space = text.rfind(" ", start + 1, end)
        end = end if space < 0 else space
    piece = " ".join(text[begin:end].split())
    return f"{'… ' if begin else ''}{piece}{' …' if end < len(text) else ''}"
