"""The vectors of papers: float32 rows in files, mapped into memory, with their positions.

Vectors are stored in blocks. A block is written atomically, never changed, and named after a hash
of its positions. So the next build after a kill finds the finished blocks and continues after them.
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

from hpcscientist.errors import LibraryError, ModelError
from hpcscientist.files.atomic import write_atomic
from hpcscientist.literature.index import catalogue
from hpcscientist.literature.index.catalogue import (
    IndexPaths,
    VectorBlock,
    VectorPart,
    checksum,
    fix,
)
from hpcscientist.literature.index.engine import vector_texts
from hpcscientist.literature.library.parts import Positions, is_replaced
from hpcscientist.literature.library.store import Store
from hpcscientist.models.embedding import latent
from hpcscientist.models.embedding.latent import LatentEmbedder
from hpcscientist.models.embedding.sentences import SentenceEmbedder
from hpcscientist.models.embedding.vectors import Top
from hpcscientist.ports import Embedder

ROWS = 8192  # rows of a full block: a language model without a GPU needs some minutes for them
_AT_ONCE = 1024  # texts that are read and embedded together

Rows = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Near:
    """A paper that a search by vectors found, with its cosine."""

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
        """Return the `k` papers nearest to a vector, by exact search; none for a zero vector."""
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
        """Return the rows of the given positions that exist here; `positions` is ascending."""
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
    """Write the vectors of exactly the `wanted` positions to disk, and return their part.

    `part` has the existing vectors; `embed` returns the vectors of positions; `progress` is called
    with the number done so far. Raises what `embed` raises, OSError and LibraryError.
    """
    old, known = Vectors(paths, part), {block.file: block for block in part.blocks}
    paths.path(part.folder).mkdir(exist_ok=True)
    blocks, done = [], 0
    for positions in divided(paths, part, wanted):
        block = known.get(_name(positions)) or VectorBlock(
            file=_name(positions), rows=len(positions)
        )
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
    """Return for each position in `asked` whether it is in `positions`, which is ascending."""
    if not len(positions):
        return np.zeros(len(asked), dtype=np.bool_)
    places = np.searchsorted(positions, asked).clip(max=len(positions) - 1)
    found: npt.NDArray[np.bool_] = positions[places] == asked
    return found


def divided(paths: IndexPaths, part: VectorPart, wanted: Positions) -> list[Positions]:
    """Return the positions of each future block: blocks mostly in use stay, new ones follow."""
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
    # NumPy's own check for unique positions would import masked arrays.
    new = np.setdiff1d(wanted, there, assume_unique=True)
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


def _is_there(paths: IndexPaths, part: VectorPart, block: VectorBlock) -> bool:
    try:
        _open(paths, part, block)
    except LibraryError:
        return False
    return True


def _open(paths: IndexPaths, part: VectorPart, block: VectorBlock) -> tuple[Positions, Rows]:
    rows_file, positions_file = _files(paths, part, block)
    try:
        rows: Any = np.load(rows_file, mmap_mode="r", allow_pickle=False)
        positions: Any = np.load(positions_file, allow_pickle=False)
        is_as_written = block.checksum in (None, checksum(rows_file))
    except (OSError, ValueError, EOFError) as error:
        why = getattr(error, "strerror", None) or "damaged"
        raise LibraryError(f"{rows_file}: cannot be read ({why}); {fix(paths)}") from error
    if (
        rows.shape != (block.rows, part.width)
        or rows.dtype != np.float32
        or positions.shape != (block.rows,)
        or positions.dtype != np.int64
        or _name(positions) != block.file
        or not is_as_written
    ):
        raise LibraryError(f"{rows_file}: damaged (not what the catalogue says); {fix(paths)}")
    return positions, rows


def _files(paths: IndexPaths, part: VectorPart, block: VectorBlock) -> tuple[Path, Path]:
    folder = paths.path(part.folder)
    return folder / f"{block.file}.rows.npy", folder / f"{block.file}.positions.npy"


def _name(positions: Positions) -> str:
    digest = blake2b(positions.astype("<i8").tobytes(), digest_size=12).hexdigest()
    return f"block-{digest}"


def _npy(array: npt.NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


# Opening the embedder that made a library's vectors, to embed a query.


def open_embedder(paths: IndexPaths, part: VectorPart, given: Embedder | None) -> Embedder:
    """Return the embedder that made the vectors, `given` if it is that one. Raises LibraryError."""
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


# Latent semantic analysis: fitting it on a library, and deciding when to fit it again.

# A model of a small library (in papers) is fitted again at every change, that of a large one when
# the library has doubled or halved. All vectors are then computed again.
SMALL = 2000


def learn(
    store: Store, paths: IndexPaths, last: VectorPart | None, tell: Callable[[int, int], None]
) -> tuple[str, int, LatentEmbedder]:
    """Return the model fitted on a library: its folder, the library's papers then, the embedder.

    It is fitted now if there is none, it is damaged, or the library has outgrown it. `tell` is
    called with the number of papers read and the total. Raises OSError.
    """
    sample = _sample(store.positions)
    name = f"latent-{_digest(store, sample)}"
    known = [(name, len(store.positions))]  # if fitted earlier; other processes may have it open
    if last is not None and last.latent and not _outgrown(store, last):
        known.insert(0, (last.latent, last.fitted_on))
    for folder, fitted_on in known:
        try:
            return folder, fitted_on, LatentEmbedder(paths.path(folder))
        except ModelError:  # missing or damaged
            pass

    read = []
    for done, (_, paper_id, text) in enumerate(vector_texts(store, sample), start=1):
        read.append((paper_id, text))
        tell(done, len(sample))
    # Sorted, because the fit depends on the order, and positions on the order of the inputs.
    made = latent.fit([text for _, text in sorted(read)], paths.path(name))
    return name, len(store.positions), made


def _outgrown(store: Store, last: VectorPart) -> bool:
    count = len(store.positions)
    if count <= SMALL:
        return last.content != store.fingerprint
    return count >= 2 * last.fitted_on or 2 * count <= last.fitted_on


def _sample(positions: Positions) -> Positions:
    """Return the positions to fit on: all, or a sample drawn with a fixed seed."""
    if len(positions) <= latent.SAMPLE:
        return positions
    chosen = np.random.default_rng(0).choice(len(positions), latent.SAMPLE, replace=False)
    drawn: Positions = positions[np.sort(chosen)]
    return drawn


def _digest(store: Store, sample: Positions) -> str:
    said = f"{latent.VERSION} {store.fingerprint if len(sample) <= SMALL else ''} "
    return blake2b(said.encode() + sample.astype("<i8").tobytes(), digest_size=8).hexdigest()
