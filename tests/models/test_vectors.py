"""Exact search among vectors, beside a brute-force reference in float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcscientist.models.embedding import vectors
from hpcscientist.models.embedding.vectors import Top, VectorIndex, cosines_with

SOURCE = np.random.default_rng(0)


def unit(count: int, width: int, source: np.random.Generator = SOURCE) -> np.ndarray:
    rows = source.standard_normal((count, width))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def top(
    rows: np.ndarray, queries: np.ndarray, k: int = 1, block: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    search = Top(queries, k, block)
    search.scan(rows)
    return search.found()


def reference(rows: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """All in float64, sorted: the nearest first, the first on a tie."""
    exact = np.array([cosines_with(rows, query) for query in queries])
    exact = exact.reshape(len(queries), len(rows))
    order = np.argsort(-exact, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(exact, order, axis=1)


@st.composite
def searches(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Rows of few kinds, so that there are ties, duplicates, opposites, zeros and near misses."""
    width = draw(st.integers(1, 40))
    source = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds = np.vstack([np.zeros((1, width), np.float32), unit(3, width, source)])
    nudged = kinds[1:] + source.normal(0, 1e-7, (3, width)).astype(np.float32)
    kinds = np.vstack([kinds, -kinds[1:2], nudged])
    chosen = st.lists(st.integers(0, len(kinds) - 1), max_size=25)
    rows, queries = kinds[draw(chosen)], kinds[draw(chosen)]
    rows = np.tile(rows, (draw(st.sampled_from([1, 7, 20])), 1))
    return rows, queries, draw(st.integers(1, 150)), draw(st.integers(1, 500))


@settings(max_examples=80, deadline=None)
@given(searches())
def test_it_finds_what_brute_force_finds(
    search: tuple[np.ndarray, np.ndarray, int, int],
) -> None:
    rows, queries, k, block = search
    positions, cosines = top(rows, queries, k, block)
    expected = reference(rows, queries, k)
    np.testing.assert_array_equal(positions, expected[0])
    np.testing.assert_array_equal(cosines, expected[1])
    assert (positions.dtype, cosines.dtype) == (np.int64, np.float64)


@pytest.mark.parametrize(
    ("k", "block"), [(1, 1), (3, 7), (10, 64), (10, 119), (500, 121), (10, None), (500, None)]
)
def test_the_size_of_a_block_does_not_matter(block: int | None, k: int) -> None:
    rows, queries = unit(120, 48), unit(270, 48)
    found, expected = top(rows, queries, k, block), top(rows, queries, k, 120)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])
    assert found[0].shape == (270, min(k, 120))


def test_what_is_within_rounding_is_told_apart() -> None:
    """More than a thousand rows whose float32 products with the query are all but equal."""
    base = unit(1, 384)
    rows = (base + SOURCE.normal(0, 3e-8, (1500, 384))).astype(np.float32)
    query = unit(1, 384)
    positions, cosines = top(rows, query, 5, 256)
    expected = reference(rows, query, 5)
    np.testing.assert_array_equal(positions, expected[0])
    np.testing.assert_array_equal(cosines, expected[1])


def test_rows_in_chunks_or_in_a_file_are_searched_alike(tmp_path: Path) -> None:
    rows, queries = unit(5000, 64), unit(9, 64)
    expected = top(rows, queries, 4)
    rows.tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", np.float32, "r", shape=rows.shape)
    search = Top(queries, 4)
    for start in range(0, 5000, 1234):
        search.scan(rows[start : start + 1234])
    for found in (
        top(mapped, queries, 4),
        search.found(),
        top(np.asfortranarray(rows), queries, 4),
    ):
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize(("rows", "queries"), [(0, 3), (3, 0), (0, 0)])
def test_nothing_to_find(rows: int, queries: int) -> None:
    positions, cosines = top(unit(rows, 8), unit(queries, 8), 5)
    assert positions.shape == cosines.shape == (queries, min(rows, 5))


@pytest.mark.parametrize(("k", "block"), [(0, None), (1, 0), (-1, 5)])
def test_counts_below_one_are_refused(k: int, block: int | None) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        top(unit(2, 8), unit(2, 8), k, block)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 400))
def test_a_vector_is_like_itself_and_a_cosine_the_same_both_ways(seed: int, width: int) -> None:
    rows = unit(20, width, np.random.default_rng(seed))
    for position, row in enumerate(rows):
        cosines = cosines_with(rows, row)
        assert cosines[position] == 1.0
        assert np.abs(cosines).max() <= 1.0
        assert cosines[0] == cosines_with(rows[position : position + 1], rows[0])[0]
        alone = [cosines_with(rows[n : n + 1], row)[0] for n in range(len(rows))]
        np.testing.assert_array_equal(cosines, alone)


def test_an_index_finds_what_a_search_of_the_same_rows_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vectors, "_CHUNK_BYTES", 64 * 4 * 100)  # 100 rows
    rows, queries = unit(450, 64), unit(7, 64)
    index = VectorIndex(None)  # type: ignore[arg-type]  (nothing is embedded here)
    assert index.nearest_each(list(queries)) == [None] * 7
    for size in (1, 100, 101, 199, 200, 201, 450):
        for row in rows[len(index) : size]:
            index.add(row)
        positions, cosines = top(rows[:size], queries)
        expected = list(zip(positions[:, 0].tolist(), cosines[:, 0].tolist(), strict=True))
        assert index.nearest_each(list(queries)) == expected
        assert [index.nearest(query) for query in queries] == expected
        assert len(index) == size
    assert index.nearest_each([]) == []


def test_adding_moves_nothing_that_is_there_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "_CHUNK_BYTES", 64 * 4 * 20)
    index = VectorIndex(None)  # type: ignore[arg-type]
    places: list[int] = []
    for row in unit(90, 64):
        index.add(row)
        now = [chunk.ctypes.data for chunk in index._chunks]
        assert now[: len(places)] == places
        places = now
    assert len(places) == 5
