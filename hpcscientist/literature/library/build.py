"""Builds a library from files and folders, or brings an existing one up to date (`build`)."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hpcscientist.errors import LibraryError
from hpcscientist.files.lock import FolderLocked, Lock
from hpcscientist.literature.library import ledger as ledgers
from hpcscientist.literature.library import schema
from hpcscientist.literature.library.indexing import BuildStep, LibraryIndex, Progress
from hpcscientist.literature.library.ledger import (
    UNKNOWN,
    Commit,
    Cursor,
    LibraryLedger,
    ReadSource,
    encode_commit,
    pieces,
    stamp_of,
    with_piece,
)
from hpcscientist.literature.library.parts import (
    LibraryContents,
    changed,
    forget,
    is_whole,
    read_contents,
    write_part,
)
from hpcscientist.literature.library.paths import LibraryPaths, refusal, write_file
from hpcscientist.literature.library.processes.extraction import Output, RowBatch, SourceEnd, Task
from hpcscientist.literature.library.processes.forks import Forks
from hpcscientist.literature.library.processes.pool import Lost, ReaderPool, SourceLimits, read_here
from hpcscientist.literature.library.publish import publish, sweep, write_skipped
from hpcscientist.literature.library.sameness import join
from hpcscientist.literature.library.store import prepare_folder
from hpcscientist.literature.library.worklist import (
    SourceToRead,
    Worklist,
    make_worklist,
    reader_of,
)
from hpcscientist.literature.sources import base, detect
from hpcscientist.literature.sources.base import PaperSource

# Reading the sources of a worklist, and committing the results part by part.
#
# Where a part ends depends only on what was read since the last one. So a build that continues
# after a kill writes the same parts as an undisturbed one, and the number of processes does not
# matter.

PART_ROWS = 8192
PART_BYTES = 16 << 20
PART_SOURCES = 512

Read = Callable[[Iterable[Task]], Iterator[tuple[Task, Output | Lost]]]


@dataclass(slots=True)
class _InHand:
    """A source that is being read, and how far the reading has come."""

    listed: SourceToRead
    reading: int
    pieces: int
    cursor: Cursor


@dataclass(slots=True)
class _Pending:
    """The results since the last commit."""

    papers: list[bytes] = field(default_factory=list)
    symbols: list[bytes] = field(default_factory=list)
    troubles: list[tuple[int, str, str]] = field(default_factory=list)
    ended: list[ReadSource] = field(default_factory=list)
    readings: set[int] = field(default_factory=set)
    rows: int = 0
    size: int = 0

    @property
    def full(self) -> bool:
        return self.rows >= PART_ROWS or self.size >= PART_BYTES or len(self.ended) >= PART_SOURCES


class SourceReading:
    """Reads sources into a library; every commit updates `ledger`."""

    def __init__(
        self, paths: LibraryPaths, ledger: LibraryLedger, check: Callable[[], None]
    ) -> None:
        """`check` raises an error if another process has taken over the library."""
        self._paths, self._ledger, self._check = paths, ledger, check
        self._begun: deque[_InHand] = deque()
        self._pending = _Pending()

    def run(self, todo: Sequence[SourceToRead], read: Read, progress: Progress) -> int:
        """Read all of `todo`; return the number of papers and symbols read.

        Raises DiskFull, LibraryError and what `check` raises.
        """
        total, done, documents = sum(p.stamp.size for p in todo), 0, 0
        progress(BuildStep("reading", 0, total, "bytes"))
        for task, output in read(self._tasks(todo)):
            hand = self._begun[0]
            if isinstance(output, RowBatch):
                self._add(hand, output)
                documents += output.paper_rows + output.symbol_rows
            else:
                done += _length(task.source, hand)
                self._end_piece(hand, output)
            if self._pending.full:
                self._commit()
            progress(BuildStep("reading", done, total, "bytes", documents))
        if self._pending.rows or self._pending.ended:
            self._commit()
        return documents

    def _tasks(self, todo: Sequence[SourceToRead]) -> Iterator[Task]:
        number, begun = self._ledger.last_reading, self._ledger.cursor
        for listed in todo:
            if begun and (begun.path, begun.stamp) == (listed.key, listed.stamp):
                cursor, begun = begun, None
            else:
                number += 1
                cursor = Cursor(
                    path=listed.key, reading=number, stamp=listed.stamp, piece=0, batch=0
                )
            parts = _pieces(listed.source)
            self._begun.append(_InHand(listed, cursor.reading, len(parts), cursor))
            for at, piece in enumerate(parts[cursor.piece :]):
                yield Task(piece, cursor.reading, 0 if at else cursor.batch)

    def _add(self, hand: _InHand, batch: RowBatch) -> None:
        pending, at = self._pending, hand.cursor
        pending.papers += [batch.papers] if batch.papers else []
        pending.symbols += [batch.symbols] if batch.symbols else []
        pending.troubles += [(hand.reading, *told) for told in batch.troubles]
        pending.readings.add(hand.reading)
        pending.rows += batch.paper_rows + batch.symbol_rows + len(batch.troubles)
        pending.size += batch.size
        hand.cursor = at.model_copy(
            update={
                "batch": at.batch + 1,
                "papers": at.papers + batch.paper_rows,
                "symbols": at.symbols + batch.symbol_rows,
                "troubles": at.troubles + len(batch.troubles),
            }
        )

    def _end_piece(self, hand: _InHand, output: SourceEnd | Lost) -> None:
        if isinstance(output, Lost):
            self._complain(hand, f"not read, or not whole: {output.reason}")
        at = hand.cursor
        content = output.content if isinstance(output, SourceEnd) else ""
        hand.cursor = at.model_copy(
            update={"piece": at.piece + 1, "batch": 0, "content": with_piece(at.content, content)}
        )
        if hand.cursor.piece == hand.pieces:
            self._end_source(hand)

    def _complain(self, hand: _InHand, reason: str) -> None:
        self._pending.troubles.append((hand.reading, hand.listed.source.origin, reason))
        self._pending.rows += 1
        told = hand.cursor.troubles + 1
        hand.cursor = hand.cursor.model_copy(update={"troubles": told})

    def _end_source(self, hand: _InHand) -> None:
        source, content = hand.listed.source, hand.cursor.content
        if not _still(hand.listed):
            content = UNKNOWN
            self._complain(hand, "changed while it was read; the next build reads it again")
        at = hand.cursor
        entry = ReadSource(
            path=at.path,
            given=source.origin.encode("utf-8", "replace").decode(),
            kind=source.kind,
            reading=at.reading,
            stamp=at.stamp,
            content="" if content == UNKNOWN else content,
            papers=at.papers,
            symbols=at.symbols,
            troubles=at.troubles,
            reader=reader_of(source.kind),
        )
        self._pending.ended.append(entry)
        self._begun.popleft()

    def _commit(self) -> None:
        """Write what is pending: first the parts, then the file that makes them count."""
        self._check()
        pending, ledger = self._pending, self._ledger
        number = ledger.last_commit + 1
        hand = self._begun[0] if self._begun else None
        begun = hand is not None and (hand.cursor.piece or hand.cursor.batch)
        commit = Commit(
            number=number,
            first_paper=ledger.papers,
            first_symbol=ledger.symbols,
            papers=write_part(
                self._paths, f"papers/part-{number:06d}.arrow", schema.PAPERS, pending.papers
            )
            if pending.papers
            else None,
            symbols=write_part(
                self._paths, f"symbols/part-{number:06d}.arrow", schema.SYMBOLS, pending.symbols
            )
            if pending.symbols
            else None,
            readings=tuple(sorted(pending.readings)),
            cursor=hand.cursor if hand is not None and begun else None,
        )
        data = encode_commit(commit, pending.ended, pending.troubles)
        write_file(self._paths.commit(number), data)
        ledger.apply(commit, pending.ended)
        self._pending = _Pending()


def _still(listed: SourceToRead) -> bool:
    """Return whether a source still has the stamp it had when the worklist was made."""
    try:
        return stamp_of(listed.source) == listed.stamp
    except OSError:
        return False


def _pieces(source: PaperSource) -> list[PaperSource]:
    """Return the pieces of a source, or a missing source whole: reading it reports the error."""
    try:
        return list(pieces(source))
    except OSError:
        return [source]


def _length(piece: PaperSource, hand: _InHand) -> int:
    """Return the number of bytes in a piece."""
    end = hand.listed.stamp.size if piece.end is None else piece.end
    return end - piece.start


# What is read in this process, and so without limits, because another one takes a second to start:
# formats whose size bounds the time, and whose readers have never crashed or hung. Python's parser
# and MuPDF can end their process, and LaTeX macros are not so easily bounded.
SMALL_BYTES = 1 << 20
_PLAIN = frozenset({"bibtex", "arxiv", "semantic_scholar", "openalex", "online"})


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The result of a build: totals of the library, sources of this build, what was skipped.

    `skipped` counts each reason; `gone` is how many sources were removed, with their results.
    """

    folder: Path
    papers: int
    symbols: int
    formulas: int
    fingerprint: str
    read: int
    unchanged: int
    gone: int
    documents: int
    skipped: dict[str, int] = field(default_factory=dict)

    @property
    def useless(self) -> bool:
        """Whether nothing could be read from the inputs."""
        return not self.documents and not self.unchanged


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """The options of a build.

    `prune` removes sources that are no longer among the inputs; `again` rereads sources that were
    not read, or only partly. `sweep` frees the space of files that earlier builds replaced, which
    are otherwise kept for a time for processes that have them open.
    """

    prune: bool = False
    again: bool = False
    sweep: bool = False
    limits: SourceLimits = field(default_factory=SourceLimits)


def quiet(step: BuildStep) -> None:
    """Ignore a report of progress."""


def build(
    inputs: Sequence[Path],
    out: Path,
    *,
    jobs: int | None = None,
    options: BuildOptions | None = None,
    index: LibraryIndex | None = None,
    progress: Progress = quiet,
    forks: Forks | None = None,
) -> BuildReport:
    """Build a library in `out`, or bring the one there up to date with the inputs.

    Only new or changed sources are read, in `jobs` processes forked from `forks` (None: one per
    core, and none for a little metadata). After a kill at any moment, the same call continues the
    build. Raises LibraryError, DiskFull, and what `index` raises.
    """
    options = options or BuildOptions()
    if not inputs:
        raise LibraryError("nothing to build a library from: name files or folders")
    detect.inputs(inputs)  # raises for a missing path, before any folder is made
    paths = LibraryPaths(out)
    prepare_folder(paths)
    processes = ReaderPool(jobs or len(os.sched_getaffinity(0)), options.limits, forks)
    with _lock(paths) as lock, processes as pool:
        before = read_contents(paths)  # only now, with the lock, can no other process replace it
        ledger = ledgers.load(paths, before.edition if before else 0)
        fixed = _forget_damaged(paths, ledger, before)
        if options.sweep:
            forget(paths)
        sweep(paths, ledger, before)
        worklist = make_worklist(inputs, out, ledger, prune=options.prune, again=options.again)
        reading = SourceReading(paths, ledger, partial(_check, paths, lock))
        pool.expect(base.module_of(listed.source.kind) for listed in worklist.todo)
        pool.expect(index.modules if index else ())
        read = read_here if jobs is None and _is_small(worklist) else pool.read
        documents = reading.run(worklist.todo, read, progress) if worklist.todo else 0
        contents = _finish(paths, ledger, worklist, lock, before, fixed, progress)
        skipped = write_skipped(paths, ledger, worklist.troubles)
        if index is not None:
            index.update(out, progress, pool)
    return BuildReport(
        folder=out,
        papers=contents.papers,
        symbols=contents.symbols,
        formulas=contents.formulas,
        fingerprint=contents.fingerprint,
        read=len(worklist.todo),
        unchanged=worklist.unchanged,
        gone=len(worklist.gone),
        documents=documents,
        skipped=skipped,
    )


@contextmanager
def _lock(paths: LibraryPaths) -> Iterator[Lock]:
    """Hold the library's lock. Raises LibraryError while another process builds it."""
    try:
        lock = Lock(paths.lock)
    except FolderLocked as holder:
        raise LibraryError(
            f"{paths.root}: {holder} builds it already: wait for that, or stop it"
        ) from holder
    except OSError as error:
        raise refusal(paths.root, error) from error
    try:
        yield lock
    finally:
        lock.release()


def _check(paths: LibraryPaths, lock: Lock) -> None:
    if lock.replaced():
        raise LibraryError(
            f"{paths.root}: another build took it over while this one stood still: wait for that "
            "one, and give the same command again"
        )


def _forget_damaged(
    paths: LibraryPaths, ledger: LibraryLedger, before: LibraryContents | None
) -> bool:
    """Drop commits whose parts are missing or cut off, with every source in them.

    These sources are then read again. Returns whether anything was damaged.
    """
    lost = [
        commit
        for commit in ledger.commits
        if not all(is_whole(paths, part) for part in (commit.papers, commit.symbols) if part)
    ]
    ledger.commits = [commit for commit in ledger.commits if commit not in lost]
    readings = {reading for commit in lost for reading in commit.readings}
    ledger.entries = {k: e for k, e in ledger.entries.items() if e.reading not in readings}
    if ledger.cursor is not None and ledger.cursor.reading in readings:
        ledger.cursor = None
    return bool(lost) or (before is not None and changed(paths, before) is not None)


def _is_small(worklist: Worklist) -> bool:
    """Return whether reading is safe in this process, and faster than starting another."""
    return worklist.bytes <= SMALL_BYTES and all(p.source.kind in _PLAIN for p in worklist.todo)


def _finish(
    paths: LibraryPaths,
    ledger: LibraryLedger,
    worklist: Worklist,
    lock: Lock,
    before: LibraryContents | None,
    fixed: bool,
    progress: Progress,
) -> LibraryContents:
    """Publish a new edition if anything is new; return the current contents."""
    news = ledger.last_commit > ledger.published or worklist.gone or worklist.touched or fixed
    if before is not None and not news:
        return before
    for key in worklist.gone:
        del ledger.entries[key]
    ledger.entries |= {entry.path: entry for entry in worklist.touched}
    papers = join(paths, ledger, partial(_check, paths, lock), progress)
    _check(paths, lock)
    return publish(paths, ledger, papers, before)
