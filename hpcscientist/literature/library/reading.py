"""Reading what a worklist names, and committing it part by part.

Where a part ends depends on what was read since the last one and on nothing else. So a build
that was killed goes on with the same parts as one that was not, and the number of processes
changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hpcscientist.literature.library.files import schema
from hpcscientist.literature.library.files.parts import write_part
from hpcscientist.literature.library.files.paths import LibraryPaths, write_file
from hpcscientist.literature.library.indexing import Progress, Step
from hpcscientist.literature.library.ledger import Commit, Cursor, Entry, Ledger, encode_commit
from hpcscientist.literature.library.looks import UNKNOWN, pieces, stamp_of, with_piece
from hpcscientist.literature.library.processes.extraction import Batch, Ended, Output, Task
from hpcscientist.literature.library.processes.pool import Lost
from hpcscientist.literature.library.worklist import Listed, reader_of
from hpcscientist.literature.sources.base import Source

PART_ROWS = 8192
PART_BYTES = 16 << 20
PART_SOURCES = 512

Read = Callable[[Iterable[Task]], Iterator[tuple[Task, Output | Lost]]]


@dataclass(slots=True)
class _InHand:
    """A source that is read, and what is known of it so far."""

    listed: Listed
    reading: int
    pieces: int
    cursor: Cursor


@dataclass(slots=True)
class _Pending:
    """What was read since the last commit."""

    papers: list[bytes] = field(default_factory=list)
    symbols: list[bytes] = field(default_factory=list)
    troubles: list[tuple[int, str, str]] = field(default_factory=list)
    ended: list[Entry] = field(default_factory=list)
    readings: set[int] = field(default_factory=set)
    rows: int = 0
    size: int = 0

    @property
    def full(self) -> bool:
        return self.rows >= PART_ROWS or self.size >= PART_BYTES or len(self.ended) >= PART_SOURCES


class Reading:
    """Reads sources into a library; `ledger` is kept up with every commit."""

    def __init__(self, paths: LibraryPaths, ledger: Ledger, check: Callable[[], None]) -> None:
        """`check` raises an error if another process has taken the library over."""
        self._paths, self._ledger, self._check = paths, ledger, check
        self._begun: deque[_InHand] = deque()
        self._pending = _Pending()

    def run(self, todo: Sequence[Listed], read: Read, progress: Progress) -> int:
        """Read all of `todo`; return how many papers and symbols it gave.

        Raises DiskFull, LibraryError and what `check` raises.
        """
        total, done, documents = sum(p.stamp.size for p in todo), 0, 0
        progress(Step("reading", 0, total, "bytes"))
        for task, output in read(self._tasks(todo)):
            hand = self._begun[0]
            if isinstance(output, Batch):
                self._add(hand, output)
                documents += output.paper_rows + output.symbol_rows
            else:
                done += _length(task.source, hand)
                self._end_piece(hand, output)
            if self._pending.full:
                self._commit()
            progress(Step("reading", done, total, "bytes", documents))
        if self._pending.rows or self._pending.ended:
            self._commit()
        return documents

    def _tasks(self, todo: Sequence[Listed]) -> Iterator[Task]:
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

    def _add(self, hand: _InHand, batch: Batch) -> None:
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

    def _end_piece(self, hand: _InHand, output: Ended | Lost) -> None:
        if isinstance(output, Lost):
            self._complain(hand, f"not read, or not whole: {output.reason}")
        at = hand.cursor
        content = output.content if isinstance(output, Ended) else ""
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
        entry = Entry(
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
        """Write what is pending: its parts, then the file that says that they count."""
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


def _still(listed: Listed) -> bool:
    """Whether a source looks as it did when it was planned."""
    try:
        return stamp_of(listed.source) == listed.stamp
    except OSError:
        return False


def _pieces(source: Source) -> list[Source]:
    """Return the pieces of a source; whoever reads what is gone by now says so."""
    try:
        return list(pieces(source))
    except OSError:
        return [source]


def _length(piece: Source, hand: _InHand) -> int:
    """Return how many bytes a piece stands for."""
    end = hand.listed.stamp.size if piece.end is None else piece.end
    return end - piece.start
