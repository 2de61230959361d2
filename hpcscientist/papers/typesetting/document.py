"""All that a paper is made of, before it becomes LaTeX, Typst or HTML."""

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

# Printed below the title of every paper, whatever its venue; the gate on the PDF looks for it.
WRITTEN_BY_SOFTWARE: Final = (
    "This paper was written by software, hpcscientist, from the records of a campaign. "
    "Each number is a link to the record that it was taken from."
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure as it was drawn: `pdf` and `svg` are files, `data` its numbers as CSV.

    `png` in place of `pdf` and `svg` where a recipe's plot.py draws no vectors. `sha256` is that of
    the data. `title` is what it shows, without numbers.
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
        """The file that LaTeX includes; None where nothing could be drawn."""
        return self.pdf or self.png


@dataclass(frozen=True, slots=True)
class TracedNumber:
    """A number of the paper: `ref` as it is written between braces, `text` as it is printed.

    `label` says what it is, `lines` where it comes from, one thought each.
    """

    ref: str
    text: str
    label: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Appendix:
    """How to run it again: commands, and what they are to find, as (name, value) pairs."""

    commands: tuple[tuple[str, str], ...]  # what it is for, the command
    records: tuple[tuple[str, str], ...]  # hashes, seeds, costs


@dataclass(frozen=True, slots=True)
class Document:
    """A manuscript with everything that it refers to. `bibliography` is in the printed order."""

    manuscript: Manuscript
    venue: Venue
    numbers: Mapping[str, TracedNumber]
    figures: Mapping[str, Drawn]
    bibliography: tuple[Entry, ...]
    appendix: Appendix
    epoch: int  # seconds since 1970: the document's date
    names: tuple[str, ...] = ()  # words with digits in them that may be typed

    @property
    def positions(self) -> dict[str, int]:
        """The printed number of each paper of the bibliography, by its id."""
        return {entry.paper_id: number for number, entry in enumerate(self.bibliography, 1)}


def numbers_of(manuscript: Manuscript) -> list[Number]:
    """Return the numbers of a manuscript in their order, each once."""
    return list({str(n.ref): n for n in _all(manuscript, Number)}.values())


def cited(manuscript: Manuscript) -> list[str]:
    """Return the ids of the papers that a manuscript cites, in the order of the first citation."""
    found = (paper for cite in _all(manuscript, Citation) for paper in cite.papers)
    return list(dict.fromkeys(found))


def figures_of(manuscript: Manuscript) -> list[str]:
    """Return the ids of the figures that a manuscript refers to, in that order, then the others."""
    referred = [part.id for part in _all(manuscript, FigureRef)]
    return list(dict.fromkeys([*referred, *(figure.id for figure in manuscript.figures)]))


def _all(manuscript: Manuscript, kind: type[T]) -> Iterator[T]:
    for _, line in lines(manuscript):
        for part in walk(line):
            if isinstance(part, kind):
                yield part
