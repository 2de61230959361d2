"""Latent semantic analysis (Deerwester et al., JASIS 41, 1990): vectors without a language model.

The vectors are fitted on the collection itself. Words that occur with the same words get similar
directions, so texts on one subject are similar even without a common word. The limit: it knows only
what the collection shows, and no word outside it. Weights are 1 + log of the count, times the
inverse document frequency (Salton and Buckley 1988); the directions are the leading singular
vectors of a sample of the texts (randomised, Halko et al. 2011).
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hpcscientist.errors import ModelError
from hpcscientist.files.atomic import write_atomic
from hpcscientist.files.hashing import hash_file
from hpcscientist.models.embedding.keywords import telling
from hpcscientist.models.embedding.vectors import VectorIndex

SAMPLE = 20_000  # texts that the directions are computed from
_MOST_WORDS = 30_000
_MOST_DIRECTIONS = 256
_BATCH = 4096  # rows that are normalised at a time
_DENSE = 2**23  # up to so many numbers (texts times words) no sparse matrix: SciPy imports slowly
_MORE, _PASSES = 10, 5  # extra directions and power iterations of the randomised search (Halko)
_FILES = ("words.txt", "weights.npy", "directions.npy")
_CARD = "latent.json"
VERSION = 1

Vector = npt.NDArray[np.float32]


class LatentEmbedder:
    """An embedder fitted on a collection; opened from the folder that `fit` wrote.

    Raises ModelError where the folder is not whole.
    """

    name = "latent semantic analysis"
    device = None

    def __init__(self, folder: Path) -> None:
        card = _read_card(folder)
        for name in _FILES:
            if hash_file(folder / name) != card["hashes"].get(name):
                raise _damaged(folder, f"{name} is not as it was written")
        self._columns = {
            word: column
            for column, word in enumerate((folder / "words.txt").read_text("utf-8").split("\n"))
            if word
        }
        self._weights: Vector = np.load(folder / "weights.npy")
        # Memory-mapped, but not as np.memmap, which is slow when a few rows are taken.
        self._directions: Vector = np.asarray(np.load(folder / "directions.npy", mmap_mode="r"))
        self._fingerprint = f"latent {_digest(card)}"

    @property
    def fingerprint(self) -> str:
        """The hash of the fitted files."""
        return self._fingerprint

    @property
    def width(self) -> int:
        """The number of dimensions of a vector."""
        return int(self._directions.shape[1])

    def embed(self, texts: Sequence[str]) -> Vector:
        """Return a float32 row of length 1 for each text; 0 for a text without a known word."""
        rows = np.zeros((len(texts), self.width), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            for at, text in enumerate(texts[start : start + _BATCH], start):
                columns, values = _weigh(_count(text), self._columns, self._weights)
                if len(columns):
                    rows[at] = values @ self._directions[columns]
            rows[start : start + _BATCH] = _normal(rows[start : start + _BATCH])
        return rows

    def index(self) -> VectorIndex:
        """Return an empty index."""
        return VectorIndex(self)


def fit(texts: Iterable[str], folder: Path, seed: int = 0) -> LatentEmbedder:
    """Fit an embedder on texts, which should be at most `SAMPLE`, and write it to a folder.

    There are twice as many directions as the root of the number of texts, at most 256: a large
    collection has more subjects, and a small one would only be memorised. `folder` is created; its
    last file to be written marks it as whole. The same texts in the same order give the same result
    up to rounding. Raises OSError.
    """
    counts = [_count(text) for text in texts]
    vocabulary, weights = _vocabulary(counts)
    columns = {word: column for column, word in enumerate(vocabulary)}
    directions = _directions(_weighed(counts, columns, weights), seed)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "words.txt", "\n".join(vocabulary).encode())
    write_atomic(folder / "weights.npy", _npy(weights))
    write_atomic(folder / "directions.npy", _npy(directions))
    card = {
        "version": VERSION,
        "texts": len(counts),
        "seed": seed,
        "hashes": {name: hash_file(folder / name) for name in _FILES},
    }
    write_atomic(folder / _CARD, json.dumps(card, indent=2).encode())
    return LatentEmbedder(folder)


def _count(text: str) -> Counter[str]:
    return Counter(telling(text))


def _vocabulary(counts: Sequence[Counter[str]]) -> tuple[list[str], Vector]:
    """Return the most frequent words, sorted, and their inverse document frequencies.

    Words of a single text are dropped, unless there are fewer than 50 texts.
    """
    texts = Counter(word for found in counts for word in found)
    least = 2 if len(counts) >= 50 else 1
    frequent = [(-n, word) for word, n in texts.items() if n >= least]
    chosen = sorted(word for _, word in sorted(frequent)[:_MOST_WORDS])
    found_in = np.array([texts[word] for word in chosen], dtype=np.float64)
    weights = np.log((1 + len(counts)) / (1 + found_in)) + 1
    return chosen, weights.astype(np.float32)


def _weigh(
    found: Counter[str], columns: dict[str, int], weights: Vector
) -> tuple[npt.NDArray[np.int64], Vector]:
    """Return the columns of a text's words, ascending, and their values: a row of length 1."""
    known = sorted((columns[word], n) for word, n in found.items() if word in columns)
    column = np.array([c for c, _ in known], dtype=np.int64)
    value = weights[column] * (1 + np.log([n for _, n in known], dtype=np.float64))
    return column, (value / max(np.sqrt((value * value).sum()), 1e-30)).astype(np.float32)


def _weighed(counts: Sequence[Counter[str]], columns: dict[str, int], weights: Vector) -> Any:
    """Return a matrix of texts by words: an array for few texts, a sparse one for many."""
    rows = [_weigh(found, columns, weights) for found in counts]
    shape = (len(counts), len(columns))
    if shape[0] * shape[1] <= _DENSE:
        dense = np.zeros(shape, dtype=np.float32)
        for row, (column, value) in zip(dense, rows, strict=True):
            row[column] = value
        return dense
    from scipy.sparse import csr_array  # noqa: PLC0415 (heavy)

    ends = np.cumsum([0, *(len(column) for column, _ in rows)])
    places, values = zip(*rows, strict=True)
    return csr_array((np.concatenate(values), np.concatenate(places), ends), shape=shape)


def _directions(rows: Any, seed: int) -> Vector:
    """Return the leading right singular vectors as columns."""
    texts, known = rows.shape
    # Also far fewer than words; otherwise no two words would share a direction.
    width = min(_MOST_DIRECTIONS, max(16, 2 * int(texts**0.5)), texts, max(2, known // 4))
    width = min(width, known)
    if width < 2:  # one text or one word: there is one direction
        return np.full((known, 1), max(known, 1) ** -0.5, dtype=np.float32)
    drawn = min(width + _MORE, texts, known)
    found = np.random.default_rng(seed).standard_normal((known, drawn), dtype=np.float32)
    for _ in range(_PASSES):  # each pass makes the leading directions stand out more
        found = _orthonormal(rows.T @ _orthonormal(rows @ found))
    span = _orthonormal(_orthonormal(rows @ found))
    return np.ascontiguousarray(_orthonormal(rows.T @ span)[:, :width])


def _orthonormal(columns: Vector) -> Vector:
    """Return left singular vectors of columns, by descending singular value; 0 where it is 0.

    Uses the columns' products, which need little memory; NumPy's own functions hold several copies
    in float64.
    """
    products = np.zeros((columns.shape[1],) * 2)
    for start in range(0, len(columns), _BATCH):
        some = columns[start : start + _BATCH].astype(np.float64)
        products += some.T @ some
    values, vectors = np.linalg.eigh(products)
    said = values > max(values[-1], 0.0) * 1e-12
    scale = np.divide(1, np.sqrt(values.clip(min=0)), where=said, out=np.zeros(len(values)))
    turned: Vector = columns @ np.ascontiguousarray((vectors * scale)[:, ::-1], dtype=np.float32)
    return turned


def _normal(rows: Any) -> Vector:
    """Return rows of length 1; rows that are only rounding errors become 0."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    normal: Vector = np.divide(
        rows, lengths, out=np.zeros(rows.shape, dtype=np.float32), where=lengths > 1e-6
    )
    return normal


def _npy(array: Vector) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _read_card(folder: Path) -> dict[str, Any]:
    try:
        card = json.loads((folder / _CARD).read_bytes())
        if card["version"] != VERSION or not isinstance(card["hashes"], dict):
            raise _damaged(folder, f"{_CARD} is of another version")
        if lacking := [name for name in _FILES if not (folder / name).is_file()]:
            raise _damaged(folder, f"{', '.join(lacking)} is missing")
    except OSError as error:
        raise _damaged(folder, f"{_CARD}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(folder, f"{_CARD} is damaged") from error
    else:
        return dict(card)


def _digest(card: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(card["hashes"], sort_keys=True).encode()).hexdigest()


def _damaged(folder: Path, what: str) -> ModelError:
    return ModelError(f"{folder}: {what}; build the library again to have it fitted anew")
