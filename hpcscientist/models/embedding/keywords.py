"""Keyword vectors: counts of words and of pairs of neighbouring words, without any model.

The counts are hashed into a fixed space and have no weights from other texts, so the same two texts
always have the same cosine. Similarity in meaning without similar words is not detected. The second
half of the file splits texts into index terms.
"""

from __future__ import annotations

import re
import threading
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

from hpcscientist.models.embedding import KEYWORDS, KEYWORDS_FINGERPRINT

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_FEATURES = 2**20
_ENTRIES = 2**18  # of a chunk: they and the values computed from them fit into the cache
_TEXTS = 2**12  # of a chunk, at most
_GROUP = 64  # queries at a time, which bounds the memory for one chunk
_CLOSE = 1e-12  # of two cosines: float64's rounding error, with a margin
# Scripts written without spaces: each character counts as a word, pairs of them as pairs.
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORDS = re.compile(rf"[0-9]+(?:\.[0-9]+)?|[{_UNSPACED}]|[^\W{_UNSPACED}]+")


@dataclass(frozen=True, slots=True)
class Counts:
    """A text's columns and the count in each; `square` is their squared length."""

    columns: npt.NDArray[np.int64]
    counts: npt.NDArray[np.float64]
    square: int


class KeywordEmbedder:
    """Counts, hashed as scikit-learn's HashingVectorizer does; needs no weights and no GPU."""

    name = KEYWORDS
    device = None
    fingerprint = KEYWORDS_FINGERPRINT

    def embed(self, texts: Sequence[str]) -> csr_array[np.float32]:
        """Return a sparse float32 row for each text, of length 1, or 0 for a text without words."""
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

    def index(self) -> CountIndex:
        """Return an empty index, whose cosines are exact."""
        return CountIndex(self)

    def count(self, text: str) -> Counts:
        """Return the counts of a text's words and pairs of words."""
        found = Counter(abs(mmh3.hash(term)) % _FEATURES for term in terms(text))
        columns = np.array(sorted(found), dtype=np.int64)
        # Counts stay whole numbers, which are exact; _cosine normalises them.
        counts = np.array([found[column] for column in columns.tolist()], dtype=np.float64)
        return Counts(columns, counts, int(counts @ counts))


class CountIndex:
    """An index of texts' counts, stored in chunks that never move.

    A comparison reads each chunk once. It is exact: dot products and squared lengths of counts are
    whole numbers.
    """

    def __init__(self, embedder: KeywordEmbedder) -> None:
        self._embedder = embedder
        self._chunks: list[_Chunk] = []
        self._size = 0
        # For each column, its place among the queries' columns, from 1; all 0 between comparisons.
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
        """Return the result of `nearest` for each vector; one pass for every 64 of them."""
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
        """Allocate room for a text of at least `entries` entries."""
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
        """Return the dot product of each text with each query; `queries` is (places, count)."""
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
    """Return the nearest text of a chunk if it is nearer than the best so far, else the best."""
    if not dots.any():
        return best or (chunk.start, 0.0)
    near = dots / (lengths * sqrt(vector.square or 1))
    least = float(near.max()) - _CLOSE
    if best is not None and least + 2 * _CLOSE < best[1]:
        return best
    texts = np.flatnonzero(near >= least)
    pairs = np.stack([dots[texts].astype(np.int64), chunk.used_squares[texts]])
    # Of texts with equal dot product and length, the first is enough.
    _, firsts = np.unique(pairs, axis=1, return_index=True)
    for text in np.sort(texts[firsts]).tolist():
        cosine = _cosine(int(dots[text]), vector.square * int(chunk.used_squares[text]))
        if best is None or cosine > best[1]:
            best = chunk.start + text, cosine
    return best


def terms(text: str) -> list[str]:
    """Return a text's words and pairs of neighbouring words, casefolded and in NFKC.

    A text without any word (signs, emoji) is split into characters.
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


# Index terms of texts: the words of keyword indexes and of latent vectors.
#
# Case, width and accents are ignored, English words are reduced to their stems (the Snowball
# stemmer, Porter 1980), and words joined by hyphens also count as one: "pretraining" finds
# "pre-training". Scripts without spaces are split into characters and pairs of characters.

LONGEST = 64  # characters of a term; longer strings are cut

# Thai, Lao, Burmese, Khmer, Japanese, Chinese.
_NO_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Marks within words that Python does not count as letters: Hebrew, Arabic, scripts of India.
_MARKS = "\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0970-\u0dff"
_WORD = rf"[^\W_{_NO_SPACES}](?:[{_MARKS}]|[^\W_{_NO_SPACES}])*"
_PIECES = re.compile(
    rf"[0-9]+\.[0-9]+(?![^\W_])|[{_NO_SPACES}]+|{_WORD}(?:[-\u2010\u2011]{_WORD})*"
)
# The same for ASCII text, ten times as fast.
_PLAIN_PIECES = re.compile(r"[0-9]+\.[0-9]+(?![a-z0-9])|[a-z0-9]+(?:-[a-z0-9]+)*")
_SPANS = re.compile(rf"[{_NO_SPACES}]|[^\s{_NO_SPACES}]+")
_ACRONYMS = re.compile(r"\b([A-Z]{2,})s\b")
_ACCENTS = re.compile("[\u0300-\u036f]")
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]|['’]s\\b")
_LETTERS = str.maketrans({"ø": "o", "æ": "ae", "œ": "oe", "đ": "d", "ł": "l", "ı": "i"})
_HYPHENS = re.compile("[-\u2010\u2011]")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_+")
_IDENTIFIER = re.compile(r"[^\W\d]\w*")

_STOP = (
    "a about after all also an and any are as at be because been before between both but by can "
    "could did do does during each for from further had has have he her here his how i if in into "
    "is it its itself just me more most my no nor not of on once only or other our out over own s "
    "same she should so some such than that the their them then there these they this those "
    "through to too under until up very was we were what when where which while who whom why will "
    "with would you your"
)
STOP = frozenset(_STOP.split())  # words, not stems, that do not show a text's subject

_KNOWN = 200_000  # cached stretches of text: some 50 MB
_LONGEST_KNOWN = 40  # characters; longer ones are formulas, addresses, and scripts without spaces

_local = threading.local()


class _Known(dict[str, str]):
    """A cache of the terms of stretches between spaces, joined by spaces. Thread-safe.

    No term crosses a space, so a text's terms are those of its stretches, and most stretches occur
    again, in the same text or in another.
    """

    def __init__(self, left_out: frozenset[str]) -> None:
        super().__init__()
        self._left_out = left_out

    def __missing__(self, stretch: str) -> str:
        found = [piece for piece in pieces(stretch) if piece not in self._left_out]
        joined = " ".join(stems(found))
        if len(stretch) <= _LONGEST_KNOWN:
            if len(self) >= _KNOWN:
                self.clear()
            self[stretch] = joined
        return joined


_TERMS, _TELLING = _Known(frozenset()), _Known(STOP)


def words(text: str) -> list[str]:
    """Return a text's terms, in order, repeated as often as they occur."""
    return joined(text).split()


def joined(text: str) -> str:
    """Return a text's terms joined by spaces, with two spaces around a stretch without terms."""
    return " ".join([_TERMS[stretch] for stretch in text.split()])


def telling(text: str) -> list[str]:
    """Return the terms of the words that show a text's subject: those not in `STOP`."""
    return " ".join([_TELLING[stretch] for stretch in text.split()]).split()


def pieces(text: str) -> list[str]:
    """Return a text's words before stemming, without case, width and accents."""
    plain = normal(_ACRONYMS.sub(r"\1", text))
    pattern = _PLAIN_PIECES if plain.isascii() else _PIECES
    found: list[str] = []
    for piece in pattern.findall(plain):
        if piece.isalnum() and (piece.isascii() or not _is_unspaced(piece)):
            found.append(piece)
        else:
            found += _several(piece)
    return [piece[:LONGEST] for piece in found]


def normal(text: str) -> str:
    """Return a text without case, accents and differences of width, as terms need it."""
    if text.isascii():
        plain = text.lower()
        return _UNSEEN.sub("", plain) if "'" in plain else plain
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    plain = unicodedata.normalize("NFC", _ACCENTS.sub("", plain))
    return _UNSEEN.sub("", plain.translate(_LETTERS))


def stems(found: list[str]) -> list[str]:
    """Return the stem of each word that `pieces` returned."""
    if not found:
        return []
    stemmed: list[str] = _stemmer().analyze(" ".join(found))
    return stemmed


def spans(text: str) -> list[tuple[int, int, frozenset[str]]]:
    """Return the start, end and terms of each word in a text."""
    found = [(match.start(), match.end()) for match in _SPANS.finditer(text)]
    return [(start, end, frozenset(words(text[start:end]))) for start, end in found]


def identifiers(code: str) -> list[str]:
    """Return the terms of code: the parts of identifiers, and compound identifiers as a whole.

    "MultiHeadAttention" and "multi_head_attention" both give multi, head, attent and
    multiheadattention.
    """
    found: list[str] = []
    for name in _IDENTIFIER.findall(unicodedata.normalize("NFKC", code)):
        parts = [normal(part) for part in _CAMEL.split(name) if part]
        found += [part[:LONGEST] for part in parts]
        if len(parts) > 1:
            found.append("".join(parts)[:LONGEST])
    return words(" ".join(found))


def _several(piece: str) -> list[str]:
    """Return the words in a piece that is not plainly one word."""
    if _is_unspaced(piece):
        return [*piece, *(a + b for a, b in pairwise(piece))]
    parts = _HYPHENS.split(piece)
    joined = len(parts) in (2, 3) and not any(c.isdigit() for c in piece)
    return [*parts, "".join(parts)] if joined else parts


def _is_unspaced(piece: str) -> bool:
    return re.match(f"[{_NO_SPACES}]", piece) is not None


def _stemmer() -> Any:
    """Return this thread's stemmer; it splits at spaces alone."""
    if not hasattr(_local, "stemmer"):
        import tantivy  # noqa: PLC0415 (heavy)

        builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
        _local.stemmer = builder.filter(tantivy.Filter.stemmer("english")).build()
    return _local.stemmer
