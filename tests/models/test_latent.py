"""Latent semantic analysis: the embedder's contract, synonyms, tiny collections, damage."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hpcscientist.errors import ModelError
from hpcscientist.models.embedding.latent import LatentEmbedder, fit

# Cars and autos are never in one text, but in the same company; so are films and movies.
TEXTS = [
    f"{word} {rest}"
    for word, rest in [
        *((w, r) for w in ("car", "auto") for r in ("engine wheel", "wheel road", "engine road")),
        *((w, r) for w in ("film", "movie") for r in ("actor scene", "scene plot", "actor plot")),
    ]
    for _ in range(5)
]


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> LatentEmbedder:
    return fit(TEXTS, tmp_path_factory.mktemp("latent") / "fitted")


def test_words_in_the_same_company_are_alike(embedder: LatentEmbedder) -> None:
    car, auto, film, movie = embedder.embed(["car", "an auto", "film", "the movies"])
    assert car @ auto > 0.9
    assert film @ movie > 0.9
    assert abs(car @ film) < 0.1


def test_rows_are_of_length_one_or_zero(embedder: LatentEmbedder) -> None:
    rows = embedder.embed([*TEXTS, "", "unheard-of words", "of the"])
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows[:-3], axis=1) == pytest.approx(1, abs=1e-6)
    assert not rows[-3:].any()
    assert embedder.embed([]).shape == (0, embedder.width)


def test_a_text_has_the_same_vector_whatever_is_beside_it_in_any_thread(
    embedder: LatentEmbedder,
) -> None:
    together = embedder.embed(TEXTS)
    with ThreadPoolExecutor(4) as pool:
        alone = np.vstack(list(pool.map(lambda text: embedder.embed([text]), TEXTS)))
    assert np.array_equal(together, alone)


def test_opened_again_it_is_the_same(embedder: LatentEmbedder, tmp_path: Path) -> None:
    first = fit(TEXTS, tmp_path / "one")
    again = LatentEmbedder(tmp_path / "one")
    assert again.fingerprint == first.fingerprint
    assert np.array_equal(again.embed(TEXTS), first.embed(TEXTS))
    assert fit(TEXTS[:10], tmp_path / "two").fingerprint != first.fingerprint


def test_its_index_finds_equal_texts(embedder: LatentEmbedder) -> None:
    index = embedder.index()
    index.add(index.prepare("car engine"))
    index.add(index.prepare("film scene"))
    assert index.nearest(index.prepare("scene of a film")) == (1, 1.0)


@pytest.mark.parametrize(
    "texts",
    [
        [],
        [""],
        ["one"],
        ["one two", "two three"],
        ["same", "same"],
        ["", "word", ""],
        ["a of"] * 60,
    ],
)
def test_tiny_collections(texts: list[str], tmp_path: Path) -> None:
    embedder = fit(texts, tmp_path / "tiny")
    rows = embedder.embed([*texts, "two", "unknown"])
    assert np.isfinite(rows).all()
    assert rows.shape == (len(texts) + 2, embedder.width)
    assert embedder.width >= 1
    assert not rows[-1].any()


@pytest.mark.parametrize("name", ["words.txt", "weights.npy", "directions.npy", "latent.json"])
@pytest.mark.parametrize("damage", [b"", b"{}", None])
def test_damage_is_told(name: str, damage: bytes | None, tmp_path: Path) -> None:
    fit(TEXTS, tmp_path / "one")
    file = tmp_path / "one" / name
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage)
    with pytest.raises(ModelError, match=rf"/one: {re.escape(name)}\b.*; build "):
        LatentEmbedder(tmp_path / "one")


@pytest.mark.parametrize("dense", [0, 2**23])
def test_directions_are_the_leading_singular_vectors(
    dense: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many texts, which are a sparse matrix, as of a few."""
    monkeypatch.setattr("hpcscientist.models.embedding.latent._DENSE", dense)
    draw = np.random.default_rng(1)
    subjects = [[f"w{subject}x{n}" for n in range(12)] for subject in range(30)]
    texts = [
        " ".join([*draw.choice(subjects[n % 30], 6), *draw.choice(subjects[n % 7], 2)])
        for n in range(300)
    ]
    fitted = fit(texts, tmp_path / "fitted")
    words = (tmp_path / "fitted" / "words.txt").read_text().split("\n")
    weights = np.load(tmp_path / "fitted" / "weights.npy")
    rows = np.array([[text.split().count(word) for word in words] for text in texts], dtype=float)
    rows = np.where(rows > 0, 1 + np.log(np.maximum(rows, 1)), 0) * weights
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    sizes, exact = np.linalg.svd(rows, full_matrices=False)[1:]
    found = np.load(tmp_path / "fitted" / "directions.npy")
    assert found.shape == (len(words), fitted.width)
    assert np.allclose(found.T @ found, np.eye(fitted.width), atol=1e-4)
    best = np.sqrt((sizes[: fitted.width] ** 2).sum())
    assert np.linalg.norm(rows @ found) > 0.995 * best
    assert np.abs(exact[:10] @ found).max(axis=1) == pytest.approx(1, abs=0.02)
