"""Reads one source into record batches of bounded size, in the order of the source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from hpcscientist.literature.library import schema
from hpcscientist.literature.library.ledger import content_hash
from hpcscientist.literature.sources.base import Abstract, Item, PaperSource, Trouble, read, trouble
from hpcscientist.records.literature import Paper

BATCH_ROWS = 256
BATCH_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Task:
    """A source to read, or a part of one. Its first `skip` batches exist already.

    `reading` is the number of this reading of the source.
    """

    source: PaperSource
    reading: int
    skip: int = 0

    def outputs(self) -> Iterator[Output]:
        """Read the source; see `extract`."""
        return extract(self)

    def after(self, batches: int) -> Task:
        """Return the rest of the task after some more batches."""
        return replace(self, skip=self.skip + batches)


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows as serialised Arrow record batches without their schema; b"" for none."""

    papers: bytes = b""
    paper_rows: int = 0
    symbols: bytes = b""
    symbol_rows: int = 0
    troubles: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        """The number of bytes in the batch."""
        return len(self.papers) + len(self.symbols) + sum(len(o) + len(r) for o, r in self.troubles)


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """The end of a source. `content` is the hash of its bytes."""

    content: str


Output = RowBatch | SourceEnd


def extract(task: Task) -> Iterator[Output]:
    """Read a source: yield batches, then its end. No content of a source raises an error."""
    for number, batch in enumerate(_batches(task)):
        if number >= task.skip:
            yield batch
    yield SourceEnd(content_hash(task.source))


def _batches(task: Task) -> Iterator[RowBatch]:
    pending = _Pending(task.reading)
    for item in _items(task.source):
        pending.add(item)
        if pending.full:
            yield pending.take()
    if pending.count:
        yield pending.take()


def _items(source: PaperSource) -> Iterator[Item]:
    """Yield the reader's items; if the reader fails, the items so far and a Trouble."""
    try:
        yield from read(source)
    except Exception as error:  # noqa: BLE001 (somebody's file met somebody's parser)
        what = "needs too much memory" if isinstance(error, MemoryError) else _said(error)
        yield trouble(source.origin, f"cannot be read: {what}")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


@dataclass(slots=True)
class _Pending:
    """The rows that were read since the last batch."""

    reading: int
    papers: list[dict[str, Any]] = field(default_factory=list)
    symbols: list[dict[str, Any]] = field(default_factory=list)
    troubles: list[tuple[str, str]] = field(default_factory=list)
    size: int = 0

    @property
    def count(self) -> int:
        return len(self.papers) + len(self.symbols) + len(self.troubles)

    @property
    def full(self) -> bool:
        return self.count >= BATCH_ROWS or self.size >= BATCH_BYTES

    def add(self, item: Item) -> None:
        if isinstance(item, Paper):
            self.papers.append(schema.paper_row(item, self.reading))
            self.size += schema.text_size(self.papers[-1])
        elif isinstance(item, Trouble):
            self.troubles.append((item.origin, item.reason))
        elif isinstance(item, Abstract):
            self.papers.append(schema.fragment_row(item, self.reading))
            self.size += len(item.text)
        else:
            self.symbols.append(schema.symbol_row(item, self.reading))
            self.size += len(item.code) + len(item.docstring)

    def take(self) -> RowBatch:
        batch = RowBatch(
            papers=_encoded(self.papers, schema.PAPERS),
            paper_rows=len(self.papers),
            symbols=_encoded(self.symbols, schema.SYMBOLS),
            symbol_rows=len(self.symbols),
            troubles=tuple(self.troubles),
        )
        self.papers, self.symbols, self.troubles, self.size = [], [], [], 0
        return batch


def _encoded(rows: list[dict[str, Any]], of: Any) -> bytes:
    data: bytes = schema.to_batch(rows, of).serialize().to_pybytes() if rows else b""
    return data
