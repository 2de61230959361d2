"""Reads OpenAlex's works, from its snapshot or its API's replies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hpcscientist.literature.sources import ids, text
from hpcscientist.literature.sources.base import Item
from hpcscientist.literature.sources.records import jsonl
from hpcscientist.records.literature import Paper

_ID = re.compile(r"(?:https?://(?:api\.)?openalex\.org/(?:works/)?)?([A-Z]\d+)", re.IGNORECASE)


def read(path: Path, origin: str, start: int = 0, end: int | None = None) -> Iterator[Item]:
    """Yield the papers of a file, or of its lines that begin at bytes [start, end)."""
    yield from jsonl.read_items(path, origin, paper_of, start, end)


def paper_of(record: dict[str, Any], origin: str) -> Paper | str:
    """Return the paper of a work, or a text that says why there is none."""
    own = work_id(record.get("id"))
    if own and not own.startswith("W"):
        return f"an entity {own[0]}… and no work; accepted are OpenAlex's works"
    title = text.without_markup(record.get("title") or record.get("display_name"))
    title = text.one_line(title, text.TITLE_CHARACTERS)
    if not title:
        return "no title"
    doi = ids.normal_doi(text.one_line(record.get("doi"), 1000))
    arxiv_id = _arxiv_id(record, doi)
    year = text.year_of(record.get("publication_year"))
    year = year or text.year_of(record.get("publication_date"))
    authors = _authors(record.get("authorships"))
    return Paper(
        paper_id=ids.paper_id(
            title, year, authors, doi=doi, arxiv_id=arxiv_id, other=f"openalex:{own}" if own else ""
        ),
        title=title,
        abstract=_abstract(record),
        authors=authors,
        year=year,
        venue=_venue(record),
        doi=doi,
        arxiv_id=arxiv_id,
        url=f"https://openalex.org/{own}" if own else "",
        citations=text.count_of(record.get("cited_by_count")),
        references=_references(record.get("referenced_works")),
        source="openalex",
        origin=f"{origin}:{own}" if own else origin,
    )


def work_id(value: object) -> str:
    """Return the id of a work ("W…") or another entity, from its address; "" for anything else."""
    found = _ID.fullmatch(value.strip()) if isinstance(value, str) else None
    return found.group(1).upper() if found else ""


def abstract_of(inverted: Any, limit: int = text.ABSTRACT_CHARACTERS) -> str:
    """Return the text of an inverted index {word: [positions]}; gaps are closed."""
    if isinstance(inverted, str):  # as in tables and their exports
        inverted = jsonl.parse(inverted)[0]
    if not isinstance(inverted, dict):
        return ""
    if isinstance(inverted.get("InvertedIndex"), dict):  # as in snapshots from before 2022
        inverted = inverted["InvertedIndex"]
    placed = [
        (position, str(word))
        for word, positions in inverted.items()
        if isinstance(positions, list)
        for position in positions
        if isinstance(position, int)
    ]
    placed.sort()
    return text.one_line(text.without_markup(" ".join(word for _, word in placed)), limit)


def _abstract(record: dict[str, Any]) -> str:
    written = text.one_line(text.without_markup(record.get("abstract")))
    return written or abstract_of(record.get("abstract_inverted_index"))


def _arxiv_id(record: dict[str, Any], doi: str) -> str:
    places = record.get("locations")
    places = places if isinstance(places, list) else []
    addresses = [doi, *_addresses([record.get("primary_location"), *places])]
    return next((i for i in map(ids.normal_arxiv, addresses) if i), "")


def _addresses(places: list[Any]) -> Iterator[str]:
    for place in places[:100]:
        if isinstance(place, dict):
            for key in ("landing_page_url", "pdf_url"):
                address = text.one_line(place.get(key), 1000)
                if "arxiv" in address.lower():
                    yield address


def _authors(value: object) -> tuple[str, ...]:
    names = []
    for authorship in value[: text.AUTHORS] if isinstance(value, list) else []:
        author = authorship.get("author") if isinstance(authorship, dict) else None
        known = author.get("display_name") if isinstance(author, dict) else None
        raw = authorship.get("raw_author_name") if isinstance(authorship, dict) else None
        names.append(text.one_line(known or raw, 200))
    return tuple(name for name in names if name)


def _venue(record: dict[str, Any]) -> str:
    place = record.get("primary_location")
    source = place.get("source") if isinstance(place, dict) else record.get("host_venue")
    name = source.get("display_name") if isinstance(source, dict) else ""
    return text.one_line(name, text.TITLE_CHARACTERS)


def _references(value: object) -> tuple[str, ...]:
    cited = map(work_id, value[: text.REFERENCES]) if isinstance(value, list) else ()
    return tuple(dict.fromkeys(f"openalex:{w}" for w in cited if w))
