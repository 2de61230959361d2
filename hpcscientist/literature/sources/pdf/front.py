"""Finds the front matter of a paper: title, authors, abstract, ids and year."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.literature.sources import ids
from hpcscientist.literature.sources.pdf import headings
from hpcscientist.literature.sources.pdf.body import BodyPart, body_type
from hpcscientist.literature.sources.pdf.lines import PageLine, Piece, Spelled, fixed, plain
from hpcscientist.literature.sources.text import ABSTRACT_CHARACTERS, TITLE_CHARACTERS, one_line

_INSANE = re.compile(
    r"(?:untitled|title|no title|document\s*\d*|paper|manuscript|article|template.*|slide \d+|"
    r"microsoft word.*|powerpoint.*|graphics produced by.*|\(.*\)|.*->.*|(?:/|[a-z]:\\).*|"
    r".*\.(?:docx?|tex|dvi|pdf|e?ps|rtf|odt|indd|qxd|jpe?g|png|tiff?|svg|wmf|ai|cdr)|\S{0,3}|"
    r"[\W\d_]*)",
    re.I | re.DOTALL,
)
_LOGO = re.compile(
    r"(?:arxiv|preprint|journal|proceedings|volume|vol\.|issn|doi)\b|https?:|www\.", re.I
)
_PLACE = re.compile(
    r"\b(?:universit|institut|department|dept\b|laborator|labs?\b|school|college|academy|centre|"
    r"center|research|inc\b|corp|gmbh|ltd|faculty|hospital|fakultät|google|microsoft|deepmind|meta\b|"
    r"abstract|draft|dated|published|submitted|received|version|conference|workshop|collaboration|"
    r"street|avenue|usa|china|germany|france|japan|canada|italy|spain|india)",
    re.I,
)
_MARKS = re.compile(r"[\d*∗†‡§¶‖⋆♯#✉⁰-₉¹²³]+(?:\s*,\s*[\d*∗†‡§¶‖]+)*")
_NAME = re.compile(
    r"[^\W\d_][\w'’.\-]*(?:\s+(?:(?:van|von|der|den|de|da|di|del|della|dos|la|le|el|bin|al|ten|zu)|"
    r"[^\W\d_a-z][\w'’.\-]*)){1,5}"
)
_AND = re.compile(r"\s*(?:,\s*and|,|;|·|•|\||\band\b|\bund\b|\bet\b|&)\s+|\s{3,}")
_AUTHOR_ROWS = 60
_NOTHING = Spelled()
_TITLE_ROWS = 8


@dataclass(frozen=True, slots=True)
class Named:
    """A title and its rows on page 1 as (piece, row) numbers; none if it is only in metadata."""

    title: str
    rows: tuple[tuple[int, int], ...] = ()


def sane(text: object) -> str:
    """Return a title or author from metadata; "" if no person would have written it."""
    told = plain(one_line(text, TITLE_CHARACTERS)).strip()
    return "" if _INSANE.fullmatch(told) or "\ufffd" in told else told


def find_title(pieces: Sequence[Piece], metadata: object) -> Named:
    """Return the title: the largest type on page 1, in the metadata's spelling if that matches.

    `pieces` are those of page 1. If no type is larger than the usual one of the page, the title
    comes from metadata, or else it is the first line, which then stays in the text too.
    """
    told = sane(metadata)
    wanted = ids.normal_title(told)
    best: list[tuple[int, int]] = []
    for group in _groups(pieces):
        if len(group) > _TITLE_ROWS:
            continue
        text = _text(pieces, group)
        if wanted and ids.normal_title(text) == wanted:
            return Named(told, tuple(group))
        if not best and _may_be_title(text):
            best = group
    if not best:
        return Named(told)
    row = pieces[best[0][0]].rows[best[0][1]]
    size, bold = body_type(pieces)
    if row.size <= size and row.bold == bold:
        return Named(told or _text(pieces, best[:1])[:TITLE_CHARACTERS])
    return Named(_text(pieces, best)[:TITLE_CHARACTERS], tuple(best))


def _text(pieces: Sequence[Piece], group: Sequence[tuple[int, int]]) -> str:
    text = fixed("\n".join([pieces[p].rows[r].text for p, r in group]), _NOTHING)
    return text.rstrip(" ∗*†‡§¶")  # footnote marks


def _groups(pieces: Sequence[Piece]) -> list[list[tuple[int, int]]]:
    """Return groups of adjacent rows in the same type, largest type first; at most ten."""
    groups: list[list[tuple[int, int]]] = []
    last: PageLine | None = None
    for p, piece in enumerate(pieces):
        for r, row in enumerate(piece.rows):
            near = (
                last is not None
                and abs(row.size - last.size) <= 1
                and row.bold == last.bold
                and row.y0 - last.y1 < 1.2 * row.size
                and row.y0 > last.y0
            )
            if near:
                groups[-1].append((p, r))
            else:
                groups.append([(p, r)])
            last = row
    groups.sort(key=lambda group: -pieces[group[0][0]].rows[group[0][1]].size)
    return groups[:10]


def _may_be_title(text: str) -> bool:
    letters = sum(c.isalpha() for c in text)
    if letters < 3 or len(text) > 400 or _LOGO.match(text):
        return False
    wide = any(ord(c) > 0x2E7F for c in text)  # scripts in which a character is a word
    return wide or letters >= 6


def find_authors(rows: Sequence[PageLine], metadata: object) -> tuple[str, ...]:
    """Return the authors: from metadata if sane, else from the rows of names below the title."""
    told = _names(sane(metadata))
    if told:
        return told
    found: list[str] = []
    size = 0
    for row in rows[:_AUTHOR_ROWS]:
        if headings.RUN_IN_ABSTRACT.match(row.text) or headings.ends_front(row.text):
            break
        names = _names(_MARKS.sub(" , ", plain(row.text)))
        if names and (not size or abs(row.size - size) <= 1):
            size = row.size
            found += names
    return tuple(dict.fromkeys(found))


def _names(text: str) -> tuple[str, ...]:
    """Return the names in a row; none if it contains anything else."""
    if "@" in text or _PLACE.search(text):
        return ()
    parts = [part.strip(" ,;.∗*") for part in _AND.split(text)]
    parts = [part for part in parts if part]
    if not parts or not all(_NAME.fullmatch(part) for part in parts):
        return ()
    return tuple(parts)


def with_front(parts: list[BodyPart]) -> list[BodyPart]:
    """Return parts with all front matter in the first: authors in large type are not headings."""
    ends = (
        k
        for k, part in enumerate(parts)
        if k and part.page < 2 and (part.first or part.name in headings.ABSTRACTS)
    )
    end = next(ends, 0)
    if not end:
        end = 1
        while end < len(parts) and parts[end].page == 0 and _is_byline(parts[end].heading):
            end += 1
    front = parts[0]
    for part in parts[1:end]:
        front.paragraphs += [part.heading, *part.paragraphs, *part.asides]
    return [front, *parts[end:]]


def _is_byline(text: str) -> bool:
    return "@" in text or _PLACE.search(text) is not None or bool(_names(_MARKS.sub(" , ", text)))


def find_abstract(parts: list[BodyPart]) -> tuple[str, list[BodyPart]]:
    """Return the abstract, and the parts that are the paper's sections.

    The abstract has a heading, or begins with the word "abstract" (in several languages), or is
    the first long paragraph before the first heading.
    """
    rest = [p for p in parts[1:] if p.name not in headings.ASIDES and not p.pieces]
    for part in rest[:4]:
        if part.name in headings.ABSTRACTS:
            rest.remove(part)
            return _until_keywords(part.paragraphs), rest
    first = parts[0]
    for number, text in enumerate(first.paragraphs):
        found = headings.RUN_IN_ABSTRACT.match(text)
        if found:
            return _until_keywords([text[found.end() :], *first.paragraphs[number + 1 :]]), rest
    if rest:
        for text in first.paragraphs:
            if len(text) >= 200 and _is_prose(text):
                return text[:ABSTRACT_CHARACTERS], rest
        return "", rest
    return "", [first, *rest]


def _is_prose(text: str) -> bool:
    words = text.split()
    return len(words) > 25 and 2 * sum(word[0].islower() for word in words) > len(words)


def _until_keywords(paragraphs: Sequence[str]) -> str:
    kept: list[str] = []
    for text in paragraphs:
        found = headings.RUN_IN_KEYWORDS.search(text)
        if found and (found.start() == 0 or text[: found.start()].rstrip()[-1:] == "."):
            kept.append(text[: found.start()].rstrip())
            break
        kept.append(text)
    return "\n\n".join(text for text in kept if text)[:ABSTRACT_CHARACTERS]


# Ids and year: from page 1, the stamp in its margin, and the name of the file.

_YEAR = re.compile(r"\b(?:19[5-9]|20[0-4])\d\b")
_PUBLISHED = re.compile(
    r"©|\(c\)|copyright|published|conference|proceedings|accepted|dated|preprint|submitted|"
    r"workshop|\bvol(?:ume)?\b|(?-i:\b[A-Z]{3,}[’'\s]*$)",
    re.I,
)
_STAMP_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_DOI_SAID = re.compile(r"(?:doi(?:\.org/|\s*:?\s*|/))\s*(10\.\d{4,9}/[^\s\"<>]+)", re.I)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """A paper's ids and year from page 1, the stamp in its margin and the name of the file."""

    doi: str
    arxiv_id: str
    year: int | None


def find_ids(path: Path, first: str, stamps: Sequence[str]) -> FrontMatter:
    """Return ids and year. `first` is page 1 as text, `stamps` its sideways lines.

    Only an arXiv id in the stamp or the file's name is surely the paper's own; one in the text may
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
    return FrontMatter(doi, arxiv, year)


def _published(first: str) -> int | None:
    """Return the first year on page 1 that is marked as the year of publication."""
    for found in _YEAR.finditer(first):
        begin = max(first.rfind("\n", 0, found.start()), found.start() - 80, 0)
        if _PUBLISHED.search(first[begin : found.start()]):
            return int(found.group())
    return None
