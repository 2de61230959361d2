"""Brings a library's index up to date: keyword indexes first, then vectors."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hpcscientist.config.settings import EmbeddingSettings
from hpcscientist.errors import LibraryError, ModelError
from hpcscientist.files.handed import expanded
from hpcscientist.files.text import one_line
from hpcscientist.literature.index import catalogue as catalogues
from hpcscientist.literature.index import documents, meaning
from hpcscientist.literature.index.catalogue import Catalogue, IndexPaths, VectorPart
from hpcscientist.literature.index.documents import SYMBOLS, Indexing
from hpcscientist.literature.index.engine import vector_texts
from hpcscientist.literature.library.indexing import BuildStep, Progress
from hpcscientist.literature.library.paths import LibraryPaths, make_folder, refusal
from hpcscientist.literature.library.processes.pool import ReaderPool
from hpcscientist.literature.library.store import Store, open_store
from hpcscientist.models.embedding.sentences import SentenceEmbedder, hash_model

Rows = npt.NDArray[np.float32]


class LibraryIndex:
    """The index of a library; the adapter of `hpcscientist.literature.library.indexing`.

    The vectors come from the sentence-transformers model whose folder `settings` names, or else
    from the model that made the library's existing vectors. Without either, they come from latent
    semantic analysis of the library itself. Raises LibraryError if the folder does not exist.
    """

    modules: Sequence[str] = (Indexing.__module__,)

    def __init__(self, settings: EmbeddingSettings | None = None) -> None:
        self._settings = settings or EmbeddingSettings()
        model = self._settings.model
        if model and not expanded(model).is_dir():
            raise LibraryError(
                f"{model}: no such folder; give --embedding-model the folder of a "
                "sentence-transformers model, or leave it out"
            )

    def update(self, library: Path, progress: Progress, pool: ReaderPool | None = None) -> None:
        """Bring the index of a library up to date with its store.

        After a kill at any moment, the next call continues: vectors after the last block that was
        written, the keyword index from its last state. Raises LibraryError, ModelError, DiskFull.
        """
        store = open_store(library)
        paths = IndexPaths(LibraryPaths(library).index)
        make_folder(paths.root)
        try:
            self._update(store, paths, progress, pool)
        except OSError as error:
            raise refusal(paths.root, error) from error
        except ValueError as error:  # raised by tantivy
            if refused := re.search(r"\(os error (\d+)\)", str(error)):  # such as a full disk
                number = int(refused.group(1))
                raise refusal(paths.root, OSError(number, os.strerror(number))) from error
            raise LibraryError(
                f"{paths.root}: the index could not be written: {one_line(str(error))}"
            ) from error

    def _update(
        self, store: Store, paths: IndexPaths, progress: Progress, pool: ReaderPool | None
    ) -> None:
        last = _usable(paths)
        keyword = last.keyword if last else None
        if (
            keyword is None
            or keyword.content != store.fingerprint
            or not documents.whole(paths, keyword)
        ):
            keyword = documents.update(paths, store, keyword, _Teller(progress), pool)
        if pool is not None:
            pool.close()  # the next steps need the memory
        vectors = last.vectors if last else None
        if last is None or keyword != last.keyword:
            catalogues.publish(paths, Catalogue(keyword=keyword, vectors=vectors), last)
        new = self._vectors(store, paths, vectors, progress)
        if new != vectors:
            catalogues.publish(paths, Catalogue(keyword=keyword, vectors=new), last)
        catalogues.sweep(paths)

    def _vectors(
        self, store: Store, paths: IndexPaths, last: VectorPart | None, progress: Progress
    ) -> VectorPart:
        named = self._settings.model or (last.model if last else "")
        if not named:
            name, fitted_on, learnt = meaning.learn(
                store, paths, last, _counter(progress, "latent semantic analysis")
            )
            part = _part(learnt, last, learnt.width)
            part = part.model_copy(update={"model": "", "latent": name, "fitted_on": fitted_on})
            return _filled(store, paths, part, last, learnt.embed, progress)
        folder = expanded(named).absolute()
        if (
            last is not None
            and last.model == str(folder)
            and _is_current(store, paths, last)
            and last.embedder == hash_model(folder)
        ):
            return last  # avoids opening the model, which takes seconds
        model = self._open(folder, paths)
        part = _part(model, last, len(model.embed(["a text"])[0]))
        part = part.model_copy(update={"model": str(folder), "latent": "", "fitted_on": 0})
        return _filled(store, paths, part, last, model.embed, progress)

    def _open(self, folder: Path, paths: IndexPaths) -> SentenceEmbedder:
        try:
            return SentenceEmbedder(folder, self._settings.batch)
        except ModelError as error:
            if self._settings.model:
                raise
            raise LibraryError(
                f"{paths.root.parent}: its vectors were made by a model that cannot be opened any "
                f"more: {error}; give --embedding-model, or remove {paths.root} to do without"
            ) from error


class _Teller:
    """Reports progress of the three keyword indexes, as one step each, every 1000 rows."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __call__(self, name: str, done: int, total: int) -> None:
        if total and (done % 1000 == 0 or done == total):
            unit = "symbols" if name == SYMBOLS else "papers"
            self._progress(BuildStep(f"keyword index of {name}", done, total, unit))


def _part(embedder: Any, last: VectorPart | None, width: int) -> VectorPart:
    """Return the last vectors if this embedder made them; else an empty part."""
    if last is not None and (last.embedder, last.width) == (embedder.fingerprint, width):
        return last
    digest = blake2b(embedder.fingerprint.encode(), digest_size=8).hexdigest()
    return VectorPart(
        folder=f"vectors-{digest}",
        content="",
        embedder=embedder.fingerprint,
        name=embedder.name,
        width=width,
    )


def _filled(
    store: Store,
    paths: IndexPaths,
    part: VectorPart,
    last: VectorPart | None,
    embed: Callable[[Sequence[str]], Any],
    progress: Progress,
) -> VectorPart:
    """Return a part with the vectors of all papers; existing vectors in `part` are reused."""
    if part == last and _is_current(store, paths, part):
        return part

    def read(positions: Sequence[int]) -> Rows:
        rows: Rows = embed([text for _, _, text in vector_texts(store, np.array(positions))])
        return rows

    if not _is_whole(paths, part):
        part = part.model_copy(update={"blocks": ()})
    tell, count = _counter(progress, "vectors"), len(store.positions)
    part = meaning.update(paths, part, store.positions, read, lambda done: tell(done, count))
    return part.model_copy(update={"content": store.fingerprint})


def _is_current(store: Store, paths: IndexPaths, part: VectorPart) -> bool:
    return part.content == store.fingerprint and _is_whole(paths, part)


def _is_whole(paths: IndexPaths, part: VectorPart) -> bool:
    """Return whether all blocks exist and match the catalogue."""
    try:
        meaning.Vectors(paths, part)
    except LibraryError:
        return False
    return True


def _counter(progress: Progress, name: str) -> Callable[[int, int], None]:
    def tell(done: int, total: int) -> None:
        if name == "vectors" or done % 1000 == 0 or done == total:
            progress(BuildStep(name, done, total, "papers"))

    return tell


def _usable(paths: IndexPaths) -> Catalogue | None:
    """Return the catalogue; None if it is damaged or unknown, so that the index is rebuilt."""
    try:
        return catalogues.read(paths)
    except LibraryError:
        return None
