"""The interface between the store and its indexes, and progress reports of long steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hpcscientist.literature.library.processes.pool import ReaderPool


@dataclass(frozen=True, slots=True)
class BuildStep:
    """The progress of a build's step: `done` of `total` units; 0 if unknown.

    `documents` counts the papers and symbols seen so far, for a rate.
    """

    name: str
    done: int
    total: int
    unit: str
    documents: int = 0


Progress = Callable[[BuildStep], None]


class LibraryIndex(Protocol):
    """The search indexes of a store: keyword index and vectors.

    `modules` are those that reader processes need for the index's work.
    """

    modules: Sequence[str]

    def update(self, library: Path, progress: Progress, pool: ReaderPool | None = None) -> None:
        """Bring `library`/index up to date with the committed store.

        The build calls this with the library's lock held, after it wrote library.json. The row at
        a position of the store never changes, so only the difference between the indexed positions
        and `Store.positions` has to be added and removed. After a kill at any moment, the next
        call continues. Raises LibraryError, ModelError, and OSError on a full disk. `pool` has the
        reader processes, if any; the index may give them work and end them.
        """
        ...
