"""`benchmarks bank`: the check of ideas against a large bank, beside a bare matrix product.

What is timed is `Bank.check` of a batch of ideas whose vectors are there already: embedding is
the model's work, and the same whatever comes next. It is compared with `rows @ queries.T`, with
the same numbers of rows, columns and queries in float32, in a process of its own with as many
BLAS threads, which is what anybody would write first and which by itself decides nothing.

The bare product gets the better of two choices: its result (rows x queries) goes into memory
that was made and touched before its clock starts. Left to make it itself, as the expression
does, it spends much of its time on the pages of its result; that is told as a figure too,
without a target. The bank keeps no such result, and its memory is told beside its vectors'.

One idea after the other is compared with `rows @ vector`, which reads the same memory once for
each. The rows are drawn from a seed; half of the ideas repeat one of them, and every run sees
to it that exactly those are found.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from hpcscientist.bench.figure import Figure, RunCosts, TimedCall, measure
from hpcscientist.ideation.bank import Bank, Banked
from hpcscientist.models.embedding.vectors import VectorIndex

PRODUCT_TARGET: Final = 1.3  # times the bare product
ALONE_TARGET: Final = 1.3  # times the bare products with one vector each
MEMORY_TARGET: Final = 1.15  # times the vectors themselves
WIDTH_LEAST: Final = 64

Rows = npt.NDArray[np.float32]
Timed = Callable[[], object]

_SEED: Final = 20_250_103
_DRAWN: Final = 2048  # rows at a time


def figures(
    rows: int = 1_000_000, width: int = 384, ideas: int = 50, runs: int = 5
) -> list[Figure]:
    """Measure the check of `ideas` ideas against a bank of `rows` vectors of `width` numbers.

    Takes rows x width x 4 bytes of memory, and for the bare product rows x ideas x 4 more.
    Raises ValueError for counts below 1 and vectors below 64 numbers, of which unlike ones are
    alike by chance, and CalledProcessError where memory does not suffice.
    """
    if min(rows, ideas, runs) < 1 or width < WIDTH_LEAST:
        raise ValueError(f"rows, ideas and runs are at least 1, and width {WIDTH_LEAST}")
    size = (rows, width, ideas)
    sides = (bare_product, natural_product, check_batch, bare_vectors, check_alone)
    took = measure({side.__name__: TimedCall(side, size) for side in sides}, runs)
    bare, natural, batch, vectors, alone = (took[side.__name__] for side in sides)
    shape = f"{rows} x {width}"
    return [
        _seconds(f"{ideas} ideas against {shape}", batch, bare, "a bare product", PRODUCT_TARGET),
        _seconds(f"{ideas} ideas, natural", batch, natural, "one that makes room for its result"),
        _seconds(f"{ideas} ideas, one by one", alone, vectors, "bare products", ALONE_TARGET),
        _memory(f"memory of {shape}", batch, rows * width * 4 / 2**20),
    ]


def bare_product(rows: int, width: int, ideas: int) -> Timed:
    """Make ready the bare product, which is compared with."""
    matrix, queries = _matrix(rows, width), _queries(rows, width, ideas)
    result = np.zeros((rows, ideas), dtype=np.float32)
    result.fill(1.0)  # zeros alone would not be touched
    return lambda: np.matmul(matrix, queries.T, out=result)


def natural_product(rows: int, width: int, ideas: int) -> Timed:
    """Make ready the bare product that makes room for its result itself."""
    matrix, queries = _matrix(rows, width), _queries(rows, width, ideas)
    return lambda: matrix @ queries.T


def bare_vectors(rows: int, width: int, ideas: int) -> Timed:
    """Make ready the bare products with one vector after the other."""
    matrix, queries = _matrix(rows, width), _queries(rows, width, ideas)

    def multiply() -> None:
        for query in queries:
            np.dot(matrix, query)

    return multiply


def check_batch(rows: int, width: int, ideas: int) -> Timed:
    """Make ready the bank's check of all ideas at once."""
    bank, proposed, expected = _filled(rows, width, ideas)

    def check() -> None:
        verdicts = bank.check(proposed)
        _see([near.idea_id if near else None for near in verdicts], expected)

    return check


def check_alone(rows: int, width: int, ideas: int) -> Timed:
    """Make ready the bank's check of one idea after the other."""
    bank, proposed, expected = _filled(rows, width, ideas)

    def check() -> None:
        verdicts = [bank.look_alike(summary) for _, summary in proposed]
        _see([near.idea_id if near else None for near in verdicts], expected)

    return check


def _filled(
    rows: int, width: int, ideas: int
) -> tuple[Bank, list[tuple[str, str]], list[str | None]]:
    """A bank, ideas that are prepared, and the ideas that these must be found to repeat."""
    drawn = _Drawn(rows, width, ideas)
    bank = Bank(0.8, drawn)
    for start in range(0, rows, _DRAWN):
        some = range(start, min(start + _DRAWN, rows))
        bank.add_earlier([(Banked(idea_id=_id(n)), str(n), None) for n in some])
    proposed = [(_id(rows + n), str(rows + n)) for n in range(ideas)]
    for _, summary in proposed:
        bank.prepare(summary)
    repeated = [_repeated(rows, ideas, n) for n in range(ideas)]
    return bank, proposed, [None if n is None else _id(n) for n in repeated]


class _Drawn:
    """An embedder of texts that are numbers: those of rows, then those of the ideas."""

    name, device, fingerprint = "drawn", None, "drawn"

    def __init__(self, rows: int, width: int, ideas: int) -> None:
        self._rows, self._width = rows, width
        self._queries = _queries(rows, width, ideas)
        self._start = -_DRAWN
        self._some = np.empty((0, width), dtype=np.float32)

    def embed(self, texts: Sequence[str]) -> Rows:
        return np.stack([self._row(int(text)) for text in texts])

    def index(self) -> VectorIndex:
        return VectorIndex(self)

    def _row(self, number: int) -> Any:
        if number >= self._rows:
            return self._queries[number - self._rows]
        if not self._start <= number < self._start + _DRAWN:
            self._start = number // _DRAWN * _DRAWN
            self._some = _draw(self._start, self._width)
        return self._some[number - self._start]


def _matrix(rows: int, width: int) -> Rows:
    matrix = np.empty((rows, width), dtype=np.float32)
    for start in range(0, rows, _DRAWN):
        matrix[start : start + _DRAWN] = _draw(start, width)[: rows - start]
    return matrix


def _queries(rows: int, width: int, ideas: int) -> Rows:
    queries = _unit(np.random.default_rng([_SEED, 1]), ideas, width)
    for n in range(ideas):
        repeated = _repeated(rows, ideas, n)
        if repeated is not None:
            queries[n] = _draw(repeated // _DRAWN * _DRAWN, width)[repeated % _DRAWN]
    return queries


def _draw(start: int, width: int) -> Rows:
    """Return the rows from `start` on, `_DRAWN` of them.

    They are the first ones with other signs, column by column: as unlike as if drawn anew, and
    drawn much sooner.
    """
    signs = np.random.default_rng([_SEED, 2, start]).integers(0, 2, width) * 2 - 1
    rows: Rows = _first(width) * signs.astype(np.float32)
    return rows


@functools.cache
def _first(width: int) -> Rows:
    return _unit(np.random.default_rng([_SEED, 0]), _DRAWN, width)


def _unit(source: np.random.Generator, rows: int, width: int) -> Rows:
    drawn = source.random((rows, width), dtype=np.float32) - np.float32(0.5)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return drawn


def _repeated(rows: int, ideas: int, n: int) -> int | None:
    """The row that an idea repeats: every other one does, evenly spread over all rows."""
    return None if n % 2 else n * rows // ideas


def _id(number: int) -> str:
    return f"idea-{number:07d}"


def _see(found: list[str | None], expected: list[str | None]) -> None:
    if found != expected:
        raise RuntimeError("the bank does not find what its ideas repeat")


def _seconds(
    name: str, ours: RunCosts, bare: RunCosts, words: str, target: float | None = None
) -> Figure:
    than = f"{words}: {bare.median:.3f} s"
    ratio = ours.median / bare.median
    return Figure(name, ours.median, "s", than, ratio, target, ours.spread, len(ours.seconds))


def _memory(name: str, ours: RunCosts, vectors_mb: float) -> Figure:
    peak, than = max(ours.peak_mb), f"the vectors alone: {vectors_mb:.0f} MiB"
    spread = peak - min(ours.peak_mb)
    ratio = peak / vectors_mb
    return Figure(name, peak, "MiB", than, ratio, MEMORY_TARGET, spread, len(ours.peak_mb))
