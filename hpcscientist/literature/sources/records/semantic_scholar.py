"""Reads Semantic Scholar's records: bulk files of its Datasets API, and its Graph API's replies.

The data set `papers` has no abstracts, and `abstracts` has nothing else: its records are yielded
as Abstract, to be joined by the corpus id in the paper's url. `s2orc` has full texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hpcscientist.literature.sources import ids, text
from hpcscientist.literature.sources.base import Abstract, Item
from hpcscientist.literature.sources.records import jsonl
from hpcscientist.literature.sources.records.jsonl import read_items
from hpcscientist.records.literature import Paper, Section

# Semantic Scholar's full texts: one long text, and lists of where its parts begin and end.
#
# `s2orc` has them under "content", its second version under "body"; the lists may be JSON in JSON.

_SECTIONS = 2_000
_SECTION_CHARACTERS = 100_000


class FullText:
    """The full text of a record; empty if the record has none."""

    def __init__(self, fields: dict[str, Any]) -> None:
        block = fields.get("content") or fields.get("body")
        block = block if isinstance(block, dict) else {}
        written, marks = block.get("text"), block.get("annotations")
        self._text = written if isinstance(written, str) else ""
        self._marks = marks if isinstance(marks, dict) else {}

    def first(self, kind: str) -> str:
        """Return the first part of a kind ("title", "abstract"); "" if there is none."""
        return next((text.one_line(self._text[b:e]) for b, e in self._spans(kind)), "")

    def sections(self) -> tuple[Section, ...]:
        """Return a section per heading, up to the next; one with all text if there is none."""
        heads = sorted(self._spans("sectionheader"))[:_SECTIONS] or [(0, 0)]
        ends = [begin for begin, _ in heads[1:]] + [len(self._text)]
        found = (
            Section(
                heading=text.one_line(self._text[begin:end], text.TITLE_CHARACTERS),
                text=text.paragraphs(self._text[end:until], _SECTION_CHARACTERS),
            )
            for (begin, end), until in zip(heads, ends, strict=True)
        )
        return tuple(s for s in found if s.text)

    def _spans(self, kind: str) -> Iterator[tuple[int, int]]:
        marks = self._marks.get(kind)
        marks = jsonl.parse(marks)[0] if isinstance(marks, str) else marks
        for mark in marks if isinstance(marks, list) else ():
            if isinstance(mark, dict):
                begin, end = _number(mark.get("start")), _number(mark.get("end"))
                if 0 <= begin < end <= len(self._text):
                    yield begin, end


def _number(value: object) -> int:
    """Return a position, which some files give as text; -1 if the value is none."""
    if isinstance(value, int):
        return int(value)
    return int(value) if isinstance(value, str) and value.isascii() and value[:15].isdigit() else -1


_INSIDE = ("citedPaper", "citingPaper", "paper")
_NOT_PAPERS = {
    "citingcorpusid": "a citation",
    "vector": "an embedding",
    "hindex": "an author",
    "sha": "a pair of ids",
    "alternate_names": "a venue",
    "model": "a summary by a model",
}


def read(path: Path, origin: str, start: int = 0, end: int | None = None) -> Iterator[Item]:
    """Yield papers or abstracts of a file, or of its lines that begin at bytes [start, end)."""
    yield from read_items(path, origin, item_of, start, end)


def item_of(record: dict[str, Any], origin: str) -> Paper | Abstract | str:
    """Return the paper or abstract of a record, or a text that says why there is none."""
    record = next((record[k] for k in _INSIDE if isinstance(record.get(k), dict)), record)
    fields = {str(k).lower(): v for k, v in record.items()}
    corpus = _corpus_id(fields)
    whole = FullText(fields)
    title = text.one_line(text.without_markup(fields.get("title")), text.TITLE_CHARACTERS)
    title = title or whole.first("title")[: text.TITLE_CHARACTERS]
    abstract = text.one_line(text.without_markup(fields.get("abstract"))) or whole.first("abstract")
    if title:
        paper = _paper(fields, title, abstract, origin)
        return paper.model_copy(update={"sections": whole.sections()})
    if corpus and abstract:
        return Abstract(url=_url(corpus), text=abstract, origin=f"{origin}:{corpus}")
    return next(
        (f"{name} and no paper; accepted are the data sets papers, abstracts and s2orc"
         for key, name in _NOT_PAPERS.items() if key in fields),
        "no title",
    )  # fmt: skip


def _paper(fields: dict[str, Any], title: str, abstract: str, origin: str) -> Paper:
    doi, arxiv_id = _outside_ids(fields)
    corpus = _corpus_id(fields)
    own = corpus or text.one_line(fields.get("paperid"), 100)
    year = text.year_of(fields.get("year")) or text.year_of(fields.get("publicationdate"))
    authors = _authors(fields.get("authors"))
    return Paper(
        paper_id=ids.paper_id(
            title, year, authors, doi=doi, arxiv_id=arxiv_id, other=f"s2:{own}" if own else ""
        ),
        title=title,
        abstract=abstract,
        authors=authors,
        year=year,
        venue=_venue(fields),
        doi=doi,
        arxiv_id=arxiv_id,
        url=_url(corpus) if corpus else text.one_line(fields.get("url"), 1000),
        citations=text.count_of(fields.get("citationcount")),
        references=_references(fields.get("references")),
        source="semantic_scholar",
        origin=f"{origin}:{own}" if own else origin,
    )


def _url(corpus: str) -> str:
    return f"https://api.semanticscholar.org/CorpusID:{corpus}"


def _outside_ids(fields: dict[str, Any]) -> tuple[str, str]:
    outside = fields.get("externalids")
    known = {str(k).lower(): v for k, v in outside.items()} if isinstance(outside, dict) else {}
    return (
        ids.normal_doi(text.one_line(known.get("doi"), 1000)),
        ids.normal_arxiv(text.one_line(known.get("arxiv"), 100)),
    )


def _corpus_id(fields: dict[str, Any]) -> str:
    outside = fields.get("externalids")
    value = fields.get("corpusid") or (outside.get("CorpusId") if isinstance(outside, dict) else "")
    return str(value) if str(value).isascii() and str(value).isdigit() else ""


def _venue(fields: dict[str, Any]) -> str:
    journal = fields.get("journal")
    named = journal.get("name") if isinstance(journal, dict) else ""
    return text.one_line(fields.get("venue") or named, text.TITLE_CHARACTERS)


def _authors(value: object) -> tuple[str, ...]:
    people = value[: text.AUTHORS] if isinstance(value, list) else []
    names = (text.one_line(p.get("name"), 200) for p in people if isinstance(p, dict))
    return tuple(name for name in names if name)


def _references(value: object) -> tuple[str, ...]:
    cited = value[: text.REFERENCES] if isinstance(value, list) else []
    found = (_reference(c) for c in cited if isinstance(c, dict))
    return tuple(dict.fromkeys(r for r in found if r))


def _reference(cited: dict[str, Any]) -> str:
    fields = {str(k).lower(): v for k, v in cited.items()}
    doi, arxiv_id = _outside_ids(fields)
    own = _corpus_id(fields) or text.one_line(fields.get("paperid"), 100)
    if doi or arxiv_id or own:
        return ids.paper_id("", doi=doi, arxiv_id=arxiv_id, other=f"s2:{own}")
    return text.one_line(fields.get("title"), text.TITLE_CHARACTERS)
