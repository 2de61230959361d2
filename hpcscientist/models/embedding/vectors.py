"""Exact search for the nearest of many vectors, at the speed of memory.

The rows, in memory or mapped from a file, are read once, a block at a time. Each block is
multiplied with all queries in float32. Rows that may be among the nearest, within rounding errors,
are compared again in float64, row by row. So the result equals that of a search in float64
throughout. It depends neither on the block size nor on how BLAS rounds, and the products of all
rows with all queries are never held together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from hpcscientist.ports import Embedder

Rows = npt.NDArray[np.float32]
Positions = npt.NDArray[np.int64]
Cosines = npt.NDArray[np.float64]
Products = npt.NDArray[np.float32]

# Bytes of a block's products with all queries, which should fit into the cache. Not smaller than
# needed: BLAS blocks rows for the cache itself, and waits for all its threads at each end.
_BLOCK_BYTES = 8 * 2**20
_CHUNK_BYTES = 256 * 2**20  # of an index's rows; unused parts take no memory
_FOLD = 64  # rows of a group; a group is searched only if its largest product is near
_EXACT = 1024  # rows at a time in float64
_GROUP = 256  # queries at a time, which bounds the products of a block
_UNIT = 2.0**-24  # the rounding of one float32 operation
_LENGTH = 1e-5  # how far from 1 the product of two rows' lengths may be


class Top:
    """The `k` rows nearest to each of some queries, among all rows that were scanned so far.

    Rows and queries are finite float32 vectors of length 1 to within rounding, or all zeros, whose
    cosine with anything is 0. On a tie the row of the lower position is the nearer one.
    """

    def __init__(self, queries: Rows, k: int = 1, block: int | None = None) -> None:
        """Prepare for queries (q, width). Raises ValueError where `k` or `block` is below 1.

        `block` is the number of rows compared at a time; by default, so many that their products
        with the queries take some megabytes.
        """
        if k < 1 or (block is not None and block < 1):
            raise ValueError("k and block are at least 1")
        self._queries = np.ascontiguousarray(queries, dtype=np.float32)
        # BLAS is fastest on (rows, width) @ (width, queries), both of them row-major.
        self._columns = np.ascontiguousarray(self._queries.T)
        count, width = self._queries.shape
        together = max(1, min(count, _GROUP))
        self._block = block or _BLOCK_BYTES // (4 * together)
        self._room = np.empty(self._block * together, dtype=np.float32)
        # The error bound of a sum of float32 products, in any order (Higham, Accuracy and Stability
        # of Numerical Algorithms, 3.1).
        self._close = (width + 2) * _UNIT * 1.01 + _LENGTH
        self._cosines: Cosines = np.full((count, k), -np.inf)
        self._positions: Positions = np.full((count, k), -1, dtype=np.int64)
        self._scanned = 0

    def scan(self, rows: Rows) -> None:
        """Scan rows (n, width); their positions follow those of the rows scanned before."""
        if not len(self._queries):
            self._scanned += len(rows)
            return
        for start in range(0, len(rows), self._block):
            block = rows[start : start + self._block]
            for first in range(0, len(self._queries), _GROUP):
                self._compare(block, slice(first, first + _GROUP))
            self._scanned += len(block)

    def found(self) -> tuple[Positions, Cosines]:
        """Return positions and cosines (q, k), the nearest first; fewer columns for fewer rows."""
        columns = min(self._cosines.shape[1], self._scanned)
        return self._positions[:, :columns].copy(), self._cosines[:, :columns].copy()

    def _compare(self, block: Rows, group: slice) -> None:
        columns = self._columns[:, group]
        products = self._room[: len(block) * columns.shape[1]].reshape(len(block), -1)
        np.matmul(block, columns, out=products)
        largest = _fold(products)
        last = self._cosines[group, -1]
        # A later row with the same cosine ranks behind, and no cosine exceeds 1.
        may_enter = (largest.max(axis=0) >= last - self._close) & (last < 1.0)
        for offset in np.flatnonzero(may_enter):
            query, kept = int(group.start + offset), largest[:, offset]
            near = _at_least(products[:, offset], kept, self._least(query, kept))
            self._enter(query, near, block)

    def _least(self, query: int, largest: Products) -> float:
        """Return the least product with which a row may be among a query's best.

        `largest` are the largest products of groups of rows; `k` of them exclude all rows below.
        """
        k = self._cosines.shape[1]
        least: float = float(self._cosines[query, -1]) - self._close
        if len(largest) >= k:
            kth = float(np.partition(largest, len(largest) - k)[len(largest) - k])
            least = max(least, kth - 2 * self._close)
        return least

    def _enter(self, query: int, near: Positions, block: Rows) -> None:
        """Compare rows of a block with one query in float64, and keep the best."""
        cosines, positions = self._cosines[query], self._positions[query]
        every = np.concatenate([cosines, self._exact(query, block, near)])
        places = np.concatenate([positions, near + self._scanned])
        best = np.argsort(-every, kind="stable")[: len(cosines)]  # ties keep their order
        self._cosines[query], self._positions[query] = every[best], places[best]

    def _exact(self, query: int, block: Rows, near: Positions) -> Cosines:
        parts = np.split(near, range(_EXACT, len(near), _EXACT))
        return np.concatenate([cosines_with(block[some], self._queries[query]) for some in parts])


def _fold(products: Products) -> Products:
    """Return the largest product of each group of rows, by query; `products` is (rows, queries).

    Group `g` of `size` holds the rows g, g + size, g + 2 size, …, so that all columns are compared
    in long runs of memory. Each leftover row is a group of its own.
    """
    size, queries = len(products) // _FOLD, products.shape[1]
    folded = products[: size * _FOLD].reshape(_FOLD, size * queries).max(axis=0)
    return np.concatenate([folded.reshape(size, queries), products[size * _FOLD :]])


def _at_least(products: Products, largest: Products, least: float) -> Positions:
    """Return the rows, in order, whose product is at least `least`, from groups of `_fold`."""
    size = len(products) // _FOLD
    groups = np.flatnonzero(largest >= least)
    whole, alone = groups[groups < size], groups[groups >= size]
    members = (whole[:, None] + size * np.arange(_FOLD)).ravel()
    rows: Positions = np.sort(np.concatenate([members, alone + size * (_FOLD - 1)]))
    near: Positions = rows[products[rows] >= least]
    return near


class VectorIndex:
    """An in-memory index of an embedder's dense vectors.

    The vectors lie in chunks of one size that never move. Adding a vector always costs the same,
    nothing is copied, and at most one chunk is not full.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._chunks: list[Rows] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def prepare(self, text: str) -> Rows:
        """Return a text's vector. Raises ModelError."""
        return self.prepare_each([text])[0]

    def prepare_each(self, texts: Sequence[str]) -> list[Rows]:
        """Return the vectors of several texts, embedded together. Raises ModelError."""
        rows: Any = self._embedder.embed(texts)
        return list(rows)

    def add(self, vector: Rows) -> None:
        """Add a vector; its position is the number of those before it."""
        chunk = max(1, _CHUNK_BYTES // (4 * max(1, len(vector))))
        place = self._size % chunk
        if not place:  # memory takes no room until it is written to
            self._chunks.append(np.empty((chunk, len(vector)), dtype=np.float32))
        self._chunks[-1][place] = vector
        self._size += 1

    def nearest(self, vector: Rows) -> tuple[int, float] | None:
        """Return the position of the nearest text and the cosine; the first on a tie."""
        return self.nearest_each([vector])[0]

    def nearest_each(self, vectors: Sequence[Rows]) -> list[tuple[int, float] | None]:
        """Return the result of `nearest` for each vector, from one pass over the texts."""
        if not self._size or not vectors:
            return [None] * len(vectors)
        search, left = Top(np.stack(vectors)), self._size
        for chunk in self._chunks:
            search.scan(chunk[:left])
            left -= len(chunk)
        positions, cosines = search.found()
        return list(zip(positions[:, 0].tolist(), cosines[:, 0].tolist(), strict=True))


def cosines_with(rows: Rows, vector: Rows) -> Cosines:
    """Return the cosine of each row (n, width) with a vector, in float64.

    It depends only on the two vectors, is 1 for equal ones, and 0 where one is all zeros.
    """
    # Row by row: a BLAS product would round differently for another number of rows.
    x: Any = np.ascontiguousarray(rows, dtype=np.float64)
    y: Any = np.ascontiguousarray(vector, dtype=np.float64)
    lengths = np.sqrt((x * x).sum(axis=1) * (y * y).sum())
    dots = (x * y).sum(axis=1)
    cosines: Cosines = np.divide(dots, lengths, out=np.zeros(len(x)), where=lengths > 0)
    return np.clip(cosines, -1.0, 1.0, out=cosines)
