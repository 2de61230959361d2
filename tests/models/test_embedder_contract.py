"""The contract of ports.embedder, run on every adapter."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sentence_kit import OTHER, ROTATED, model_folder

from hpcscientist.config.settings import EmbeddingSettings
from hpcscientist.models.embedding.sentences import open_embedder
from hpcscientist.ports import Embedder

TEXTS = [
    ROTATED,
    "Rotate the images by small random angles.",
    OTHER,
    "把学习率从零点一降低到零点零一",
    "Average ten networks. " * 40,
]


@pytest.fixture(
    params=["keywords", pytest.param("sentences", marks=pytest.mark.serving)], scope="module"
)
def embedder(request: pytest.FixtureRequest) -> Embedder:
    model = str(model_folder()) if request.param == "sentences" else ""
    return open_embedder(EmbeddingSettings(model=model, batch=2))


def dense(embedder: Embedder, texts: list[str]) -> np.ndarray:
    rows = embedder.embed(texts)
    assert rows.dtype == np.float32
    assert rows.shape[0] == len(texts)
    return rows if isinstance(rows, np.ndarray) else rows.toarray()


def test_rows_are_of_length_one(embedder: Embedder) -> None:
    assert np.linalg.norm(dense(embedder, TEXTS), axis=1) == pytest.approx(1, abs=1e-6)


def test_no_texts_no_rows(embedder: Embedder) -> None:
    assert dense(embedder, []).shape == (0, dense(embedder, TEXTS[:1]).shape[1])


def test_a_text_has_the_same_vector_whatever_is_beside_it(embedder: Embedder) -> None:
    alone = np.vstack([dense(embedder, [text]) for text in TEXTS])
    np.testing.assert_allclose(dense(embedder, TEXTS), alone, rtol=0, atol=1e-5)


def test_another_opened_alike_gives_the_same(embedder: Embedder) -> None:
    model = str(model_folder()) if embedder.device else ""
    again = open_embedder(EmbeddingSettings(model=model, batch=2))
    assert (again.name, again.fingerprint) == (embedder.name, embedder.fingerprint)
    assert np.array_equal(dense(again, TEXTS), dense(embedder, TEXTS))


def test_threads_do_not_disturb_each_other(embedder: Embedder) -> None:
    index = embedder.index()
    expected = [embedder.index().prepare(text) for text in TEXTS]
    for vector in expected:
        index.add(vector)
    with ThreadPoolExecutor(8) as pool:
        prepared = list(pool.map(index.prepare, TEXTS * 8))
    for position, vector in enumerate(prepared):
        found = index.nearest(vector)
        assert found == (position % len(TEXTS), 1.0)


def test_nearest_is_what_the_rows_say(embedder: Embedder) -> None:
    index, rows = embedder.index(), dense(embedder, TEXTS)
    assert index.nearest(index.prepare(TEXTS[0])) is None
    for position, text in enumerate(TEXTS):
        vector = index.prepare(text)
        if position:
            cosines = rows[:position] @ rows[position]
            found = index.nearest(vector)
            assert found is not None
            assert found[1] == pytest.approx(cosines.max(), abs=1e-5)
            assert cosines[found[0]] == pytest.approx(cosines.max(), abs=1e-5)
        index.add(vector)
        assert len(index) == position + 1


def test_the_first_of_equals_is_found_however_many_there_are(embedder: Embedder) -> None:
    index = embedder.index()
    other, same = index.prepare(OTHER), index.prepare(ROTATED)
    index.add(other)
    for _ in range(200):  # more than an index has room for at first
        index.add(same)
    assert index.nearest(same) == (1, 1.0)
    assert index.nearest(other) == (0, 1.0)
    assert len(index) == 201


def test_a_cosine_does_not_depend_on_what_else_is_there(embedder: Embedder) -> None:
    alone, crowded = embedder.index(), embedder.index()
    first, new = alone.prepare(TEXTS[0]), alone.prepare(TEXTS[1])
    alone.add(first)
    for _ in range(70):
        crowded.add(alone.prepare(OTHER))
    crowded.add(first)
    found, among = alone.nearest(new), crowded.nearest(new)
    assert found is not None
    assert among == (70, found[1])
