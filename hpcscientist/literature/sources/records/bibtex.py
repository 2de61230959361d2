"""BibTeX and BibLaTeX: one entry at a time, so that a file may be of any length.

A file is cut where a line begins an entry, as bibtexparser itself resumes after damage there;
each piece is then parsed by it. A value is put together here, because strings may be defined far
from where they are used. Entries do not inherit by `crossref`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpcscientist.literature.sources import ids, lines, text
from hpcscientist.literature.sources import tex as latex_text
from hpcscientist.literature.sources.base import Item, Trouble, trouble
from hpcscientist.records.known.literature import Paper

_BEGIN = re.compile(r"\s*@[A-Za-z]+\s*[{(]")
_ENTRY_CHARACTERS = 2**20
_STRINGS = 10_000
_PIECE = re.compile(r'"((?:[^"{}]|\{[^{}]*\})*)"|\{((?:[^{}]|\{[^{}]*\})*)\}|([^\s#"{}]+)')
_VENUES = (
    "journal",
    "journaltitle",
    "booktitle",
    "publisher",
    "school",
    "institution",
    "howpublished",
)


@dataclass(slots=True)
class Entry:
    """An entry as it is written, without its delimiters; field names in lower case."""

    key: str
    type: str
    line: int
    fields: dict[str, str] = field(default_factory=dict)


def read(path: Path, origin: str) -> Iterator[Item]:
    """Yield the papers of a file. Raises OSError."""
    found = 0
    for item in entries(lines.read_lines(path, origin), origin):
        if isinstance(item, Trouble):
            yield item
            continue
        found += 1
        paper = paper_of(item, f"{origin}:{item.line}")
        yield paper or trouble(f"{origin}:{item.line}", f"entry {item.key!r} has no title")
    if not found:
        yield trouble(origin, "no entry of BibTeX in it")


def entries_of(source: str, origin: str = "") -> Iterator[Entry | Trouble]:
    """Yield the entries of a text."""
    numbered = (lines.Line(n, 0, t) for n, t in enumerate(source.split("\n"), 1))
    return entries(numbered, origin)


def entries(found: Iterable[lines.Line | Trouble], origin: str) -> Iterator[Entry | Trouble]:
    """Yield the entries in lines, with the line each begins at."""
    strings: dict[str, str] = {}
    for piece in _pieces(found, origin):
        yield from [piece] if isinstance(piece, Trouble) else _parsed(*piece, origin, strings)


def _pieces(
    found: Iterable[lines.Line | Trouble], origin: str
) -> Iterator[tuple[int, str] | Trouble]:
    first, held, size = 0, list[str](), 0
    for line in found:
        if isinstance(line, Trouble):
            yield line
            continue
        written = line.text.replace("\r", "\n")
        if _BEGIN.match(written):
            if first:
                yield first, "\n".join(held)
            first, held, size = line.number, [], 0
        size += len(written)
        if first and size > _ENTRY_CHARACTERS:
            yield trouble(f"{origin}:{first}", "an entry of more than 1 MiB, passed over")
            first, held = 0, []
        elif first:
            held.append(written)
    if first:
        yield first, "\n".join(held)


def _parsed(
    first: int, source: str, origin: str, strings: dict[str, str]
) -> Iterator[Entry | Trouble]:
    from bibtexparser.entrypoint import parse_string  # noqa: PLC0415  slow to import, used when BibTeX is read
    from bibtexparser.model import DuplicateFieldKeyBlock, ParsingFailedBlock  # noqa: PLC0415

    logging.getLogger("bibtexparser").setLevel(logging.CRITICAL)  # told as Troubles instead
    library = parse_string(source, parse_stack=[])
    for string in library.strings:
        if len(strings) < _STRINGS:
            strings[string.key.lower()] = _value(string.value, strings)
    found: list[Any] = list(library.entries)
    for block in library.failed_blocks:
        if isinstance(block, DuplicateFieldKeyBlock):
            found.append(block.ignore_error_block)
        elif isinstance(block, ParsingFailedBlock):
            line = first + max(block.start_line or 0, 0)
            yield trouble(f"{origin}:{line}", f"damaged entry: {_why(block.error)}")
    for entry in found:
        yield _entry(entry, first, strings)


def _why(error: Exception | None) -> str:
    return str(getattr(error, "abort_reason", "") or error or "cannot be parsed")


def _entry(entry: Any, first: int, strings: dict[str, str]) -> Entry:
    result = Entry(entry.key.strip(), entry.entry_type.lower(), first + (entry.start_line or 0))
    for item in entry.fields:
        result.fields.setdefault(item.key.strip().lower(), _value(str(item.value), strings))
    return result


def _value(raw: str, strings: dict[str, str]) -> str:
    """Return a value without delimiters, `#` joined and strings replaced by what they stand for."""
    raw = raw.strip()
    if raw.startswith("{") and raw.endswith("}"):
        return raw[1:-1]
    if "#" not in raw:
        return raw[1:-1] if raw.startswith('"') else strings.get(raw.lower(), raw)
    found = _PIECE.findall(raw)
    parts = (quoted or braced or strings.get(name.lower(), name) for quoted, braced, name in found)
    return "".join(parts)[: text.ABSTRACT_CHARACTERS]


def paper_of(entry: Entry, origin: str) -> Paper | None:
    """Return the paper of an entry; None if it has no title."""
    fields = entry.fields
    title = _plain(fields.get("title", ""), text.TITLE_CHARACTERS)
    subtitle = _plain(fields.get("subtitle", ""), text.TITLE_CHARACTERS)
    if not title:
        return None
    title = f"{title}: {subtitle}" if subtitle else title
    authors = names_of(fields.get("author") or fields.get("editor", ""))
    year = text.year_of(fields.get("year")) or text.year_of(fields.get("date"))
    url = fields.get("url", "").replace("\\", "").strip("{} \n")
    doi = ids.normal_doi(fields.get("doi", "").replace("\\", "")) or _doi_in(url)
    arxiv_id = _arxiv_id(fields)
    return Paper(
        paper_id=ids.paper_id(title, year, authors, doi=doi, arxiv_id=arxiv_id),
        title=title,
        abstract=_plain(fields.get("abstract", ""), text.ABSTRACT_CHARACTERS),
        authors=authors,
        year=year or ids.arxiv_year(arxiv_id),
        venue=next((v for v in (_plain(fields.get(f, ""), 500) for f in _VENUES) if v), ""),
        doi=doi,
        arxiv_id=arxiv_id,
        url=text.one_line(url, 1000),
        source="bibtex",
        origin=origin,
    )


def names_of(value: str) -> tuple[str, ...]:
    """Return the people of an author field as "First von Last Jr"."""
    names = (_ordered(n) for n in _split(value[:100_000], re.compile(r"\s+and\s+"))[: text.AUTHORS])
    plain = (_plain(n, 200) for n in names)
    return tuple(n for n in plain if n and n.lower() != "others")


def _ordered(name: str) -> str:
    """Turn "von Last, First" and "von Last, Jr, First" around."""
    parts = [p.strip() for p in _split(name, re.compile(r","))]
    return " ".join(p for p in [*parts[1:][-1:], parts[0], *parts[1:-1]] if p)


def _split(value: str, separator: re.Pattern[str]) -> list[str]:
    """Split outside braces."""
    if "{" not in value:
        return separator.split(value)
    parts, depth, begin, at = list[str](), 0, 0, 0
    while at < len(value):
        found = separator.match(value, at) if depth == 0 else None
        if found:
            parts.append(value[begin:at])
            begin = at = found.end()
            continue
        depth = max(0, depth + (value[at] == "{") - (value[at] == "}"))
        at += 1
    return [*parts, value[begin:]]


def _plain(value: str, limit: int) -> str:
    return text.one_line(latex_text.plain(text.one_line(value, limit)), limit)


def _doi_in(url: str) -> str:
    return ids.normal_doi(url) if "doi.org/" in url.lower() else ""


def _arxiv_id(fields: dict[str, str]) -> str:
    kind = (fields.get("archiveprefix") or fields.get("eprinttype") or "").strip("{} ").lower()
    if kind in ("arxiv", ""):
        own = ids.normal_arxiv(fields.get("eprint", "").strip("{} "))
        if own:
            return own
    named = (ids.normal_arxiv(fields.get(f, "").strip("{} ")) for f in ("arxivid", "doi", "url"))
    running = (ids.find_arxiv(fields.get(f, "")) for f in ("journal", "note", "howpublished"))
    return next((i for i in (*named, *running) if i), "")
