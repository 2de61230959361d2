"""The parts of a paper before it is rendered as LaTeX, Typst or HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from hpcscientist.papers.typesetting.bibliography import Entry
from hpcscientist.papers.venues.venue import Venue
from hpcscientist.records.manuscript import (
    Citation,
    FigureRef,
    Manuscript,
    Number,
    lines,
    walk,
)

T = TypeVar("T")

# Printed below the title of every paper in any venue; the check of the PDF requires it.
WRITTEN_BY_SOFTWARE: Final = (
    "This paper was written by software, hpcscientist, from the records of a campaign. "
    "Each number is a link to the record that it was taken from."
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A drawn figure: `pdf` and `svg` are image files, `data` is the file with its numbers.

    `png` replaces `pdf` and `svg` if a recipe's plot.py draws no vectors. `sha256` is the hash of
    the data. `title` says what the figure shows, without numbers.
    """

    id: str
    title: str
    data: Path
    sha256: str
    pdf: Path | None = None
    svg: Path | None = None
    png: Path | None = None

    @property
    def image(self) -> Path | None:
        """The file that LaTeX includes; None if nothing could be drawn."""
        return self.pdf or self.png


@dataclass(frozen=True, slots=True)
class TracedNumber:
    """A number of the paper: `ref` is its source in the manuscript, `text` its printed form.

    `label` says what it is; each of `lines` says one thing about its origin.
    """

    ref: str
    text: str
    label: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Appendix:
    """How to reproduce the results: commands and records, as (name, value) pairs."""

    commands: tuple[tuple[str, str], ...]  # purpose, command
    records: tuple[tuple[str, str], ...]  # hashes, seeds, costs


@dataclass(frozen=True, slots=True)
class Document:
    """A manuscript with everything that it refers to. `bibliography` is in printed order."""

    manuscript: Manuscript
    venue: Venue
    numbers: Mapping[str, TracedNumber]
    figures: Mapping[str, Drawn]
    bibliography: tuple[Entry, ...]
    appendix: Appendix
    epoch: int  # seconds since 1970: the document's date
    names: tuple[str, ...] = ()  # words with digits that may be typed

    @property
    def positions(self) -> dict[str, int]:
        """The printed number of each paper of the bibliography, by its id."""
        return {entry.paper_id: number for number, entry in enumerate(self.bibliography, 1)}


def numbers_of(manuscript: Manuscript) -> list[Number]:
    """Return the distinct numbers of a manuscript, in order."""
    return list({str(n.ref): n for n in _all(manuscript, Number)}.values())


def cited(manuscript: Manuscript) -> list[str]:
    """Return the ids of the papers that a manuscript cites, in order of first citation."""
    found = (paper for cite in _all(manuscript, Citation) for paper in cite.papers)
    return list(dict.fromkeys(found))


def figures_of(manuscript: Manuscript) -> list[str]:
    """Return the ids of a manuscript's figures: first in order of reference, then the others."""
    referred = [part.id for part in _all(manuscript, FigureRef)]
    return list(dict.fromkeys([*referred, *(figure.id for figure in manuscript.figures)]))


def _all(manuscript: Manuscript, kind: type[T]) -> Iterator[T]:
    for _, line in lines(manuscript):
        for part in walk(line):
            if isinstance(part, kind):
                yield part
