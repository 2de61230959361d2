"""The bank: rejects ideas that look like earlier ones of the campaign.

Dolphin (arXiv 2501.03916, 3.2) compares summaries by cosine similarity and drops those
above 0.8. Here the vectors are counts of words and of pairs of neighbouring words, hashed
into a fixed space: without any model, and without weights that depend on what else is in
the bank, so that the same two summaries always have the same cosine. Likeness in meaning
without likeness in words is not seen. Ideas of the control arm, whose wording is always
the same, are compared by their knobs instead.

In the bank is every idea that was let in so far, whatever became of it. So declined and
unchanged ideas reject their look-alikes, one that crashed is not proposed again in the same
words, and an improvement is built on by another idea, not by itself. Nothing ever leaves
the bank, so what is rejected does not depend on which idea ended first.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from itertools import pairwise
from math import isqrt, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hpcscientist.records.base import Record
from hpcscientist.records.idea import KnobValue

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import HashingVectorizer

_FEATURES = 2**20
# Scripts written without spaces: each character counts as a word, pairs of them as pairs.
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORDS = re.compile(rf"[0-9]+(?:\.[0-9]+)?|[{_UNSPACED}]|[^\W{_UNSPACED}]+")


class Nearest(Record):
    """The earlier idea most like a summary, and how like it is (0 to 1)."""

    idea_id: str
    cosine: float


class Bank:
    """Summaries and knob settings of the ideas accepted so far."""

    def __init__(self, threshold: float = 0.8) -> None:
        self.threshold = threshold
        self._ideas: list[str] = []
        self._squares: list[int] = []
        self._knobs: dict[str, str] = {}
        self._entries = 0  # how much of the three arrays below is in use
        self._rows = np.empty(1024, dtype=np.int64)
        self._columns = np.empty(1024, dtype=np.int64)
        self._counts = np.empty(1024, dtype=np.float64)
        self._query = np.zeros(_FEATURES, dtype=np.float64)
        self._vectorizer: HashingVectorizer | None = None

    def __len__(self) -> int:
        return len(self._ideas) + len(self._knobs)

    def nearest(self, summary: str) -> Nearest | None:
        """Return the earlier idea whose summary is most like this one; the first on a tie.

        None while no summary is in the bank. The comparison with every earlier summary is
        exact: dot products and squared lengths of counts are whole numbers.
        """
        if not self._ideas:
            return None
        columns, counts = self._vector(summary)
        square = int(counts @ counts)
        self._query[columns] = counts
        used = slice(0, self._entries)
        products = self._counts[used] * self._query[self._columns[used]]
        dots = np.bincount(self._rows[used], weights=products, minlength=len(self._ideas))
        self._query[columns] = 0
        cosines = [
            _cosine(int(dot), square * other)
            for dot, other in zip(dots, self._squares, strict=True)
        ]
        best = max(range(len(cosines)), key=cosines.__getitem__)
        return Nearest(idea_id=self._ideas[best], cosine=cosines[best])

    def look_alike(self, summary: str) -> Nearest | None:
        """Return the nearest earlier idea if its cosine is above the threshold (not at it)."""
        nearest = self.nearest(summary)
        return nearest if nearest and nearest.cosine > self.threshold else None

    def same_knobs(self, knobs: Mapping[str, KnobValue]) -> str | None:
        """Return the earlier idea with exactly these knobs and values, if there is one."""
        return self._knobs.get(_knob_key(knobs))

    def add(self, idea_id: str, summary: str, knobs: Mapping[str, KnobValue] | None = None) -> None:
        """Add an accepted idea: by its knobs if it has any, else by its summary."""
        if knobs is not None:
            self._knobs.setdefault(_knob_key(knobs), idea_id)
            return
        columns, counts = self._vector(summary)
        end = self._entries + len(columns)
        self._reserve(end)
        new = slice(self._entries, end)
        self._rows[new] = len(self._ideas)
        self._columns[new] = columns
        self._counts[new] = counts
        self._entries = end
        self._ideas.append(idea_id)
        self._squares.append(int(counts @ counts))

    def _reserve(self, size: int) -> None:
        """Make room for `size` entries, doubling, so that adding is amortised."""
        capacity = len(self._rows)
        if size <= capacity:
            return
        while capacity < size:
            capacity *= 2
        self._rows = np.resize(self._rows, capacity)
        self._columns = np.resize(self._columns, capacity)
        self._counts = np.resize(self._counts, capacity)

    def _vector(self, text: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Return the columns and the counts of a text's words and pairs of words."""
        if self._vectorizer is None:
            from sklearn.feature_extraction.text import (  # noqa: PLC0415 (heavy)
                HashingVectorizer,
            )

            # Counts: they are normalised in _cosine, where whole numbers stay exact.
            self._vectorizer = HashingVectorizer(
                analyzer=_terms, n_features=_FEATURES, norm=None, alternate_sign=False
            )
        row: Any = self._vectorizer.transform([text])
        row.sum_duplicates()
        return row.indices.astype(np.int64), row.data.astype(np.float64)


def _terms(text: str) -> list[str]:
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


def _knob_key(knobs: Mapping[str, KnobValue]) -> str:
    """Return a text that is equal for equal knobs only: 1, 1.0, true and "1" differ."""
    return json.dumps(dict(knobs), sort_keys=True)
