"""Reads arXiv's metadata: the JSON Lines dump of all papers, and replies of its API and OAI-PMH."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from hpcscientist.literature.sources import ids, lines, text
from hpcscientist.literature.sources import tex as latex_text
from hpcscientist.literature.sources.base import Item, trouble
from hpcscientist.literature.sources.records.jsonl import read_items
from hpcscientist.records.literature import Paper

# arXiv's XML: Atom from the API, and OAI-PMH in arXiv's own format or Dublin Core.

_RECORDS = ("entry", "record")
_STEP = 2**16


def is_xml(path: Path) -> bool:
    """Return whether a file, or the content of a gzip file, begins like XML. Raises OSError."""
    with lines.open_plain(path) as file:
        try:
            return file.peek(64)[:64].removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<")
        except lines.DAMAGED_GZIP:
            return False


def read_feed(path: Path, origin: str) -> Iterator[Item]:
    """Yield the papers of a feed, holding one at a time in memory. Raises OSError."""
    parser: XMLPullParser[Any] = XMLPullParser(events=("start", "end"))
    open_elements: list[Element] = []
    pending, seen = 0, b""
    with lines.open_plain(path) as file:
        try:
            while data := file.read1(_STEP):
                seen = seen[-8:] + data
                # A feed has no document type, but an XML bomb does.
                if b"<!DOCTYPE" in seen or b"<!ENTITY" in seen:
                    yield trouble(origin, "XML with a document type of its own is not read")
                    return
                parser.feed(data)
                found = list(_records(parser, open_elements))
                pending = 0 if found else pending + len(data)
                yield from (item_of(element, origin) for element in found)
                if pending > lines.LINE_BYTES:
                    yield trouble(origin, "one record of XML has more than 16 MiB; reading ends")
                    return
            parser.close()
        except (ParseError, *lines.DAMAGED_GZIP) as error:
            yield trouble(
                origin, f"XML damaged or cut off ({error}); what stood before it was read"
            )


def _records(parser: XMLPullParser[Any], open_elements: list[Element]) -> Iterator[Element]:
    events: Any = parser.read_events()
    for event, element in events:
        if event == "start":
            open_elements.append(element)
            continue
        open_elements.pop()
        if _tag(element) in _RECORDS:
            yield element
            if open_elements:
                open_elements[-1].remove(element)


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _texts(record: Element, *tags: str) -> list[str]:
    found = (text.one_line(e.text) for e in record.iter() if _tag(e) in tags)
    return [t for t in found if t]


def item_of(record: Element, origin: str) -> Item:
    """Return the paper of an entry or record; a Trouble if title or arXiv id is missing."""
    title = latex_text.plain("".join(_texts(record, "title")[:1])[: text.TITLE_CHARACTERS])
    addresses = _texts(record, "id", "identifier")
    arxiv_id = next((i for i in map(ids.normal_arxiv, addresses) if i), "")
    if not title or not arxiv_id:
        place = f"{origin}:{addresses[0]}" if addresses else origin
        return trouble(place, "no arXiv id or no title")
    authors = _authors_of(record)
    year = ids.arxiv_year(arxiv_id)
    doi = next((d for d in map(ids.normal_doi, [*_texts(record, "doi"), *addresses]) if d), "")
    abstracts = _texts(record, "summary", "abstract", "description")
    return Paper(
        paper_id=ids.paper_id(title, year, authors, doi=doi, arxiv_id=arxiv_id),
        title=title,
        abstract=latex_text.plain(abstracts[0]) if abstracts else "",
        authors=authors,
        year=year,
        venue="".join(_texts(record, "journal_ref", "journal-ref")[:1]),
        doi=doi,
        arxiv_id=arxiv_id,
        url=f"https://arxiv.org/abs/{arxiv_id}",
        source="arxiv",
        origin=f"{origin}:{arxiv_id}",
    )


def _authors_of(record: Element) -> tuple[str, ...]:
    names = []
    for element in record.iter():
        if _tag(element) == "author":
            last = _texts(element, "keyname")
            names.append(
                " ".join(_texts(element, "forenames") + last) or "".join(_texts(element, "name"))
            )
        elif _tag(element) == "creator":
            family, _, first = text.one_line(element.text).partition(",")
            names.append(f"{first} {family}")
    plain = (re.sub(r"\s+", " ", latex_text.plain(n)).strip() for n in names[: text.AUTHORS])
    return tuple(n for n in plain if n)


def read(path: Path, origin: str, start: int = 0, end: int | None = None) -> Iterator[Item]:
    """Yield the papers of a feed or dump, or of a dump's lines that begin at bytes [start, end)."""
    if is_xml(path):
        yield from read_feed(path, origin)
        return
    yield from read_items(path, origin, paper_of, start, end)


def paper_of(record: dict[str, Any], origin: str) -> Paper | str:
    """Return the paper of a record of the dump, or a text that says why there is none."""
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
    """Return "First Last Suffix" for [last, first, suffix, affiliation…]."""
    last, first, suffix = ([text.one_line(p, 200) for p in parts[:3]] + [""] * 3)[:3]
    return " ".join(p for p in (first, last, suffix) if p)
