"""arXiv's metadata: the JSON Lines dump of all papers, and answers of its API and of OAI-PMH."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hpcscientist.literature.sources import ids, text
from hpcscientist.literature.sources import tex as latex_text
from hpcscientist.literature.sources.base import Item
from hpcscientist.literature.sources.records import arxiv_xml
from hpcscientist.literature.sources.records.jsonl import read_items
from hpcscientist.records.literature import Paper


def read(path: Path, origin: str, start: int = 0, end: int | None = None) -> Iterator[Item]:
    """Yield the papers of a dump, or of its lines that begin at bytes [start, end)."""
    if arxiv_xml.is_xml(path):
        yield from arxiv_xml.read(path, origin)
        return
    yield from read_items(path, origin, paper_of, start, end)


def paper_of(record: dict[str, Any], origin: str) -> Paper | str:
    """Return the paper of a record of the dump; as a text, why it is none."""
    arxiv_id = ids.normal_arxiv(str(record.get("id", "")))
    title = latex_text.plain(text.one_line(record.get("title"), text.TITLE_CHARACTERS))
    if not arxiv_id or not title:
        return "no arXiv id or no title"
    year = ids.arxiv_year(arxiv_id)
    authors = _authors(record)
    doi = ids.normal_doi(str(record.get("doi") or ""))
    return Paper(
        paper_id=ids.paper_id(title, year, authors, doi=doi, arxiv_id=arxiv_id),
        title=title,
        abstract=latex_text.plain(text.one_line(record.get("abstract"))),
        authors=authors,
        year=year,
        venue=latex_text.plain(text.one_line(record.get("journal-ref"), text.TITLE_CHARACTERS)),
        doi=doi,
        arxiv_id=arxiv_id,
        url=f"https://arxiv.org/abs/{arxiv_id}",
        source="arxiv",
        origin=f"{origin}:{arxiv_id}",
    )


def _authors(record: dict[str, Any]) -> tuple[str, ...]:
    parsed = record.get("authors_parsed")
    if isinstance(parsed, list):
        names = [_name(p) for p in parsed[: text.AUTHORS] if isinstance(p, list)]
    else:
        whole = re.sub(r"\([^()]*\)", "", text.one_line(record.get("authors")))
        names = [n.strip() for n in re.split(r",\s*(?:and\s+)?|\s+and\s+", whole)]
    plain = (latex_text.plain(name) for name in names)
    return tuple(name for name in plain if name)


def _name(parts: list[Any]) -> str:
    """Return "First Last Suffix" of [last, first, suffix, affiliation…]."""
    last, first, suffix = ([text.one_line(p, 200) for p in parts[:3]] + [""] * 3)[:3]
    return " ".join(p for p in (first, last, suffix) if p)
