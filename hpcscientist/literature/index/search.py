"""Opens a library and searches it by words, by vectors, or by both."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from hpcscientist.errors import LibraryError
from hpcscientist.literature.index import catalogue as catalogues
from hpcscientist.literature.index import documents, engine, keyword
from hpcscientist.literature.index.catalogue import Catalogue, IndexPaths
from hpcscientist.literature.index.keyword import KeywordHit, KeywordIndex
from hpcscientist.literature.index.meaning import Near, Vectors, among, open_embedder
from hpcscientist.literature.library.parts import Positions
from hpcscientist.literature.library.paths import LibraryPaths
from hpcscientist.literature.library.store import Store, open_store
from hpcscientist.literature.material import reciprocal
from hpcscientist.models.embedding.keywords import STOP, identifiers, pieces, stems, telling, words
from hpcscientist.ports import Embedder
from hpcscientist.records.literature import (
    FormulaHit,
    Hit,
    Paper,
    SearchBy,
    SymbolHit,
    TermWeight,
    Why,
)

# Merging two rankings by reciprocal rank fusion.
#
# A rank does not show how good a hit is, and a search by words ranks everything that shares one
# common word with the query. So a hit by words counts in the sum only if it has at least half the
# score of the best one; weaker ones come after all others. On papers whose task is known, the
# combination is then as good as the better ranking (`benchmarks retrieval`); without this rule, it
# lies half-way between them.

STRONG = 0.5  # of the best hit's score


@dataclass(frozen=True, slots=True)
class Ranked:
    """A paper, its score, and its rank in each search, from 1; None if that did not find it."""

    position: int
    score: float
    keyword_rank: int | None
    embedding_rank: int | None


def fuse(words: Sequence[tuple[int, float]], vectors: Sequence[int]) -> list[Ranked]:
    """Return all papers of both rankings, the best first.

    `words` has positions and scores, `vectors` positions, both the best first. On a tie, the better
    rank by words decides, then the better rank by vectors.
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


H = TypeVar("H", KeywordHit, Near)

DEPTH = 100  # papers of each ranking to merge: those further down add next to nothing
# Below this cosine, two texts are unrelated for every embedder that we know.
FLOOR = 0.1
_ATTEMPTS = 5  # to open a library while builds replace its index
_QUERY = 20_000  # characters of a query that are used


def open_library(folder: Path, embedder: Embedder | None = None) -> SearchableLibrary:
    """Open a library that `hpcsci library build` made.

    `embedder` is one that is already open; it is used if it made the library's vectors. Raises
    LibraryError, which names the fix, if there is no library, or if it or its index is damaged.
    """
    paths = IndexPaths(LibraryPaths(folder).index)
    # To open a pipe would wait for ever, a device has no end. A build may remove folders meanwhile.
    for path in (Path(at, name) for at, _, names in os.walk(folder) for name in names):
        if not path.is_file() and os.path.lexists(path):
            raise LibraryError(
                f"{path}: is no regular file; remove it, then the same `hpcsci library build … "
                f"--out {folder}` makes it anew"
            )
    for _ in range(_ATTEMPTS):
        store = open_store(folder)
        catalogue = catalogues.read(paths)
        if catalogue is None:
            raise LibraryError(
                f"{folder}: has no index yet; the same `hpcsci library build … --out {folder}` "
                "makes it"
            )
        try:
            return SearchableLibrary(folder, store, catalogue, embedder)
        except LibraryError:
            if catalogues.read(paths) == catalogue:  # else a build has just replaced it
                raise
    raise LibraryError(f"{folder}: is replaced again and again; try when no build is going on")


class SearchableLibrary:
    """The papers, formulas and code of one library; the adapter of `hpcscientist.ports.Library`."""

    def __init__(
        self, folder: Path, store: Store, catalogue: Catalogue, embedder: Embedder | None
    ) -> None:
        """Open the index that a catalogue names; see `open_library`."""
        self._folder, self._store, self._catalogue = folder, store, catalogue
        self._paths = IndexPaths(LibraryPaths(folder).index)
        part = catalogue.keyword
        documents.check(self._paths, part)
        self._papers, self._formulas, self._symbols = (
            KeywordIndex(self._paths.path(part.folder) / name, boosts)
            for name, boosts in documents.FIELDS.items()
        )
        self._vectors = Vectors(self._paths, catalogue.vectors) if catalogue.vectors else None
        self._given = embedder
        self._embedder: Embedder | None = None
        self._lock = threading.Lock()
        indexed = documents.indexed(self._paths, part, "papers.npy")
        self._gone = len(np.setdiff1d(indexed, store.positions))
        self.unindexed = len(np.setdiff1d(store.positions, indexed))

    @property
    def fingerprint(self) -> str:
        """A text that is equal only for libraries with the same content and the same index."""
        part = self._catalogue.vectors
        said = [self._store.fingerprint, self._catalogue.keyword.content]
        said += [part.embedder, part.content] if part else []
        return hashlib.sha256("\n".join(said).encode()).hexdigest()

    @property
    def embedding(self) -> str:
        """The name of the embedder that made the vectors, for users; "" without vectors."""
        return self._catalogue.vectors.name if self._catalogue.vectors else ""

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of papers, formulas and symbols."""
        return {
            "papers": len(self),
            "formulas": len(self._formulas),
            "symbols": len(self._symbols),
        }

    def __len__(self) -> int:
        return len(self._store)

    def search(self, query: str, limit: int = 10, by: SearchBy = "both") -> tuple[Hit, ...]:
        """Return at most `limit` papers, the best first, each with an explanation.

        The query is plain words of any length and script, never an expression. Raises LibraryError
        if the index is damaged, or if the model of its vectors cannot be opened.
        """
        if limit < 1:
            return ()
        query = _fixed(query)
        depth = limit if by != "both" else max(DEPTH, limit)
        found = [] if by == "embedding" else self._by_words(query, depth)
        near = [] if by == "keyword" else self._by_vectors(query, depth)
        ranked = fuse([(hit.position, hit.score) for hit in found], [hit.position for hit in near])
        matched = {hit.position: hit for hit in found}
        cosines = {hit.position: hit.cosine for hit in near}
        written = _written(query)
        hits = []
        for entry in ranked[:limit]:
            hit, cosine = matched.get(entry.position), cosines.get(entry.position)
            why = Why(
                terms=_terms(hit, written),
                keyword_rank=entry.keyword_rank,
                keyword_score=None if hit is None else hit.score,
                embedding_rank=entry.embedding_rank,
                cosine=cosine,
            )
            alone = {"keyword": why.keyword_score, "embedding": cosine}
            hits.append(self._hit(entry.position, alone.get(by) or entry.score, why))
        return tuple(hits)

    def paper(self, paper_id: str) -> Paper | None:
        """Return a whole paper; None if it is not in the library."""
        return self._store.find(paper_id)

    def formulas(self, query: str, limit: int = 10) -> tuple[FormulaHit, ...]:
        """Return the formulas that fit a query best, by their context and their content."""
        query = _fixed(query)
        terms = [*_telling(query), *engine.formula_words(query)]
        hits = []
        hits_of_terms = self._formulas.search(terms, limit + self._gone)
        for found in _live(self._store.positions, hits_of_terms)[:limit]:
            paper = self._store.paper_at(found.position)
            hits.append(
                FormulaHit(
                    formula_id=f"{paper.paper_id}#f{found.number}",
                    paper_id=paper.paper_id,
                    title=paper.title,
                    formula=paper.formulas[found.number - 1],
                )
            )
        return tuple(hits)

    def symbols(self, query: str, limit: int = 10) -> tuple[SymbolHit, ...]:
        """Return the reference code that fits a query best, by names, docstring and code."""
        query = _fixed(query)
        named = " ".join(word for word in query.split() if word.lower() not in STOP)
        found = self._symbols.search([*_telling(query), *identifiers(named)], limit)
        return tuple(
            SymbolHit(symbol=self._store.symbol_at(hit.position), score=hit.score)
            for hit in _live(self._store.symbol_positions, found)
        )

    def suggest(self, query: str) -> tuple[str, ...]:
        """Return words of the library that are spelled like unknown words of a query."""
        return keyword.suggest(_fixed(query), self._papers, self._store)

    def _by_words(self, query: str, depth: int) -> list[KeywordHit]:
        found = self._papers.search(_telling(query), depth + self._gone)
        return _live(self._store.positions, found)[:depth]

    def _by_vectors(self, query: str, depth: int) -> list[Near]:
        if self._vectors is None or not query.strip():
            return []
        vector = np.asarray(self._opened().embed([query]), dtype=np.float32)[0]
        near = self._vectors.nearest(vector, depth + self._gone)
        live = _live(self._store.positions, near)
        return [hit for hit in live if hit.cosine > FLOOR][:depth]

    def _hit(self, position: int, score: float, why: Why) -> Hit:
        paper = self._store.paper_at(position)
        return Hit(
            paper_id=paper.paper_id,
            title=paper.title,
            abstract=paper.abstract,
            year=paper.year,
            origin=paper.origin,
            score=score,
            why=why,
        )

    def _opened(self) -> Embedder:
        with self._lock:
            if self._embedder is None:
                assert self._catalogue.vectors is not None
                self._embedder = open_embedder(self._paths, self._catalogue.vectors, self._given)
            return self._embedder


def _fixed(query: str) -> str:
    """Return the part of a query that is used, with invalid Unicode replaced."""
    return query[:_QUERY].encode("utf-8", "replace").decode()


def _telling(query: str) -> list[str]:
    """Return the terms to search for: without stop words, or all if nothing else is left."""
    return telling(query) or words(query)


def _written(query: str) -> dict[str, str]:
    """Return the word of the query that each term comes from."""
    found = list(dict.fromkeys(pieces(query)))
    return dict(zip(reversed(stems(found)), reversed(found), strict=True))


def _terms(found: KeywordHit | None, written: dict[str, str]) -> tuple[TermWeight, ...]:
    """Return the weights of a hit, the largest first."""
    if found is None:
        return ()
    weights = sorted(found.weights, key=lambda w: (-w.weight, w.term, w.field))
    return tuple(
        TermWeight.model_validate(
            {"term": written.get(w.term, w.term), "field": w.field, "weight": w.weight}
        )
        for w in weights
    )


def _live(positions: Positions, found: Sequence[H]) -> list[H]:
    """Return hits without those whose papers were removed since the index was made."""
    live = among(positions, np.array([hit.position for hit in found], dtype=np.int64))
    return [hit for hit, is_live in zip(found, live.tolist(), strict=True) if is_live]
