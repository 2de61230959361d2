"""Keyword vectors: counts of words and of pairs of neighbouring words, without any model.

They are hashed into a fixed space, without weights that depend on other texts, so that the
same two texts always have the same cosine. Likeness in meaning without likeness in words is
not seen.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isqrt, sqrt
from typing import TYPE_CHECKING, Any

import mmh3
import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_FEATURES = 2**20
_ENTRIES = 2**18  # of a chunk: they and what is computed from them stay in the cache
_TEXTS = 2**12  # of a chunk, at most
_GROUP = 64  # queries at a time, which bounds what is computed from a chunk
_CLOSE = 1e-12  # of two cosines: what float64 may get wrong, with room
# Scripts written without spaces: each character counts as a word, pairs of them as pairs.
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORDS = re.compile(rf"[0-9]+(?:\.[0-9]+)?|[{_UNSPACED}]|[^\W{_UNSPACED}]+")


@dataclass(frozen=True, slots=True)
class Counts:
    """A text's columns and what is counted in each; `square` is their squared length."""

    columns: npt.NDArray[np.int64]
    counts: npt.NDArray[np.float64]
    square: int


class KeywordEmbedder:
    """Counts, hashed as scikit-learn's HashingVectorizer does; needs no weights and no GPU."""

    name = "keyword vectors"
    device = None
    fingerprint = "words and pairs, 2^20 columns"

    def embed(self, texts: Sequence[str]) -> csr_array[np.float32]:
        """Return a sparse float32 row a text, of length 1, or 0 for a text without words."""
        from scipy.sparse import csr_array  # noqa: PLC0415 (heavy)

        counts = [self.count(text) for text in texts]
        values = [found.counts / sqrt(found.square or 1) for found in counts]
        ends = np.cumsum([0, *(len(found.columns) for found in counts)])
        return csr_array(
            (
                np.concatenate([np.empty(0), *values]).astype(np.float32),
                np.concatenate([np.empty(0, np.int64), *(found.columns for found in counts)]),
                ends,
            ),
            shape=(len(counts), _FEATURES),
        )

    def index(self) -> KeywordIndex:
        """Return an empty index, whose cosines are exact."""
        return KeywordIndex(self)

    def count(self, text: str) -> Counts:
        """Return the counts of a text's words and pairs of words."""
        found = Counter(abs(mmh3.hash(term)) % _FEATURES for term in terms(text))
        columns = np.array(sorted(found), dtype=np.int64)
        # Whole numbers stay exact: they are normalised in _cosine.
        counts = np.array([found[column] for column in columns.tolist()], dtype=np.float64)
        return Counts(columns, counts, int(counts @ counts))


class KeywordIndex:
    """Counts of texts, in chunks of which each stays where it is.

    A comparison reads them once, a chunk at a time, and is exact: dot products and squared
    lengths of counts are whole numbers.
    """

    def __init__(self, embedder: KeywordEmbedder) -> None:
        self._embedder = embedder
        self._chunks: list[_Chunk] = []
        self._size = 0
        # By column its place among those of the queries, from 1; 0 between comparisons.
        self._places = np.zeros(_FEATURES, dtype=np.int32)

    def __len__(self) -> int:
        return self._size

    def prepare(self, text: str) -> Counts:
        """Return a text's counts."""
        return self._embedder.count(text)

    def prepare_each(self, texts: Sequence[str]) -> list[Counts]:
        """Return the counts of several texts."""
        return [self._embedder.count(text) for text in texts]

    def add(self, vector: Counts) -> None:
        """Add a text's counts; its position is the number of those before it."""
        if not self._chunks or not self._chunks[-1].has_room(len(vector.columns)):
            self._chunks.append(_Chunk(self._size, len(vector.columns)))
        self._chunks[-1].add(vector)
        self._size += 1

    def nearest(self, vector: Counts) -> tuple[int, float] | None:
        """Return the position of the nearest text and the cosine; the first on a tie."""
        return self.nearest_each([vector])[0]

    def nearest_each(self, vectors: Sequence[Counts]) -> list[tuple[int, float] | None]:
        """Return what `nearest` does for each vector; one pass for every 64 of them."""
        found: list[tuple[int, float] | None] = []
        for first in range(0, len(vectors), _GROUP):
            found += self._nearest_of(vectors[first : first + _GROUP])
        return found

    def _nearest_of(self, vectors: Sequence[Counts]) -> list[tuple[int, float] | None]:
        columns = np.unique(np.concatenate([vector.columns for vector in vectors]))
        self._places[columns] = np.arange(1, len(columns) + 1)
        queries = np.zeros((len(columns), len(vectors)))
        for number, vector in enumerate(vectors):
            queries[self._places[vector.columns] - 1, number] = vector.counts
        best: list[tuple[int, float] | None] = [None] * len(vectors)
        for chunk in self._chunks:
            dots = chunk.dots(self._places, queries)
            lengths = np.sqrt(np.maximum(chunk.used_squares, 1))
            for number, vector in enumerate(vectors):
                best[number] = _better(best[number], vector, dots[:, number], lengths, chunk)
        self._places[columns] = 0
        return best


class _Chunk:
    """Counts of successive texts, the first of them at position `start`."""

    def __init__(self, start: int, entries: int) -> None:
        """Make room, for a text of so many entries at least."""
        self.start = start
        self._size = 0
        room = max(_ENTRIES, entries)
        self._columns = np.empty(room, dtype=np.int32)
        self._counts = np.empty(room, dtype=np.int32)
        self._ends = np.zeros(_TEXTS + 1, dtype=np.int64)
        self._squares = np.empty(_TEXTS, dtype=np.int64)

    def has_room(self, entries: int) -> bool:
        return self._size < _TEXTS and self._ends[self._size] + entries <= len(self._columns)

    def add(self, vector: Counts) -> None:
        start = int(self._ends[self._size])
        new = slice(start, start + len(vector.columns))
        self._columns[new], self._counts[new] = vector.columns, vector.counts
        self._squares[self._size] = vector.square
        self._size += 1
        self._ends[self._size] = new.stop

    @property
    def used_squares(self) -> npt.NDArray[np.int64]:
        return self._squares[: self._size]

    def dots(
        self, places: npt.NDArray[np.int32], queries: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """Return the dot product of each text with each query; queries (places, count)."""
        from scipy.sparse import csr_array  # noqa: PLC0415 (heavy)

        ends = self._ends[: self._size + 1]
        place = places[self._columns[: ends[-1]]]
        hits = np.flatnonzero(place)
        counts = self._counts[hits].astype(np.float64)
        shared: Any = csr_array(
            (counts, place[hits] - 1, np.searchsorted(hits, ends)),
            shape=(self._size, len(queries)),
        )
        dots: npt.NDArray[np.float64] = shared @ queries
        return dots


def _better(
    best: tuple[int, float] | None,
    vector: Counts,
    dots: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.float64],
    chunk: _Chunk,
) -> tuple[int, float] | None:
    """Return the best of a chunk where it is nearer than the best so far."""
    if not dots.any():
        return best or (chunk.start, 0.0)
    near = dots / (lengths * sqrt(vector.square or 1))
    least = float(near.max()) - _CLOSE
    if best is not None and least + 2 * _CLOSE < best[1]:
        return best
    texts = np.flatnonzero(near >= least)
    pairs = np.stack([dots[texts].astype(np.int64), chunk.used_squares[texts]])
    # Of texts that are alike in both numbers the first will do.
    _, firsts = np.unique(pairs, axis=1, return_index=True)
    for text in np.sort(texts[firsts]).tolist():
        cosine = _cosine(int(dots[text]), vector.square * int(chunk.used_squares[text]))
        if best is None or cosine > best[1]:
            best = chunk.start + text, cosine
    return best


def terms(text: str) -> list[str]:
    """Return a text's words and pairs of neighbouring words, without case and accents' forms.

    A text without any word (signs, emoji) is taken by its characters.
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    words = _WORDS.findall(plain) or [c for c in plain if not c.isspace()]
    return words + [f"{a} {b}" for a, b in pairwise(words)]


def _cosine(dot: int, squares: int) -> float:
    """Return dot / sqrt(squares), exactly rounded where the root is whole; 0 for no words."""
    if squares == 0:
        return 0.0
    root = isqrt(squares)
    return dot / root if root * root == squares else min(1.0, dot / sqrt(squares))
