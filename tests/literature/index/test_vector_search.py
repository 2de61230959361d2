"""Search by vectors: exact, whatever the blocks; and how the two rankings become one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcscientist.literature.index import meaning
from hpcscientist.literature.index.catalogue import IndexPaths, VectorPart
from hpcscientist.literature.index.meaning import Vectors, divided, update
from hpcscientist.literature.index.search import fuse
from hpcscientist.literature.material import CONSTANT

WIDTH = 8
PART = VectorPart(folder="vectors-x", content="", embedder="x", name="x", width=WIDTH)


def row(position: int) -> np.ndarray:
    drawn = np.random.default_rng(position // 2).normal(size=WIDTH)  # pairs are equal
    return (drawn / np.linalg.norm(drawn)).astype(np.float32)


class Embedding:
    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, positions: object) -> np.ndarray:
        self.asked += positions  # type: ignore[operator]
        return np.array([row(p) for p in positions])  # type: ignore[attr-defined]


POSITIONS = st.sets(st.integers(0, 60), max_size=50).map(sorted)


@given(st.lists(POSITIONS, min_size=1, max_size=4), st.integers(2, 20), st.integers(1, 70))
@settings(max_examples=30)
def test_after_any_updates_the_search_is_that_of_all_rows(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[int]], block: int, k: int
) -> None:
    paths, part = IndexPaths(tmp_path_factory.mktemp("vectors")), PART
    held: set[int] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meaning, "ROWS", block)
        for positions in steps:
            embedding = Embedding()
            part = update(paths, part, np.array(positions, np.int64), embedding, lambda n: None)
            assert len(set(embedding.asked)) == len(embedding.asked)
            assert set(embedding.asked) <= set(positions) - held
            held = set(positions)
            assert all(b.rows <= block for b in part.blocks)
            assert len(part.blocks) <= 2 * len(positions) // block + 2
    found = Vectors(paths, part)
    assert sorted(found.positions.tolist()) == steps[-1]
    query = row(1000)
    cosines = {p: float(row(p).astype(float) @ query.astype(float)) for p in steps[-1]}
    hits = found.nearest(query, k)
    assert len(hits) == min(k, len(steps[-1]))
    assert [hit.cosine for hit in hits] == pytest.approx(
        sorted(cosines.values(), reverse=True)[:k], abs=1e-6
    )
    for hit in hits:
        assert hit.cosine == pytest.approx(cosines[hit.position], abs=1e-6)
    assert len({hit.position for hit in hits}) == len(hits)
    assert found.nearest(np.zeros(WIDTH, np.float32), k) == []


def test_full_blocks_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meaning, "ROWS", 10)
    paths = IndexPaths(tmp_path)
    part = update(paths, PART, np.arange(25), Embedding(), lambda n: None)
    again = update(paths, part, np.arange(31), Embedding(), lambda n: None)
    assert again.blocks[:2] == part.blocks[:2]
    assert [block.rows for block in again.blocks] == [10, 10, 10, 1]
    assert [len(p) for p in divided(paths, again, np.arange(12, 31))] == [8, 10, 1]


def test_reciprocal_ranks_are_summed() -> None:
    ranked = fuse([(7, 4.0), (3, 3.0), (9, 1.0)], [3, 5])
    assert [entry.position for entry in ranked] == [3, 7, 5, 9]
    assert ranked[0].score == 1 / (CONSTANT + 2) + 1 / (CONSTANT + 1)
    assert (ranked[0].keyword_rank, ranked[0].embedding_rank) == (2, 1)
    assert ranked[1].score == 1 / (CONSTANT + 1)
    assert ranked[2].score == 1 / (CONSTANT + 2)
    assert ranked[3].score == 0, "a weak hit by words stands behind all others"
    assert fuse([], []) == []


@given(
    st.lists(st.integers(0, 30), unique=True, max_size=20),
    st.lists(st.integers(0, 30), unique=True, max_size=20),
)
def test_every_paper_of_either_ranking_is_in_the_one(words: list[int], near: list[int]) -> None:
    ranked = fuse([(p, 10.0 - n / 100) for n, p in enumerate(words)], near)
    assert {entry.position for entry in ranked} == {*words, *near}
    assert [entry.score for entry in ranked] == sorted((e.score for e in ranked), reverse=True)
    both = [entry.score for entry in ranked if entry.position in words and entry.position in near]
    assert all(score > 1 / (CONSTANT + 21) for score in both)
    if words == near:
        assert [entry.position for entry in ranked] == words
