"""Which rows are the same paper, found from hashes alone: the texts of few are looked at.

Rows that share an id are one paper. So are rows that share a title, unless what else is known
of them speaks against it (`keys.same_paper`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hpcscientist.literature.library.files import schema
from hpcscientist.literature.library.files.parts import Positions, Rows, column, distinct, lists
from hpcscientist.literature.library.keys import same_paper
from hpcscientist.records.known.literature import Paper

N = TypeVar("N", bound=np.generic)
Keys = npt.NDArray[np.uint64]

# A title that more records share than this is none: "Untitled", "Preface", a journal's name.
COMMON = 100


@dataclass(slots=True)
class Found:
    """The rows that count: as sources gave them, and those made from others.

    `made_of` has a hash of the members for each of `made`.
    """

    given: Positions
    fragments: npt.NDArray[np.bool_]
    title_keys: Keys
    id_rows: npt.NDArray[np.int64]  # for each id key, the number of its row among `given`
    id_keys: Keys
    made: Positions
    made_of: Keys


@dataclass(slots=True)
class _Columns:
    given: list[Positions] = field(default_factory=list)
    fragments: list[npt.NDArray[np.bool_]] = field(default_factory=list)
    titles: list[Keys] = field(default_factory=list)
    rows: list[npt.NDArray[np.int64]] = field(default_factory=list)
    keys: list[Keys] = field(default_factory=list)
    made: list[Positions] = field(default_factory=list)
    made_of: list[Keys] = field(default_factory=list)
    count: int = 0


def look(rows: Rows, alive: npt.NDArray[np.int64]) -> Found:
    """Read the keys of all rows of the readings in `alive`, and of those made from others."""
    columns = _Columns()
    for first, batch in rows.batches():
        readings = column(batch, "reading")
        positions = np.arange(first, first + batch.num_rows, dtype=np.int64)
        _enter_made(columns, positions, batch, readings == 0)
        keep = np.isin(readings, alive)
        keys, lengths = lists(batch, "id_keys")
        numbers = np.cumsum(keep) - 1 + columns.count
        columns.rows.append(np.repeat(numbers, lengths)[np.repeat(keep, lengths)])
        columns.keys.append(keys[np.repeat(keep, lengths)])
        columns.titles.append(column(batch, "title_key")[keep])
        columns.given.append(positions[keep])
        columns.fragments.append(column(batch, "fragment")[keep])
        columns.count += int(keep.sum())
    return Found(
        given=_joined(columns.given, np.int64),
        fragments=_joined(columns.fragments, np.bool_),
        title_keys=_joined(columns.titles, np.uint64),
        id_rows=_joined(columns.rows, np.int64),
        id_keys=_joined(columns.keys, np.uint64),
        made=_joined(columns.made, np.int64),
        made_of=_joined(columns.made_of, np.uint64),
    )


def _enter_made(
    columns: _Columns, positions: Positions, batch: Any, made: npt.NDArray[np.bool_]
) -> None:
    if made.any():
        members, lengths = lists(batch, "members")
        columns.made.append(positions[made])
        columns.made_of.append(_sums(members, lengths)[made])


def _joined(arrays: Sequence[npt.NDArray[N]], kind: type[N]) -> npt.NDArray[N]:
    return np.concatenate([np.empty(0, dtype=kind), *arrays])


def groups(found: Found, rows: Rows) -> npt.NDArray[np.int64]:
    """Return for each of `found.given` the number of its paper, from 0 without gaps."""
    count = len(found.given)
    edges = _neighbours(found.id_keys, found.id_rows)
    labels = _components(count, edges)
    titled = np.flatnonzero(found.title_keys)
    by_title = list(_same_titles(found, titled, labels, rows))
    if by_title:
        edges = np.concatenate([edges, np.array(by_title, dtype=np.int64)])
        labels = _components(count, edges)
    return labels


def _neighbours(keys: Keys, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return pairs of rows that chain together all rows of each key."""
    order = np.argsort(keys, kind="stable")
    same = keys[order][1:] == keys[order][:-1]
    return np.stack([rows[order][:-1][same], rows[order][1:][same]], axis=1)


def _components(count: int, edges: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return each row's component, counted from 0 in the order of their first rows.

    Each component hooks itself to a lower neighbour until none has one (Shiloach and Vishkin
    1982). SciPy's function is as fast, but importing it takes longer than most libraries do here.
    """
    lowest = np.arange(count, dtype=np.int64)
    while True:
        ends = lowest[edges]
        ends = ends[ends[:, 0] != ends[:, 1]]
        if not len(ends):
            break
        np.minimum.at(lowest, ends.max(axis=1), ends.min(axis=1))
        while not np.array_equal(lowest, further := lowest[lowest]):
            lowest = further
    return np.unique(lowest, return_inverse=True)[1].astype(np.int64)


def _same_titles(
    found: Found, titled: npt.NDArray[np.int64], labels: npt.NDArray[np.int64], rows: Rows
) -> Iterator[tuple[int, int]]:
    """Yield pairs of rows that are the same paper by their title, though no id says so."""
    keys = found.title_keys[titled]
    order = np.argsort(keys, kind="stable")
    bounds = np.flatnonzero(np.diff(keys[order])) + 1
    starts = np.concatenate([[0], bounds]).astype(np.int64)
    ends = np.concatenate([bounds, [len(order)]]).astype(np.int64)
    for start, end in zip(starts[ends - starts > 1], ends[ends - starts > 1], strict=True):
        members = titled[order[start:end]]
        if len(distinct(labels[members])) > 1 and len(members) <= COMMON:
            yield from _alike(members, found, rows)


def _alike(members: npt.NDArray[np.int64], found: Found, rows: Rows) -> Iterator[tuple[int, int]]:
    """Yield each row with the first paper that it does not contradict.

    Records that tell more come first, so that one that tells nothing joins one paper only.
    """
    read = [(schema.paper_of(rows.row(int(found.given[m]))), int(m)) for m in members]
    read.sort(key=lambda pair: (-_telling(pair[0]), pair[0].origin, pair[0].paper_id))
    papers: list[list[tuple[Paper, int]]] = []
    for paper, number in read:
        home = next((p for p in papers if all(same_paper(paper, other) for other, _ in p)), None)
        if home is None:
            papers.append([(paper, number)])
        else:
            yield home[0][1], number
            home.append((paper, number))


def _telling(paper: Paper) -> int:
    return bool(paper.authors) + bool(paper.year) + bool(paper.doi or paper.arxiv_id)


def member_hashes(found: Found, labels: npt.NDArray[np.int64]) -> tuple[list[Positions], Keys]:
    """Return the positions of each paper that has several rows, ascending, and their hashes.

    The papers come in the order of their first rows.
    """
    whole = np.bincount(labels, weights=~found.fragments) > 0  # of fragments alone: no paper
    several = np.flatnonzero((np.bincount(labels) > 1)[labels] & whole[labels])
    if not len(several):
        return [], np.empty(0, dtype=np.uint64)
    order = several[np.argsort(labels[several], kind="stable")]
    bounds = np.flatnonzero(np.diff(labels[order])) + 1
    members = sorted(np.split(order, bounds), key=lambda m: int(m[0]))
    positions = [found.given[m] for m in members]
    lengths = np.array([len(p) for p in positions], dtype=np.int64)
    return positions, _sums(np.concatenate(positions), lengths)


def _sums(members: Positions, lengths: npt.NDArray[np.int64]) -> Keys:
    """Return a hash of each list of positions: the sum of theirs, whatever their order."""
    mixed = members.astype(np.uint64)
    with np.errstate(over="ignore"):  # splitmix64, the finalizer of Steele et al. 2014
        mixed = (mixed + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(mixed, dtype=np.uint64)])
        ends = np.cumsum(lengths)
        found: Keys = sums[ends] - sums[ends - lengths]
    return found
