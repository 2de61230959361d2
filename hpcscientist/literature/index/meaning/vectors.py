"""The vectors of papers as files: float32 rows, mapped into memory, and whose they are.

They lie in blocks, each written whole and never changed, and named after the positions in it.
So a build that was killed finds the blocks that it had written, and goes on behind them.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hpcscientist.errors import LibraryError
from hpcscientist.files.atomic import write_atomic
from hpcscientist.literature.index.catalogue import Block, IndexPaths, VectorPart, checksum, mend
from hpcscientist.literature.library.files.parts import Positions
from hpcscientist.models.embedding.vectors import Top

ROWS = 8192  # of a full block: some minutes' work of a language model without a GPU
_AT_ONCE = 1024  # texts that are read and embedded together

Rows = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Near:
    """A paper that a search by vectors found."""

    position: int
    cosine: float


class Vectors:
    """The vectors that a catalogue names. Any thread may search. Raises LibraryError."""

    def __init__(self, paths: IndexPaths, part: VectorPart) -> None:
        self._blocks = [_open(paths, part, block) for block in part.blocks]
        self.positions: Positions = np.concatenate(
            [np.empty(0, dtype=np.int64), *(positions for positions, _ in self._blocks)]
        )

    def __len__(self) -> int:
        return len(self.positions)

    def nearest(self, vector: Rows, k: int) -> list[Near]:
        """Return the `k` papers nearest to a vector, by an exact search; none for zeros."""
        if not len(self.positions) or not vector.any():
            return []
        search = Top(vector[None, :], k)
        for _, rows in self._blocks:
            search.scan(rows)
        places, cosines = search.found()
        return [
            Near(int(self.positions[place]), float(cosine))
            for place, cosine in zip(places[0], cosines[0], strict=True)
        ]

    def take(self, positions: Positions) -> dict[int, Rows]:
        """Return the rows of those positions, which are ascending, that are here."""
        found: dict[int, Rows] = {}
        for here, rows in self._blocks:
            for place in np.flatnonzero(among(positions, here)):
                found[int(here[place])] = rows[place]
        return found


def update(
    paths: IndexPaths,
    part: VectorPart,
    wanted: Positions,
    embed: Callable[[Sequence[int]], Rows],
    progress: Callable[[int], None],
) -> VectorPart:
    """Return a part that holds the vectors of exactly the `wanted` positions, written to disk.

    `part` is what is there; `embed` returns the vectors of positions; `progress` is told how
    many there are so far. Raises what `embed` raises, OSError and LibraryError.
    """
    old, known = Vectors(paths, part), {block.file: block for block in part.blocks}
    paths.path(part.folder).mkdir(exist_ok=True)
    blocks, done = [], 0
    for positions in divided(paths, part, wanted):
        block = known.get(_name(positions)) or Block(file=_name(positions), rows=len(positions))
        rows_file, positions_file = _files(paths, part, block)
        if not _is_there(paths, part, block):
            rows = _rows_of(positions, old, part.width, embed, partial(_tell, progress, done))
            write_atomic(rows_file, _npy(rows))
            write_atomic(positions_file, _npy(positions))
        blocks.append(block.model_copy(update={"checksum": checksum(rows_file)}))
        done += len(positions)
        progress(done)
    return part.model_copy(update={"blocks": tuple(blocks)})


def among(positions: Positions, asked: Positions) -> npt.NDArray[np.bool_]:
    """Tell of each position whether it is among others, which are ascending."""
    if not len(positions):
        return np.zeros(len(asked), dtype=np.bool_)
    places = np.searchsorted(positions, asked).clip(max=len(positions) - 1)
    found: npt.NDArray[np.bool_] = positions[places] == asked
    return found


def divided(paths: IndexPaths, part: VectorPart, wanted: Positions) -> list[Positions]:
    """Return the positions of each block to be: full ones stay, what is new goes to the end."""
    kept, rest = [], np.empty(0, dtype=np.int64)
    seen: list[Positions] = []
    for block in part.blocks:
        before = _open(paths, part, block)[0]
        here = before[among(wanted, before)]
        seen.append(here)
        if len(here) > ROWS // 2:
            kept.append(here)
        else:
            rest = np.concatenate([rest, here])
    there = np.concatenate([np.empty(0, dtype=np.int64), *seen])
    new = np.setdiff1d(wanted, there, assume_unique=True)  # see `writing`: masked arrays
    rest = np.sort(np.concatenate([rest, new]))
    if kept and len(rest) and len(kept[-1]) < ROWS:
        rest = np.sort(np.concatenate([kept.pop(), rest]))
    return [*kept, *(rest[start : start + ROWS] for start in range(0, len(rest), ROWS))]


def _rows_of(
    positions: Positions,
    old: Vectors,
    width: int,
    embed: Callable[[Sequence[int]], Rows],
    progress: Callable[[int], None],
) -> Rows:
    rows = np.empty((len(positions), width), dtype=np.float32)
    known = old.take(positions)
    missing = [place for place, at in enumerate(positions.tolist()) if at not in known]
    for place, at in enumerate(positions.tolist()):
        if at in known:
            rows[place] = known[at]
    for start in range(0, len(missing), _AT_ONCE):
        places = missing[start : start + _AT_ONCE]
        rows[places] = embed([int(positions[place]) for place in places])
        progress(len(known) + start + len(places))
    return rows


def _tell(progress: Callable[[int], None], before: int, more: int) -> None:
    progress(before + more)


def _is_there(paths: IndexPaths, part: VectorPart, block: Block) -> bool:
    try:
        _open(paths, part, block)
    except LibraryError:
        return False
    return True


def _open(paths: IndexPaths, part: VectorPart, block: Block) -> tuple[Positions, Rows]:
    rows_file, positions_file = _files(paths, part, block)
    try:
        rows: Any = np.load(rows_file, mmap_mode="r", allow_pickle=False)
        positions: Any = np.load(positions_file, allow_pickle=False)
        is_as_written = block.checksum in (None, checksum(rows_file))
    except (OSError, ValueError, EOFError) as error:
        why = getattr(error, "strerror", None) or "damaged"
        raise LibraryError(f"{rows_file}: cannot be read ({why}); {mend(paths)}") from error
    if (
        rows.shape != (block.rows, part.width)
        or rows.dtype != np.float32
        or positions.shape != (block.rows,)
        or positions.dtype != np.int64
        or _name(positions) != block.file
        or not is_as_written
    ):
        raise LibraryError(f"{rows_file}: damaged (not what the catalogue says); {mend(paths)}")
    return positions, rows


def _files(paths: IndexPaths, part: VectorPart, block: Block) -> tuple[Path, Path]:
    folder = paths.path(part.folder)
    return folder / f"{block.file}.rows.npy", folder / f"{block.file}.positions.npy"


def _name(positions: Positions) -> str:
    digest = blake2b(positions.astype("<i8").tobytes(), digest_size=12).hexdigest()
    return f"block-{digest}"


def _npy(array: npt.NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()
