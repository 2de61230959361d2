"""Reads BibTeX and BibLaTeX one entry at a time, so that a file may have any length.

A file is cut at lines that begin an entry, so damage affects only its own entry. Fields are read
as people write them: without a comma between two, with comments, with a brace or quotation mark
too many or too few. bibtexparser would read such a field as part of the one before, and its
middlewares treat a percent sign as a comment, so this module has its own parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hpcscientist.literature.sources import ids, lines, text
from hpcscientist.literature.sources import tex as latex_text
from hpcscientist.literature.sources.base import Item, Trouble, trouble
from hpcscientist.records.literature import Paper

_BEGIN = re.compile(r"\s*@\s*[A-Za-z][\w-]*\s*[{(]")
_ENTRY = re.compile(r"@\s*([A-Za-z][\w-]*)\s*([{(])")
_KEY = re.compile(r"\s*([^\s,={}\"%][^,={}\"\n]*?)?\s*(?:,|(?=[\n})])|$)")
_BETWEEN = re.compile(r"(?:[\s,;]|%[^\n]*)*")
_FIELD = re.compile(r"([^\s=,{}\"#()%]++)\s*+=\s*")
_BARE = re.compile(r"[^\s,#{}\"()%]++(?:[ \t]++[^\s,#{}\"()=%]++(?!\s*=))*")
_CONTINUES = re.compile(r"\s*+(?:[,#})%@]|[^\s=,{}\"#()%]++\s*+=)")
_JOIN = re.compile(r"\s*#\s*")
_JUNK = re.compile(r"[^\s,{}()]+|.", re.DOTALL)
_OPENED = re.compile(r"[,\n]\s*[A-Za-z][\w-]*\s*=\s*$")
_NEXT_FIELD = re.compile(r"[,\n]\s*[A-Za-z][\w-]*\s*=\s*(?=[\w{\"])")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_BRACE_OR_QUOTE = re.compile(r"\\.|[{}\"]", re.DOTALL)
_ENTRY_CHARACTERS = 2**20
_VALUE_CHARACTERS = 100_000
_STRINGS = 10_000
_CUTS = 20  # unclosed values of one entry that are cut at the next field
_HELD = 10_000  # entries that wait for their volume, and known volumes, each
_VENUES = (
    "journal",
    "journaltitle",
    "booktitle",
    "publisher",
    "school",
    "institution",
    "howpublished",
)
_AND = re.compile(r"(?:^| )and(?= |$)", re.IGNORECASE)
_COMMA, _AMPERSAND = re.compile(r","), re.compile(r"\s\\?&\s")
_INITIALS = re.compile(r"(?:[A-Z]\.[\s~-]*)+|[A-Z]{1,3}")
_BODY = re.compile(r"\b(?:of|for|the)\b", re.IGNORECASE)  # in names of institutions
_JUNIOR = re.compile(r"(?:[JS]r|[IVX]+|Ph\.? ?D|M\.? ?D)\.?", re.IGNORECASE)
_ET_AL = re.compile(r"(?:^|,? )et\.? al\.?\s*$")
_NAME_PARTS = ("given", "prefix", "family", "suffix")
_INHERITED = ("year", "date", "booktitle", "journal", "journaltitle", "publisher")


@dataclass(slots=True)
class BibEntry:
    """An entry as written, without delimiters; field names are in lower case."""

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


def entries_of(source: str, origin: str = "") -> Iterator[BibEntry | Trouble]:
    """Yield the entries in a text."""
    numbered = (lines.TextLine(n, 0, t) for n, t in enumerate(source.split("\n"), 1))
    return entries(numbered, origin)


def entries(found: Iterable[lines.TextLine | Trouble], origin: str) -> Iterator[BibEntry | Trouble]:
    """Yield the entries in lines.

    An entry that names a volume in `crossref` is yielded after it and inherits its year and venue.
    """
    strings: dict[str, str] = {}
    volumes: dict[str, dict[str, str]] = {}
    waiting: dict[str, list[BibEntry]] = {}
    held = 0
    for piece in _pieces(found, origin):
        for item in [piece] if isinstance(piece, Trouble) else _parsed(*piece, origin, strings):
            if isinstance(item, Trouble):
                yield item
                continue
            volume = item.fields.get("crossref", "").lower()
            if volume and volume not in volumes and held < _HELD:
                waiting.setdefault(volume, []).append(item)
                held += 1
                continue
            _inherit(item, volumes.get(volume, {}))
            yield item
            if len(volumes) < _HELD and item.key:
                volumes.setdefault(item.key.lower(), _of_volume(item))
            for child in waiting.pop(item.key.lower(), []):
                _inherit(child, _of_volume(item))
                held -= 1
                yield child
    for children in waiting.values():
        yield from children


def _of_volume(volume: BibEntry) -> dict[str, str]:
    """Return the fields that papers inherit from their volume."""
    kept = {name: volume.fields[name] for name in _INHERITED if name in volume.fields}
    if "title" in volume.fields:
        kept.setdefault("booktitle", volume.fields["title"])
    return kept


def _inherit(entry: BibEntry, fields: dict[str, str]) -> None:
    for name, value in fields.items():
        entry.fields.setdefault(name, value)


def _pieces(
    found: Iterable[lines.TextLine | Trouble], origin: str
) -> Iterator[tuple[int, str] | Trouble]:
    first, held, size = 0, list[str](), 0
    for line in found:
        if isinstance(line, Trouble):
            yield line
            continue
        written = line.text.replace("\r", "\n").replace("\ufeff", "")  # concatenated files have it
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
) -> Iterator[BibEntry | Trouble]:
    at = counted = 0
    while begin := _ENTRY.search(source, at):
        first += source.count("\n", counted, begin.start())
        kind, line, counted = begin[1].lower(), first, begin.start()
        at = begin.end()
        if kind in ("comment", "preamble"):
            at = _closed(source, at - 1, _BRACE) or at
            continue
        reader = _Fields(source, at, ")" if begin[2] == "(" else "}", strings)
        entry = BibEntry("" if kind == "string" else reader.key(), kind, line)
        for name, value in reader.fields():
            if kind != "string":
                entry.fields.setdefault(name, value)
            elif len(strings) < _STRINGS:
                strings[name] = value[: text.ABSTRACT_CHARACTERS]
        at = reader.at
        if reader.problem:
            yield trouble(f"{origin}:{line}", f"damaged entry: {reader.problem}")
        if kind != "string" and (entry.fields or not reader.problem):
            yield entry


class _Fields:
    """Parser for the key and fields of one entry; `at` is its position in the source.

    `problem` describes damage in the entry; the other fields are still read.
    """

    def __init__(self, source: str, at: int, closing: str, strings: dict[str, str]) -> None:
        self.at, self.problem, self._cuts = at, "", 0
        self._source, self._closing, self._strings = source, closing, strings

    def key(self) -> str:
        """Return the key; "" if there is none."""
        found = _KEY.match(self._source, self.at)
        self.at = found.end() if found else self.at
        return (found[1] or "").strip() if found else ""

    def fields(self) -> Iterator[tuple[str, str]]:
        """Yield the fields up to the entry's end."""
        while True:
            self.at = _end_of(_BETWEEN, self._source, self.at)
            if self.at >= len(self._source):
                self.problem = self.problem or "it is not closed"
                return
            name = _FIELD.match(self._source, self.at)
            if name:
                value = self._value(name.end())
                if value is not None:
                    yield name[1].lower(), value[:_VALUE_CHARACTERS]
            elif self._source[self.at] in (self._closing, "}"):
                self.at += 1
                # A surplus brace would end the entry early: go on if more fields follow.
                more = _NEXT_FIELD.match(self._source, self.at)
                if not more:
                    return
                self.problem = "a brace too many"
            elif self._source[self.at] == "@":
                self.problem = self.problem or "it is not closed"
                return
            else:
                junk = _JUNK.match(self._source, self.at)
                self.at = junk.end() if junk else self.at + 1

    def _value(self, at: int) -> str | None:
        """Return the value at `at`, with parts joined by `#`; None if it is never closed."""
        parts: list[str] = []
        while True:
            mark = self._source[at : at + 1]
            if mark and mark in '{"':
                end = self._delimited(at, mark)
                if end is None:
                    return None
                parts.append(self._source[at + 1 : end - 1])
            else:
                end = _end_of(_BARE, self._source, at)
                word = self._source[at:end]
                parts.append(self._strings.get(word.lower(), word))
            joined = _JOIN.match(self._source, end)
            self.at = end
            if not joined or joined.end() >= len(self._source):
                return "".join(parts)
            at = joined.end()

    def _delimited(self, at: int, mark: str) -> int | None:
        """Return where a value in braces or quotation marks ends; None if that is unknown."""
        end = _closed(self._source, at, _BRACE if mark == "{" else _BRACE_OR_QUOTE)
        took_more = (
            mark == '"' and end and _OPENED.search(self._source, max(at, end - 100), end - 1)
        )
        if end and not took_more and _CONTINUES.match(self._source, end):
            return end
        self._cuts += 1
        last = len(self._source) if end is None else end
        following = _NEXT_FIELD.search(self._source, at + 1, last) if self._cuts < _CUTS else None
        if following is None:
            self.at = last
            return end
        self.problem = "a brace or a quotation mark is missing"
        inside = self._source[at : following.start()].rstrip()
        return at + len(inside) + (inside[-1] not in '}"')


def _end_of(pattern: re.Pattern[str], source: str, at: int) -> int:
    found = pattern.match(source, at)
    return found.end() if found else at


def _closed(source: str, at: int, pattern: re.Pattern[str]) -> int | None:
    """Return the end of the value opened at `at`; None if it is not closed.

    Escaped braces count only if the value is not closed otherwise.
    """
    closing = "}" if pattern is _BRACE else '"'
    for escapes in (True, False):
        depth = 0
        for found in pattern.finditer(source, at):
            mark = found.group() if escapes else found.group()[-1]
            depth += (mark == "{") - (mark == "}")
            if found.start() > at and depth <= 0 and mark == closing:
                return found.end()
    return None


def paper_of(entry: BibEntry, origin: str) -> Paper | None:
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
    """Return the names in an author field, each as "First von Last Jr"."""
    value = " ".join(value[:_VALUE_CHARACTERS].split())
    people = _split(value, _AND)
    if len(people) == 1 and ";" in value:  # as some search engines export names
        people = _split(value, re.compile(r";"))
    people = [one for n in people[: text.AUTHORS] for one in _listed(_ET_AL.sub("", n))]
    names = (_plain(_ordered(n), 200) for n in people[: text.AUTHORS])
    return tuple(n for n in names if n and n.lower() != "others")


def _listed(name: str) -> list[str]:
    """Return the names in what BibTeX takes for one: "Ann Bee, Carl Dee," or "Bee, A. & Dee, C.".

    A name has at most three parts between commas, and of those the second is "Jr". Institutions may
    have more, and an ampersand: "Department of Health & Human Services".
    """
    if _BODY.search(name):
        return [name]
    sides = _split(name, _AMPERSAND)
    if len(sides) > 1 and all("," in side or len(side.split()) > 1 for side in sides):
        return [one for side in sides for one in _listed(side)]
    parts = [part.strip() for part in _split(name, _COMMA)]
    most = 2 if parts[-1] else 1
    parts = [part for part in parts if part]
    if len(parts) > 3 and all(_INITIALS.fullmatch(part) for part in parts[1::2]):
        return [", ".join(parts[n : n + 2]) for n in range(0, len(parts), 2)]
    several = all(len(part.split()) > 1 and not _JUNIOR.fullmatch(part) for part in parts)
    return parts if len(parts) > most and several and "=" not in name else [name]


def _ordered(name: str) -> str:
    """Return "von Last, First" and "von Last, Jr, First" with the first name in front."""
    parts = [p.strip() for p in _split(name, _COMMA)]
    labelled = dict(p.split("=", 1) for p in parts if "=" in p)
    if len(labelled) == len(parts):  # BibLaTeX's `family=Bee, given=Ann`
        return " ".join(labelled[p] for p in _NAME_PARTS if p in labelled)
    return " ".join(p for p in [*parts[1:][-1:], parts[0], *parts[1:-1]] if p)


def _split(value: str, separator: re.Pattern[str]) -> list[str]:
    """Return the parts of a value, split at separators outside braces."""
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
    bare = text.without_markup(text.one_line(value, limit))
    return text.one_line(latex_text.plain(bare), limit)


def _doi_in(url: str) -> str:
    return ids.normal_doi(url) if "doi.org/" in url.lower() else ""


def _arxiv_id(fields: dict[str, str]) -> str:
    kind = (fields.get("archiveprefix") or fields.get("eprinttype") or "").strip("{} ").lower()
    if kind in ("arxiv", ""):
        own = ids.normal_arxiv(fields.get("eprint", "").strip("{} "))
        if own:
            return own
    texts = [fields.get(f, "").strip("{} ") for f in ("arxivid", "doi", "url")]
    if "corr" in fields.get("journal", "").lower():  # DBLP's older entries
        texts.append(fields.get("volume", "").strip("{} ").removeprefix("abs/"))
    named = map(ids.normal_arxiv, texts)
    running = (ids.find_arxiv(fields.get(f, "")) for f in ("journal", "note", "howpublished"))
    return next((i for i in (*named, *running) if i), "")
