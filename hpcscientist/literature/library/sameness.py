"""Merges rows that are the same paper into one row; commits part by part, like reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hpcscientist.literature.library import schema
from hpcscientist.literature.library.indexing import BuildStep, Progress
from hpcscientist.literature.library.keys import plain_id, same_paper
from hpcscientist.literature.library.ledger import Commit, LibraryLedger, encode_commit
from hpcscientist.literature.library.parts import (
    Positions,
    Rows,
    column,
    distinct,
    lists,
    write_part,
)
from hpcscientist.literature.library.paths import LibraryPaths, write_file
from hpcscientist.literature.sources.ids import paper_id
from hpcscientist.records.literature import Paper, SourceKind

# Finding rows that are the same paper, mostly by hashes: the texts of only a few are read.
#
# Rows that share an id are one paper. So are rows that share a title, unless their other metadata
# contradict that (`keys.same_paper`).

N = TypeVar("N", bound=np.generic)
Keys = npt.NDArray[np.uint64]

# A title of more records than this is ignored: "Untitled", "Preface", a journal's name.
COMMON = 100


@dataclass(slots=True)
class FoundKeys:
    """The keys of the rows that sources gave, and the rows merged from others.

    `made_of` has a hash of the members of each row in `made`.
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


def look(rows: Rows, alive: npt.NDArray[np.int64]) -> FoundKeys:
    """Return the keys of all rows of the readings in `alive`, and all merged rows."""
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
    return FoundKeys(
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


def groups(found: FoundKeys, rows: Rows) -> npt.NDArray[np.int64]:
    """Return the number of its paper for each of `found.given`, from 0 without gaps."""
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
    """Return pairs of rows that link all rows of each key into a chain."""
    order = np.argsort(keys, kind="stable")
    same = keys[order][1:] == keys[order][:-1]
    return np.stack([rows[order][:-1][same], rows[order][1:][same]], axis=1)


def _components(count: int, edges: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return each row's component; components are numbered from 0 by their first rows.

    Each component hooks itself to a lower neighbour until none has one (Shiloach and Vishkin
    1982). SciPy's function is as fast, but importing it takes longer than this does for most
    libraries.
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
    found: FoundKeys, titled: npt.NDArray[np.int64], labels: npt.NDArray[np.int64], rows: Rows
) -> Iterator[tuple[int, int]]:
    """Yield pairs of rows that are the same paper by title, although they share no id."""
    keys = found.title_keys[titled]
    order = np.argsort(keys, kind="stable")
    bounds = np.flatnonzero(np.diff(keys[order])) + 1
    starts = np.concatenate([[0], bounds]).astype(np.int64)
    ends = np.concatenate([bounds, [len(order)]]).astype(np.int64)
    for start, end in zip(starts[ends - starts > 1], ends[ends - starts > 1], strict=True):
        members = titled[order[start:end]]
        if len(distinct(labels[members])) > 1 and len(members) <= COMMON:
            yield from _alike(members, found, rows)


def _alike(
    members: npt.NDArray[np.int64], found: FoundKeys, rows: Rows
) -> Iterator[tuple[int, int]]:
    """Yield pairs that join each row to the first paper that it does not contradict.

    Records with more metadata come first, so that one without any joins only one paper.
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


def member_hashes(found: FoundKeys, labels: npt.NDArray[np.int64]) -> tuple[list[Positions], Keys]:
    """Return the ascending positions of each paper with several rows, and a hash of each list.

    The papers are in the order of their first rows.
    """
    whole = np.bincount(labels, weights=~found.fragments) > 0  # fragments alone are no paper
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
    """Return a hash of each list of positions: the sum of their hashes, independent of order."""
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


# Merging the records of several sources into one paper.

V = TypeVar("V")

# The order of trust in sources, for catalogue data and for texts.
_ABOUT: tuple[SourceKind, ...] = (
    "semantic_scholar",
    "openalex",
    "arxiv",
    "online",
    "bibtex",
    "latex",
    "pdf",
    "code",
)
_TEXT: tuple[SourceKind, ...] = ("latex", "pdf", *_ABOUT)


def merged(papers: Sequence[Paper], abstracts: Sequence[str] = ()) -> Paper:
    """Return one paper merged from several records of it; their order does not matter.

    `abstracts` came without their paper; the longest is used if no record has an abstract.

    Title, authors, year and similar fields come from the first catalogue that has them. Sections
    and formulas come from the LaTeX source, else from the PDF, in each case the record with the
    longest text. The id is the best of the records' ids, and `origin` names all records, the one
    with the text first.
    """
    about = sorted(papers, key=lambda p: (_ABOUT.index(p.source), p.origin, p.paper_id))
    text = next((p for p in _by_text(about) if p.sections), about[0])
    formulas = next((p for p in _by_text(about) if p.formulas), text)
    doi = _first(about, lambda p: p.doi)
    arxiv_id = _first(about, lambda p: p.arxiv_id)
    title = _first(about, lambda p: p.title)
    authors = _first(about, lambda p: p.authors)
    year = _first(about, lambda p: p.year)
    return Paper(
        paper_id=_best_id(about, doi, arxiv_id),
        title=title,
        abstract=_first(about, lambda p: p.abstract) or max(sorted(abstracts), default="", key=len),
        authors=authors,
        year=year,
        venue=_first(about, lambda p: p.venue),
        doi=doi,
        arxiv_id=arxiv_id,
        url=_first(about, lambda p: p.url),
        citations=max((p.citations for p in papers if p.citations is not None), default=None),
        sections=text.sections,
        formulas=formulas.formulas,
        references=max((p.references for p in about), key=len),
        source=text.source,
        origin=_origins([text, *about]),
    )


def _by_text(papers: Sequence[Paper]) -> list[Paper]:
    """Return papers in the order of trust in their text; within a kind, the longest first."""
    return sorted(papers, key=lambda p: (_TEXT.index(p.source), -_text_length(p)))


def _text_length(paper: Paper) -> int:
    return sum(len(section.text) for section in paper.sections)


def _first(papers: Sequence[Paper], of: Callable[[Paper], V]) -> V:
    """Return the papers' first value that is not empty, else the first paper's."""
    return next((value for p in papers if (value := of(p))), of(papers[0]))


def _best_id(papers: Sequence[Paper], doi: str, arxiv_id: str) -> str:
    """Return an id that later builds find too: by DOI, else by arXiv id, else a catalogue's."""
    given = sorted({plain_id(p.paper_id) for p in papers}, key=_rank)
    known = paper_id("", doi=doi, arxiv_id=arxiv_id, other=given[0])
    return min(known, given[0], key=_rank)


def _rank(text: str) -> tuple[int, str]:
    order = ("doi", "arxiv", "s2", "openalex")
    kind = text.partition(":")[0]
    return (order.index(kind) if kind in order else len(order), text)


def _origins(papers: Sequence[Paper]) -> str:
    """Return the origins of papers, each once."""
    return "; ".join(dict.fromkeys(paper.origin for paper in papers))


PART_ROWS = 8192
PART_BYTES = 16 << 20
_BATCH_ROWS = 256


@dataclass(frozen=True, slots=True)
class ShownPapers:
    """The papers that a library shows: ascending positions, and the position for each id.

    `ids` are ascending hashes; `id_positions` has the position for each.
    """

    shown: Positions
    ids: npt.NDArray[np.uint64]
    id_positions: Positions


def paper_rows(paths: LibraryPaths, ledger: LibraryLedger) -> Rows:
    """Return all committed rows of papers."""
    parts = [(c.first_paper, c.papers) for c in ledger.commits if c.papers is not None]
    return Rows(paths, parts, schema.PAPERS)


def join(
    paths: LibraryPaths, ledger: LibraryLedger, check: Callable[[], None], progress: Progress
) -> ShownPapers:
    """Find rows of the same paper, write merged rows that are missing, and return the papers.

    Raises DiskFull, LibraryError and what `check` raises.
    """
    rows = paper_rows(paths, ledger)
    alive = np.array([entry.reading for entry in ledger.entries.values()], dtype=np.int64)
    found = look(rows, alive)
    labels = groups(found, rows)
    members, hashes = member_hashes(found, labels)
    there = {int(h): int(p) for h, p in zip(found.made_of, found.made, strict=True)}
    missing = [(m, int(h)) for m, h in zip(members, hashes, strict=True) if int(h) not in there]
    first = ledger.papers
    _write(paths, ledger, check, _rows_of([m for m, _ in missing], rows, progress))
    there |= {h: first + number for number, (_, h) in enumerate(missing)}
    position_of = np.where(found.fragments, -1, found.given)  # of each row's paper
    if members:
        numbers = np.searchsorted(found.given, np.concatenate(members))
        position_of[numbers] = np.repeat(
            np.array([there[int(h)] for h in hashes], dtype=np.int64), [len(m) for m in members]
        )
    ids, where = np.unique(found.id_keys, return_index=True)
    leads = position_of[found.id_rows[where]]
    shown = distinct(position_of)
    return ShownPapers(shown[shown >= 0], ids[leads >= 0], leads[leads >= 0])


def _rows_of(
    members: Sequence[Positions], rows: Rows, progress: Progress
) -> Iterator[dict[str, Any]]:
    for number, positions in enumerate(members):
        progress(BuildStep("joining", number, len(members), "papers", number))
        read = [rows.row(int(position)) for position in positions]
        papers = [schema.paper_of(row) for row in read if not row["fragment"]]
        paper = merged(papers, [row["abstract"] for row in read if row["fragment"]])
        yield schema.paper_row(paper, 0, [int(p) for p in positions])
    if members:
        progress(BuildStep("joining", len(members), len(members), "papers", len(members)))


def _write(
    paths: LibraryPaths,
    ledger: LibraryLedger,
    check: Callable[[], None],
    rows: Iterator[dict[str, Any]],
) -> None:
    batches: list[bytes] = []
    count = size = 0
    for batch in _batched(rows):
        data = schema.to_batch(batch, schema.PAPERS).serialize().to_pybytes()
        batches.append(data)
        count, size = count + len(batch), size + len(data)
        if count >= PART_ROWS or size >= PART_BYTES:
            _commit(paths, ledger, check, batches)
            batches, count, size = [], 0, 0
    if batches:
        _commit(paths, ledger, check, batches)


def _batched(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += schema.text_size(row)
        if len(batch) >= _BATCH_ROWS or size >= 1 << 20:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _commit(
    paths: LibraryPaths, ledger: LibraryLedger, check: Callable[[], None], batches: Sequence[bytes]
) -> None:
    check()
    number = ledger.last_commit + 1
    commit = Commit(
        number=number,
        first_paper=ledger.papers,
        first_symbol=ledger.symbols,
        papers=write_part(paths, f"papers/part-{number:06d}.arrow", schema.PAPERS, batches),
        merged=True,
    )
    write_file(paths.commit(number), encode_commit(commit, (), ()))
    ledger.apply(commit, ())
