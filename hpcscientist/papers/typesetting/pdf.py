"""The last check: reads the finished PDF, in which every digit has to be explained.

A digit is explained if it is part of a link to the trace that prints the fact's value, of numbering
that LaTeX makes (pages, headings, captions, citations), of a figure that our own code drew, of the
bibliography, the appendix or the trace, or of a name that may be typed.
"""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from hpcscientist.files.text import one_line, printable
from hpcscientist.literature.sources.pdf.document import pymupdf
from hpcscientist.papers.typesetting.bibliography import CitedEntry
from hpcscientist.papers.typesetting.document import WRITTEN_BY_SOFTWARE, Drawn, PaperDocument
from hpcscientist.papers.typesetting.escape import as_seen, squeezed
from hpcscientist.papers.typesetting.latex import appendix_text
from hpcscientist.records.manuscript import (
    Defect,
    DefectCode,
    Number,
    Place,
    Text,
    lines,
    walk,
)

_EDGE: Final = 0.12  # share of a page's height in which page numbers are printed
_PREFIX: Final = "hpc."
_CAPTION = re.compile(r"(?:Figure|Table)(\d+)[:.]")
_DESTINATION = re.compile(r"figure\.(?:caption\.)?(\d+)")
_ENDING = ".,;:!?()[]“”‘’\"'"


@dataclass(frozen=True, slots=True)
class PdfReading:
    """The result of reading a PDF: its defects, and the counts of digits and explained digits.

    `links` is the number of links to the trace, `pages` the number of pages.
    """

    defects: tuple[Defect, ...]
    digits: int
    explained: int
    links: int
    pages: int

    @property
    def coverage(self) -> float:
        """The share of digits that are explained; 1 if there are no digits."""
        return self.explained / self.digits if self.digits else 1.0


@dataclass(slots=True)
class _Char:
    """One character on a page. `word` is the number of its run of characters without spaces."""

    text: str
    x: float
    y: float
    line: int
    word: int
    explained: bool = False

    @property
    def is_digit(self) -> bool:
        return any(c.isnumeric() for c in self.text)


@dataclass(slots=True)
class _Page:
    number: int
    height: float
    chars: list[_Char]
    links: list[dict[str, Any]]

    def inside(self, box: Any) -> list[_Char]:
        return [c for c in self.chars if box.x0 <= c.x <= box.x1 and box.y0 <= c.y <= box.y1]

    def by_line(self) -> dict[int, list[_Char]]:
        found: dict[int, list[_Char]] = {}
        for char in self.chars:
            found.setdefault(char.line, []).append(char)
        return found


def is_possible() -> bool:
    """Return whether PyMuPDF is installed."""
    return importlib.util.find_spec("pymupdf") is not None


def read(pdf: Path, document: PaperDocument) -> PdfReading:
    """Check a PDF against the document that it was made from; see `is_possible`."""
    with pymupdf().open(pdf) as opened:
        pages = [_page(page) for page in opened]
        places = opened.resolve_names()
        gate = _Gate(document, pages, places)
        gate.explain()
    return gate.reading()


def pages_of_text(aux: str) -> int | None:
    r"""Return the page on which the text before the references ends, according to paper.aux."""
    found = re.search(r"\\newlabel\{hpc-end-of-text\}\{\{[^}]*\}\{(\d+)\}", aux)
    return int(found[1]) if found else None


def _page(page: Any) -> _Page:
    chars: list[_Char] = []
    line = word = 0
    for block in page.get_text("rawdict", flags=0)["blocks"]:
        for row in block.get("lines", ()):
            line, word = line + 1, word + 1
            for span in row["spans"]:
                for char in span["chars"]:
                    x0, y0, x1, y1 = char["bbox"]
                    if char["c"].isspace():
                        word += 1
                    else:
                        chars.append(_Char(char["c"], (x0 + x1) / 2, (y0 + y1) / 2, line, word))
    return _Page(page.number, page.rect.height, chars, page.get_links())


@dataclass
class _Gate:
    document: PaperDocument
    pages: Sequence[_Page]
    places: dict[str, dict[str, Any]]
    defects: list[Defect] = field(default_factory=list)
    links: Counter[str] = field(default_factory=Counter)

    def explain(self) -> None:
        for page in self.pages:
            for link in page.links:
                self._link(page, link)
            self._numbering(page)
            self._names(page)
        self._generated()
        self._unexplained()
        self._whole()

    def reading(self) -> PdfReading:
        digits = [c for page in self.pages for c in page.chars if c.is_digit]
        return PdfReading(
            tuple(self.defects),
            len(digits),
            sum(c.explained for c in digits),
            sum(self.links.values()),
            len(self.pages),
        )

    def _link(self, page: _Page, link: dict[str, Any]) -> None:
        target = str(link.get("nameddest") or link.get("name") or "")
        chars = page.inside(link["from"])
        text = squeezed("".join(c.text for c in chars))
        if target.startswith(f"{_PREFIX}figure."):
            expected = self._letters.get(target.removeprefix(f"{_PREFIX}figure."))
            told = Counter(c for c in text if c.isnumeric())
            if expected is None or told - expected:
                self._forged(page, target, text)
        elif target.startswith(_PREFIX):
            ref = target.removeprefix(_PREFIX)
            known = self.document.numbers.get(ref)
            self.links[ref] += 1
            if known is None or text != as_seen(known.text):
                self._forged(page, target, text)
        elif target.startswith("cite."):
            key = target.removeprefix("cite.")
            if text.strip("[],;()") not in self._marks.get(key, ()):
                self._forged(page, target, text)
        elif found := _DESTINATION.fullmatch(target):
            if text.strip(_ENDING) != found[1]:
                self._forged(page, target, text)
        else:
            return  # a link to the web, to a heading or to nothing explains no digits
        for char in chars:
            char.explained = True

    def _forged(self, page: _Page, target: str, text: str) -> None:
        fix = "write the number as {fact-id}, and nothing else about it"
        self._add(DefectCode.LINK_TEXT, page, f"{text} -> {target}", fix)

    def _numbering(self, page: _Page) -> None:
        """Explain page numbers, section numbers and the labels of captions."""
        edge = _EDGE * page.height
        for chars in page.by_line().values():
            text = squeezed("".join(c.text for c in chars))
            at_edge = chars[0].y < edge or chars[0].y > page.height - edge
            if at_edge and text == str(page.number + 1):
                _explain(chars)
            elif (found := _CAPTION.match(text)) and int(found[1]) <= len(self.document.figures):
                _explain(chars[: found.end()])
            else:
                number = re.match(r"\d+", text)
                if number and self._is_heading(int(number[0]), text[number.end() :]):
                    _explain(chars[: number.end()])

    def _is_heading(self, number: int, title: str) -> bool:
        sections = self.document.manuscript.sections
        if not 1 <= number <= len(sections):
            return False
        known = squeezed(sections[number - 1].title)
        # A long title continues on the next line. Small capitals may be read as capitals.
        return known.casefold().startswith(title.casefold())

    def _names(self, page: _Page) -> None:
        """Explain names with digits that may be typed."""
        allowed = {squeezed(name).strip(_ENDING) for name in self.document.names}
        for chars in _words(page.chars):
            if squeezed("".join(c.text for c in chars)).strip(_ENDING) in allowed:
                _explain(chars)

    def _generated(self) -> None:
        """Explain the digits that our own code wrote: the bibliography, the appendix, the trace.

        The digits have to follow the expected order, so an inserted digit stays unexplained.
        """
        chars = [(page, char) for page in self.pages for char in page.chars]
        references = self._index(chars, "hpc-references")
        again = self._index(chars, "hpc-again")
        if "hpc-references" not in self.places:  # a paper that cites nothing
            references = again
        entries = " ".join(map(_printed, enumerate(self.document.bibliography, 1)))
        for text, here in (
            (entries, chars[references:again]),
            (appendix_text(self.document), chars[max(references, again) :]),
        ):
            digits = [char for _, char in here if char.is_digit and not char.explained]
            _explain_sequence(digits, [c for c in squeezed(text) if c.isnumeric()])

    def _index(self, chars: Sequence[tuple[_Page, _Char]], name: str) -> int:
        """Return the index of the first character after a destination, or past the end if none."""
        found = self.places.get(name)
        if found is not None:
            number, (left, bottom) = int(found["page"]), found["to"]
            top = self.pages[number].height - float(bottom)
            for place, (page, char) in enumerate(chars):
                # With two columns, the second column begins above the end of the first.
                below = page.number > number or (char.y >= top and char.x >= float(left) - 1.0)
                if page.number >= number and below:
                    return place
        return len(chars)

    def _unexplained(self) -> None:
        for page in self.pages:
            for chars in _words(page.chars):
                if any(c.is_digit and not c.explained for c in chars):
                    text = "".join(c.text for c in chars)
                    fix = "name the fact that it is: {fact-id}"
                    self._add(DefectCode.UNTRACED_NUMBER, page, text, fix)

    def _whole(self) -> None:
        """Check that each link appears as often as its number, and the line on authorship."""
        asked = Counter(
            str(part.ref)
            for _, line in lines(self.document.manuscript)
            for part in walk(line)
            if isinstance(part, Number)
        )
        for ref in sorted((asked - self.links).keys()):
            fix = "the layout leaves it out: use another venue"
            self._add(DefectCode.LINK_TEXT, self.pages[0], f"no link to {ref}", fix)
        for ref in sorted((self.links - asked).keys()):
            fix = "the layout prints a number of its own: use another venue"
            self._add(DefectCode.LINK_TEXT, self.pages[0], f"one link to {ref} too many", fix)
        text = squeezed("".join(c.text for page in self.pages[:2] for c in page.chars))
        if squeezed(WRITTEN_BY_SOFTWARE) not in text.replace("-", "") and (
            squeezed(WRITTEN_BY_SOFTWARE) not in text
        ):
            fix = r"print \hpcAuthors in the venue's paper.tex"
            self._add(DefectCode.BUILD_FAILED, self.pages[0], "no line that software wrote it", fix)

    @cached_property
    def _letters(self) -> dict[str, Counter[str]]:
        return {name: digits_of(drawn) for name, drawn in self.document.figures.items()}

    @cached_property
    def _marks(self) -> dict[str, tuple[str, ...]]:
        entries = enumerate(self.document.bibliography, 1)
        return {entry.key: _cited_as(number, entry) for number, entry in entries}

    def _add(self, code: DefectCode, page: _Page, found: str, fix: str) -> None:
        place = self._home(found) or Place(section="layout", paragraph=page.number + 1)
        found = one_line(printable(found), 120)
        self.defects.append(Defect(code=code, place=place, found=found, fix=fix))

    def _home(self, word: str) -> Place | None:
        wanted = _bare(word)
        for place, line in lines(self.document.manuscript):
            for part in walk(line):
                if isinstance(part, Text) and wanted in map(_bare, part.text.split()):
                    return place
        return None


def digits_of(drawn: Drawn) -> Counter[str]:
    """Return the digits that a figure's own file prints."""
    if drawn.pdf is None:
        return Counter()
    with pymupdf().open(drawn.pdf) as opened:
        text = "".join(page.get_text() for page in opened)
    return Counter(c for c in squeezed(text) if c.isnumeric())


def _cited_as(number: int, entry: CitedEntry) -> tuple[str, ...]:
    """Return the forms in which LaTeX may print a citation: its number or its year."""
    year = str(entry.paper.year or "")
    return (str(number), year) if year else (str(number),)


def _printed(numbered: tuple[int, CitedEntry]) -> str:
    number, entry = numbered
    return f"[{number}] {entry.text}"


def _bare(word: str) -> str:
    return squeezed(word).strip(_ENDING)


def _words(chars: Iterable[_Char]) -> Iterator[list[_Char]]:
    word: list[_Char] = []
    for char in chars:
        if word and word[-1].word != char.word:
            yield word
            word = []
        word.append(char)
    if word:
        yield word


def _explain(chars: Iterable[_Char]) -> None:
    for char in chars:
        char.explained = True


def _explain_sequence(digits: Sequence[_Char], expected: Sequence[str]) -> None:
    """Explain the digits that match the expected sequence."""
    seen = [squeezed(char.text) for char in digits]
    if seen == list(expected):
        _explain(digits)
        return
    matcher = SequenceMatcher(None, seen, list(expected), autojunk=False)
    for block in matcher.get_matching_blocks():
        _explain(digits[block.a : block.a + block.size])
