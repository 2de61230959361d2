"""The one call between the store and its indexes, and how far a long step has come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hpcscientist.literature.library.processes.pool import Pool


@dataclass(frozen=True, slots=True)
class Step:
    """How far a step of a build has come: `done` of `total` units; 0 where nobody knows.

    `documents` counts the papers and symbols that it has seen, for a rate.
    """

    name: str
    done: int
    total: int
    unit: str
    documents: int = 0


Progress = Callable[[Step], None]


class Index(Protocol):
    """What finds papers in a store: keyword index, vectors.

    `modules` are those of the work that it gives to processes.
    """

    modules: Sequence[str]

    def update(self, library: Path, progress: Progress, pool: Pool | None = None) -> None:
        """Bring what is in `library`/index up to date with the committed store.

        Called with the library's lock held, after library.json was written. What stands at a
        position of the store never changes, so only the difference between the positions that
        are indexed and `Store.positions` has to be added and removed. May be killed at any
        moment: the next call goes on. Raises LibraryError, ModelError, and OSError on a full
        disk. `pool` has the processes that read, if any; they may be given work, and ended.
        """
        ...
