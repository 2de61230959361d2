"""Makes the bibliography of a paper from the library's records: as printed, and as BibTeX."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from hpcscientist.papers.typesetting.escape import latex
from hpcscientist.records.literature import Paper

_MOST_AUTHORS: Final = 12  # printed; BibTeX has all
_WORDS = re.compile(r"[a-z]+")
_SMALL: Final = frozenset(("a", "an", "the", "on", "of", "for", "in", "to", "and", "with"))


@dataclass(frozen=True, slots=True)
class CitedEntry:
    """A paper of the bibliography, with its BibTeX `key`, its printed parts and its `link`."""

    paper_id: str
    key: str
    authors: str
    title: str
    where: str
    link: str
    paper: Paper

    @property
    def text(self) -> str:
        """The printed entry."""
        return " ".join(part for part in (self.authors, self.title, self.where) if part)


def entries(papers: Iterable[Paper]) -> tuple[CitedEntry, ...]:
    """Return the entries of papers in order, each with a unique key."""
    taken: set[str] = set()
    return tuple(_entry(paper, taken) for paper in papers)


def bibtex(found: Iterable[CitedEntry]) -> str:
    """Return a BibTeX file. Every value is escaped, so that no record can end its entry."""
    return "\n".join(_bibtex(entry) for entry in found)


def _entry(paper: Paper, taken: set[str]) -> CitedEntry:
    shown = [_name(author) for author in paper.authors[:_MOST_AUTHORS]]
    if len(paper.authors) > _MOST_AUTHORS:
        shown.append("others")
    listed = ", ".join(shown[:-1]) + (" and " if len(shown) > 1 else "") + "".join(shown[-1:])
    ids = [f"doi:{paper.doi}"] if paper.doi else []
    ids += [f"arXiv:{paper.arxiv_id}"] if paper.arxiv_id else []
    where = ", ".join(filter(None, [paper.venue, str(paper.year or ""), *ids]))
    return CitedEntry(
        paper_id=paper.paper_id,
        key=_key(paper, taken),
        authors=_ended(listed),
        title=_ended(paper.title),
        where=_ended(where),
        link=_link(paper),
        paper=paper,
    )


def _ended(text: str) -> str:
    clean = " ".join(text.split())
    return clean if not clean or clean[-1] in ".?!" else f"{clean}."


def _name(author: str) -> str:
    """Return "Family, Given" as "Given Family"."""
    family, comma, given = author.partition(",")
    return f"{given.strip()} {family.strip()}" if comma else author.strip()


def _key(paper: Paper, taken: set[str]) -> str:
    author = _name(paper.authors[0]).split()[-1:] if paper.authors else []
    words = [word for word in _WORDS.findall(_plain(paper.title)) if word not in _SMALL]
    base = "".join(_WORDS.findall(_plain("".join(author)))) or "anonymous"
    key = f"{base}{paper.year or ''}{''.join(words[:1])}"
    rest = iter(["", *string.ascii_lowercase, *(f"x{n}" for n in range(len(taken) + 1))])
    own: str = next(key + end for end in rest if key + end not in taken)
    taken.add(own)
    return own


def _plain(text: str) -> str:
    """Return a text in lower-case ASCII, without accents."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()


def _link(paper: Paper) -> str:
    if paper.doi:
        return f"https://doi.org/{paper.doi}"
    if paper.arxiv_id:
        return f"https://arxiv.org/abs/{paper.arxiv_id}"
    return paper.url if paper.url.startswith(("https://", "http://")) else ""


def _bibtex(entry: CitedEntry) -> str:
    paper = entry.paper
    kind = "article" if paper.venue else "misc"
    fields = {
        "author": " and ".join(
            f"{{{latex(_name(author))}}}" if "," not in author else latex(author)
            for author in paper.authors
        ),
        "title": f"{{{latex(paper.title)}}}",
        "journal": latex(paper.venue),
        "year": str(paper.year or ""),
        "doi": latex(paper.doi),
        "eprint": latex(paper.arxiv_id),
        "url": latex(_link(paper)),
    }
    if paper.arxiv_id:
        fields["archiveprefix"] = "arXiv"
    lines = [f"  {name} = {{{value}}}," for name, value in _filled(fields)]
    return "\n".join([f"@{kind}{{{entry.key},", *lines, "}", ""])


def _filled(fields: dict[str, str]) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in fields.items() if value)
