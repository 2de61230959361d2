"""What latent semantic analysis learns from a library, and when it learns anew."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

import numpy as np

from hpcscientist.errors import ModelError
from hpcscientist.literature.index.catalogue import IndexPaths, VectorPart
from hpcscientist.literature.index.words.fields import vector_texts
from hpcscientist.literature.library.files.parts import Positions
from hpcscientist.literature.library.store import Store
from hpcscientist.models.embedding import latent
from hpcscientist.models.embedding.latent import LatentEmbedder

# What is learnt from a small library is learnt again at every change, from a large one when it
# has doubled or halved: all vectors are made anew then.
SMALL = 2000


def learn(
    store: Store, paths: IndexPaths, last: VectorPart | None, tell: Callable[[int, int], None]
) -> tuple[str, int, LatentEmbedder]:
    """Return what was learnt from a library: its folder, from how many papers, and itself.

    It is learnt now where there is none, it is damaged, or the library has outgrown it; `tell`
    hears of how many papers of how many are read. Raises OSError.
    """
    sample = _sample(store.positions)
    name = f"latent-{_digest(store, sample)}"
    known = [(name, len(store.positions))]  # learnt before: others may have it open
    if last is not None and last.latent and not _outgrown(store, last):
        known.insert(0, (last.latent, last.fitted_on))
    for folder, fitted_on in known:
        try:
            return folder, fitted_on, LatentEmbedder(paths.path(folder))
        except ModelError:  # not there, or damaged
            pass

    read = []
    for done, (_, paper_id, text) in enumerate(vector_texts(store, sample), start=1):
        read.append((paper_id, text))
        tell(done, len(sample))
    # In an order of their own: what is learnt depends on it, and positions on how they came in.
    made = latent.fit([text for _, text in sorted(read)], paths.path(name))
    return name, len(store.positions), made


def _outgrown(store: Store, last: VectorPart) -> bool:
    count = len(store.positions)
    if count <= SMALL:
        return last.content != store.fingerprint
    return count >= 2 * last.fitted_on or 2 * count <= last.fitted_on


def _sample(positions: Positions) -> Positions:
    """Return as many positions as are learnt from, drawn from a seed."""
    if len(positions) <= latent.SAMPLE:
        return positions
    chosen = np.random.default_rng(0).choice(len(positions), latent.SAMPLE, replace=False)
    drawn: Positions = positions[np.sort(chosen)]
    return drawn


def _digest(store: Store, sample: Positions) -> str:
    said = f"{latent.VERSION} {store.fingerprint if len(sample) <= SMALL else ''} "
    return blake2b(said.encode() + sample.astype("<i8").tobytes(), digest_size=8).hexdigest()
