"""Opens what a library's vectors were made by, to make the vector of a query."""

from __future__ import annotations

from pathlib import Path

from hpcscientist.errors import LibraryError, ModelError
from hpcscientist.literature.index import catalogue
from hpcscientist.literature.index.catalogue import IndexPaths, VectorPart
from hpcscientist.literature.library.files.superseded import is_replaced
from hpcscientist.models.embedding.latent import LatentEmbedder
from hpcscientist.models.embedding.sentences import SentenceEmbedder
from hpcscientist.ports.embedder import Embedder


def open_embedder(paths: IndexPaths, part: VectorPart, given: Embedder | None) -> Embedder:
    """Return what the vectors were made by. Raises LibraryError."""
    if given is not None and given.fingerprint == part.embedder:
        return given
    try:
        made: Embedder = (
            LatentEmbedder(paths.path(part.latent))
            if part.latent
            else SentenceEmbedder(Path(part.model))
        )
    except ModelError as error:
        if part.latent and not paths.path(part.latent).exists() and part != _current(paths):
            raise is_replaced(paths.library) from error
        raise LibraryError(
            f"its vectors were made by {part.name}: {error}; or search by keyword"
        ) from error
    if made.fingerprint != part.embedder:
        raise LibraryError(
            f"{part.model or paths.path(part.latent)}: not the model that made the vectors of "
            f"{paths.root.parent}; build the library again, or search by keyword"
        )
    return made


def _current(paths: IndexPaths) -> VectorPart | None:
    current = catalogue.read(paths)
    return current.vectors if current else None
