"""What page 1 of a paper, the stamp in its margin and its file's name tell of its ids and year."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.literature.sources import ids

_YEAR = re.compile(r"\b(?:19[5-9]|20[0-4])\d\b")
_PUBLISHED = re.compile(
    r"©|\(c\)|copyright|published|conference|proceedings|accepted|dated|preprint|submitted|"
    r"workshop|\bvol(?:ume)?\b|(?-i:\b[A-Z]{3,}[’'\s]*$)",
    re.I,
)
_STAMP_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_DOI_SAID = re.compile(r"(?:doi(?:\.org/|\s*:?\s*|/))\s*(10\.\d{4,9}/[^\s\"<>]+)", re.I)


@dataclass(frozen=True, slots=True)
class Known:
    """A paper's ids and year, as far as page 1, the stamp in its margin and its name tell."""

    doi: str
    arxiv_id: str
    year: int | None


def find_ids(path: Path, first: str, stamps: Sequence[str]) -> Known:
    """Return ids and year. `first` is page 1 as text, `stamps` its sideways lines.

    An arXiv id is the paper's own in the stamp or as the name of the file; in the text it may
    be another paper's.
    """
    stamp = " ".join(stamps)
    arxiv = ids.find_arxiv(stamp) or ids.normal_arxiv(path.stem)
    doi = next((d for d in map(ids.normal_doi, _DOI_SAID.findall(first)) if d), "")
    own = re.match(r"10\.48550/arxiv\.(.+)", doi)
    if own:
        doi, arxiv = "", arxiv or ids.normal_arxiv(own.group(1))
    stamped = _STAMP_YEAR.findall(stamp)
    if stamped and arxiv:
        year: int | None = int(stamped[-1])
    else:
        year = _published(first) or (ids.arxiv_year(arxiv) if arxiv else None)
    return Known(doi, arxiv, year)


def _published(first: str) -> int | None:
    """Return the first year on page 1 that is said to be that of publication."""
    for found in _YEAR.finditer(first):
        begin = max(first.rfind("\n", 0, found.start()), found.start() - 80, 0)
        if _PUBLISHED.search(first[begin : found.start()]):
            return int(found.group())
    return None
