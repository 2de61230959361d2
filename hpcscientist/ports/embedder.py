"""The port to whatever tells how alike two texts are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    Rows = NDArray[np.float32] | csr_array[np.float32]

V = TypeVar("V")


class Index(Protocol[V]):
    """Texts that others are compared with, as vectors of the embedder's own kind.

    Obligations: `prepare` does the slow part, and may be called from any thread, also while
    another thread is in any method. All else is for one thread. A comparison reads the vectors
    once, needs no memory that grows with their number, and gives a pair of texts the same
    cosine whatever else is in the index. `add` costs the same however many there are.
    """

    def __len__(self) -> int:
        """Return how many texts are in it."""
        ...

    def prepare(self, text: str) -> V:
        """Return a text's vector, for `add` and `nearest`. Raises what `Embedder.embed` does."""
        ...

    def prepare_each(self, texts: Sequence[str]) -> list[V]:
        """Return the vectors of texts that are embedded together, as `prepare` does of one.

        They are those of `prepare` up to rounding.
        """
        ...

    def add(self, vector: V) -> None:
        """Add a text; its position is the number of those before it."""
        ...

    def nearest(self, vector: V) -> tuple[int, float] | None:
        """Return the position of the text most like this one, and their cosine.

        The first on a tie; None while there is none. Equal vectors have cosine 1 exactly, and a
        text with nothing in it 0 with all.
        """
        ...

    def nearest_each(self, vectors: Sequence[V]) -> list[tuple[int, float] | None]:
        """Return what `nearest` does for each of several, from one pass over the texts."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors.

    Obligations: the same text has the same vector in every process that uses an embedder of
    the same `fingerprint`, up to rounding; any thread may call it.
    """

    @property
    def name(self) -> str:
        """What people are told, such as "keyword vectors"."""
        ...

    @property
    def device(self) -> str | None:
        """Where its model is, "cpu" or "cuda"; None for an embedder without a model."""
        ...

    @property
    def fingerprint(self) -> str:
        """A text that is equal only for embedders which give the same vectors."""
        ...

    def embed(self, texts: Sequence[str]) -> Rows:
        """Return a float32 row a text, of length 1, or 0 for a text with nothing in it.

        Sparse where nearly all of a row is zero; either way `rows @ rows.T` holds the
        cosines. Raises ModelError when the vectors cannot be computed.
        """
        ...

    def index(self) -> Index[Any]:
        """Return an empty index of this embedder's vectors."""
        ...
