"""The items that readers yield, and the reader of each kind of source.

A reader is a module with `read(path, origin)`. It yields items as it finds them, holds at most one
document in memory, and reports anything unreadable as a Trouble instead of raising.
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
    """A report that something was not read, or only partly. `origin` as for a paper.

    `reason` is one line.
    """

    origin: str
    reason: str = Field(min_length=1)


class Abstract(Record):
    """An abstract without its paper, as in Semantic Scholar's bulk files.

    It belongs to every paper with this `url` that has no abstract of its own.
    """

    url: str = Field(min_length=1)
    text: str = Field(min_length=1)
    origin: str


Item = Paper | Symbol | Abstract | Trouble
Reader = Callable[[Path, str], Iterator[Item]]


@dataclass(frozen=True, slots=True)
class PaperSource:
    """One unit of work: a file, a part of one, a code repository or a LaTeX project.

    `origin` is the name of `path` shown to users. `start` and `end` are byte offsets: the source
    is the lines that begin in [start, end); None means to the end. Only `detect.divide` makes
    sources with other values than (0, None).
    """

    path: Path
    kind: FileKind
    origin: str
    start: int = 0
    end: int | None = None


def module_of(kind: FileKind) -> str:
    """Return the module of a reader. Its function `prepare`, if any, does the reader's imports."""
    return f"hpcscientist.literature.sources.{_MODULES[kind]}"


def reader_for(kind: FileKind) -> Reader:
    """Return the reader of a kind. Imports its module only now."""
    module = importlib.import_module(module_of(kind))
    reader: Reader = module.read
    return reader


def read(source: PaperSource) -> Iterator[Item]:
    """Yield the items of a source. An OSError becomes a Trouble and is not raised."""
    reader = reader_for(source.kind)
    try:
        if (source.start, source.end) == (0, None):
            yield from reader(source.path, source.origin)
        else:  # only line-based readers ever get a part
            yield from reader(source.path, source.origin, source.start, source.end)  # type: ignore[call-arg]
    except OSError as error:
        yield trouble(source.origin, f"cannot be read: {error.strerror or error}")


def trouble(origin: str, reason: str) -> Trouble:
    """Return a Trouble whose reason is put on one line; the reason may have any length."""
    return Trouble(origin=origin, reason=one_line(reason) or "cannot be read")
