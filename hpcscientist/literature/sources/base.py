"""What every reader yields, and which reader reads what.

A reader is a module with `read(path, origin)`. It yields what it finds as it goes, holds no more
than one document in memory, and reports what it cannot read as a Trouble instead of raising.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from hpcscientist.files.text import one_line
from hpcscientist.records.base import Record
from hpcscientist.records.literature import Paper, Symbol

FileKind = Literal[
    "pdf", "bibtex", "arxiv", "semantic_scholar", "openalex", "latex", "code", "online"
]

_MODULES: Final[dict[FileKind, str]] = {
    "pdf": "pdf",
    "latex": "latex.document",
    "code": "code",
    "bibtex": "records.bibtex",
    "arxiv": "records.arxiv",
    "semantic_scholar": "records.semantic_scholar",
    "openalex": "records.openalex",
    "online": "records.online",
}


class Trouble(Record):
    """Something that was not read, or not whole. `origin` as a paper's; `reason` is one line."""

    origin: str
    reason: str = Field(min_length=1)


class Abstract(Record):
    """An abstract that comes apart from its paper, as in Semantic Scholar's bulk files.

    It belongs to every paper whose `url` is this one and that has no abstract of its own.
    """

    url: str = Field(min_length=1)
    text: str = Field(min_length=1)
    origin: str


Item = Paper | Symbol | Abstract | Trouble
Reader = Callable[[Path, str], Iterator[Item]]


@dataclass(frozen=True, slots=True)
class Source:
    """One unit of work: a file, a part of one, a code repository or a LaTeX project.

    `origin` is what people know `path` by. `start` and `end` are bytes and stand for the lines
    that begin in [start, end); None means to the end. Other than (0, None) only for a source
    that `detect.divide` has made.
    """

    path: Path
    kind: FileKind
    origin: str
    start: int = 0
    end: int | None = None


def module_of(kind: FileKind) -> str:
    """Return a reader's module. A function `prepare` in it imports what reading takes later."""
    return f"hpcscientist.literature.sources.{_MODULES[kind]}"


def reader_for(kind: FileKind) -> Reader:
    """Return the reader of a kind. Its module is imported now, not before."""
    module = importlib.import_module(module_of(kind))
    reader: Reader = module.read
    return reader


def read(source: Source) -> Iterator[Item]:
    """Yield what a source holds. What the disk or the system refuses is a Trouble, never raised."""
    reader = reader_for(source.kind)
    try:
        if (source.start, source.end) == (0, None):
            yield from reader(source.path, source.origin)
        else:  # only readers of lines are ever given a part
            yield from reader(source.path, source.origin, source.start, source.end)  # type: ignore[call-arg]
    except OSError as error:
        yield trouble(source.origin, f"cannot be read: {error.strerror or error}")


def trouble(origin: str, reason: str) -> Trouble:
    """Make a Trouble of a reason of any length and shape."""
    return Trouble(origin=origin, reason=one_line(reason) or "cannot be read")
