"""One paper out of what several sources say of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from hpcscientist.literature.library.keys import plain_id
from hpcscientist.literature.sources.ids import paper_id
from hpcscientist.records.known.literature import Paper, SourceKind

V = TypeVar("V")

# Who is believed first on what stands in a catalogue, and who on what stands in the text.
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
    """Return one paper out of several records of it, the same for any order of them.

    `abstracts` came apart from the paper, and stand where no record has one.

    Title, authors, year and the like are the first catalogue's that has them; sections and
    formulas the LaTeX source's, else the PDF's, each the longest. Its id is the best of theirs,
    and `origin` names all, the one with the text first.
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
    """Return papers in the order in which their text is believed; the longest first of a kind."""
    return sorted(papers, key=lambda p: (_TEXT.index(p.source), -_text_length(p)))


def _text_length(paper: Paper) -> int:
    return sum(len(section.text) for section in paper.sections)


def _first(papers: Sequence[Paper], of: Callable[[Paper], V]) -> V:
    """Return the first of the papers' values that says something."""
    return next((value for p in papers if (value := of(p))), of(papers[0]))


def _best_id(papers: Sequence[Paper], doi: str, arxiv_id: str) -> str:
    """Return the id that later builds find too: a DOI's, else arXiv's, else a catalogue's."""
    given = sorted({plain_id(p.paper_id) for p in papers}, key=_rank)
    known = paper_id("", doi=doi, arxiv_id=arxiv_id, other=given[0])
    return min(known, given[0], key=_rank)


def _rank(text: str) -> tuple[int, str]:
    order = ("doi", "arxiv", "s2", "openalex")
    kind = text.partition(":")[0]
    return (order.index(kind) if kind in order else len(order), text)


def _origins(papers: Sequence[Paper]) -> str:
    """Return where the papers are from, each place once."""
    return "; ".join(dict.fromkeys(paper.origin for paper in papers))
