"""Manuscripts: text without numbers, parsed from what a model wrote, and the defects found in it.

A model writes restricted text: one string per paragraph, or lines that begin with "- " for a list.
`*words*` are emphasised, `{fact-id}` and `{op(a, b)}` print a number, `[@paper-id]` and
`[@a; @b]` cite papers, `[#figure-id]` refers to a figure. There is no LaTeX and no HTML.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from hpcscientist.records.base import LONGEST_PROSE, Record
from hpcscientist.records.facts import BadReference, Reference, parse_reference

_FIGURE_ID = r"[A-Za-z][A-Za-z0-9_.\-]*"
_PAPER_ID = r"[^\s\[\]{};@]+"
_CITATION = re.compile(rf"\[@({_PAPER_ID}(?:\s*;\s*@{_PAPER_ID})*)\]")
_FIGURE = re.compile(rf"\[#({_FIGURE_ID})\]")
_HTML = re.compile(r"<[A-Za-z/!?]|&#?[A-Za-z0-9]+;")
_ITEM = re.compile(r"^- +", re.MULTILINE)


class Text(Record):
    """Plain words."""

    kind: Literal["text"] = "text"
    text: str

    def __str__(self) -> str:
        """Return the restricted text."""
        return self.text


class Number(Record):
    """A number: a fact, or a formula over facts."""

    kind: Literal["number"] = "number"
    ref: Reference

    def __str__(self) -> str:
        """Return the restricted text."""
        return f"{{{self.ref}}}"


class Citation(Record):
    """A citation of papers of the library, by their ids."""

    kind: Literal["citation"] = "citation"
    papers: tuple[str, ...] = Field(min_length=1)

    def __str__(self) -> str:
        """Return the restricted text."""
        return f"[{'; '.join(f'@{paper}' for paper in self.papers)}]"


class FigureRef(Record):
    """A reference to a figure or table of the manuscript, by its id."""

    kind: Literal["figure"] = "figure"
    id: str = Field(pattern=rf"^{_FIGURE_ID}$")

    def __str__(self) -> str:
        """Return the restricted text."""
        return f"[#{self.id}]"


class Emphasis(Record):
    """Emphasised words, which may include numbers, citations and references."""

    kind: Literal["emphasis"] = "emphasis"
    parts: tuple[Annotated[Text | Number | Citation | FigureRef, Field(discriminator="kind")], ...]

    def __str__(self) -> str:
        """Return the restricted text."""
        return f"*{written(self.parts)}*"


Inline = Annotated[Text | Emphasis | Number | Citation | FigureRef, Field(discriminator="kind")]
Line = tuple[Inline, ...]


class Paragraph(Record):
    """A paragraph."""

    kind: Literal["paragraph"] = "paragraph"
    parts: Line


class ItemList(Record):
    """An unnumbered list."""

    kind: Literal["list"] = "list"
    items: tuple[Line, ...] = Field(min_length=1)


Block = Annotated[Paragraph | ItemList, Field(discriminator="kind")]


class Section(Record):
    """A section. Its title is plain words."""

    id: str = Field(pattern=rf"^{_FIGURE_ID}$")
    title: str = Field(min_length=1)
    blocks: tuple[Block, ...]


class FigureUse(Record):
    """A figure or table that the package draws, with its caption.

    `alt` is the alternative text for people who cannot see it, in plain words.
    """

    id: str = Field(pattern=rf"^{_FIGURE_ID}$")
    caption: Line
    alt: str = ""


class Support(Record):
    """Why a paper is cited: the manuscript's sentence, and the paper's words that support it."""

    paper_id: str
    sentence: str
    quote: str


class PaperScope(Record):
    """The subject of a manuscript: some ideas, or the whole campaign if `ideas` is empty."""

    campaign_id: str
    ideas: tuple[str, ...] = ()


class Manuscript(Record):
    """`manuscript.json`: a manuscript before it is typeset."""

    version: Literal[1] = 1
    title: str = Field(min_length=1)
    abstract: tuple[Block, ...]
    sections: tuple[Section, ...]
    figures: tuple[FigureUse, ...] = ()
    supports: tuple[Support, ...] = ()
    scope: PaperScope


class DefectCode(StrEnum):
    """The kind of a defect of a manuscript."""

    SYNTAX = "syntax"  # not restricted text
    HIDDEN_CHARACTER = "hidden_character"  # invisible, or not what it looks like
    TYPED_NUMBER = "typed_number"
    UNKNOWN_FACT = "unknown_fact"
    BAD_FORMULA = "bad_formula"  # of facts that cannot be combined
    WRONG_IDEA = "wrong_idea"
    WRONG_RUN = "wrong_run"  # another run of the idea than the sentence says
    WRONG_SPLIT = "wrong_split"
    WRONG_METRIC = "wrong_metric"
    WRONG_STATISTIC = "wrong_statistic"
    WRONG_UNIT = "wrong_unit"
    WRONG_SIGN = "wrong_sign"
    WRONG_COUNT = "wrong_count"  # an n that belongs to something else, or seeds for trials
    UNCONFIRMED = "unconfirmed"  # a claim of success without a confirmed claim of that scope
    CONTRADICTED = "contradicted"  # the record says otherwise
    BEYOND_EVIDENCE = "beyond_evidence"  # something that no experiment of a campaign can show
    NOT_TOLD = "not_told"  # failed runs, ideas tried, the correction for them
    FOREIGN_SETUP = "foreign_setup"  # a published number without the setup that it was measured in
    UNKNOWN_PAPER = "unknown_paper"
    UNSUPPORTED_CITATION = "unsupported_citation"
    UNCITED_PAPER = "uncited_paper"
    UNKNOWN_FIGURE = "unknown_figure"
    UNUSED_FIGURE = "unused_figure"
    CHANGED_EVIDENCE = "changed_evidence"  # a result, the journal or a claim has changed
    # Defects of the finished document.
    BUILD_FAILED = "build_failed"
    UNDEFINED_REFERENCE = "undefined_reference"
    OVERFULL_BOX = "overfull_box"
    MISSING_FIGURE = "missing_figure"
    PAGE_COUNT = "page_count"
    UNTRACED_NUMBER = "untraced_number"  # a digit of the PDF that no fact explains
    LINK_TEXT = "link_text"  # a link whose text is not its value
    # Deviations from what the writer was asked for.
    MISSING_SECTION = "missing_section"
    TOO_LONG = "too_long"
    CHECKLIST = "checklist"


class Place(Record):
    """A place in a manuscript. `section` is "title", "abstract", a section's id or "figure:ID";
    `paragraph` counts from 1.
    """

    section: str
    paragraph: int = Field(default=1, ge=1)

    def __str__(self) -> str:
        """Return the place in words."""
        return f"{self.section}, paragraph {self.paragraph}"


class Defect(Record):
    """One defect. `found` is the defective text; `fix` says in one line what to write instead."""

    code: DefectCode
    place: Place
    found: str
    fix: str

    def __str__(self) -> str:
        """Return one line for people and for the next prompt."""
        return f"{self.place}: {self.code}: {self.found!r}: {self.fix}"


class NotRestrictedText(ValueError):
    """A text is not restricted text; `code` is the kind of defect, `found` the defective text."""

    def __init__(self, code: DefectCode, found: str, why: str) -> None:
        self.code, self.found = code, found
        super().__init__(why)


def parse_line(text: str) -> Line:
    """Parse one paragraph, item or caption. Raises NotRestrictedText."""
    if len(text) > LONGEST_PROSE:
        raise NotRestrictedText(
            DefectCode.TOO_LONG, text[:40], f"longer than {LONGEST_PROSE} characters; split it"
        )
    refuse_hidden(text)
    joined = unicodedata.normalize("NFC", " ".join(text.split()))
    return tuple(_parts(joined, emphasis=True))


def parse_blocks(text: str) -> tuple[Block, ...]:
    """Parse paragraphs and lists, separated by blank lines. Raises NotRestrictedText."""
    blocks: list[Block] = []
    for chunk in re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n")):
        if not (chunk := chunk.strip()):
            continue
        before, *items = _ITEM.split(chunk)
        if before.strip():
            blocks.append(Paragraph(parts=parse_line(before)))
        if items:
            blocks.append(ItemList(items=tuple(map(parse_line, items))))
    return tuple(blocks)


def written(parts: Iterable[Inline]) -> str:
    """Return parts as restricted text, the inverse of `parse_line`."""
    return "".join(map(str, parts))


def walk(parts: Iterable[Inline]) -> Iterator[Text | Number | Citation | FigureRef]:
    """Yield all parts in order, including those within emphasis."""
    for part in parts:
        if isinstance(part, Emphasis):
            yield from part.parts
        else:
            yield part


def lines(manuscript: Manuscript) -> Iterator[tuple[Place, Line]]:
    """Yield all text of a manuscript: titles, abstract, paragraphs, items, captions, alt."""

    def of_blocks(section: str, blocks: Iterable[Block]) -> Iterator[tuple[Place, Line]]:
        for number, block in enumerate(blocks, 1):
            place = Place(section=section, paragraph=number)
            for line in (block.parts,) if isinstance(block, Paragraph) else block.items:
                yield place, line

    yield Place(section="title"), (Text(text=manuscript.title),)
    yield from of_blocks("abstract", manuscript.abstract)
    for section in manuscript.sections:
        yield Place(section=section.id), (Text(text=section.title),)
        yield from of_blocks(section.id, section.blocks)
    for figure in manuscript.figures:
        place = Place(section=f"figure:{figure.id}")
        yield place, figure.caption
        if figure.alt:
            yield place, (Text(text=figure.alt),)


# All other characters of category C (control, format, surrogate, private), line and paragraph
# separators, variation selectors and these fillers count as hidden.
_ALLOWED_WHITE: Final = " \n\t"
_FILLERS: Final = "\ufffc\ufffd\u034f\u115f\u1160\u17b4\u17b5\u180e\u3164\uffa0\u2800\u00ad"


def refuse_hidden(text: str) -> None:
    """Raise NotRestrictedText if a character is invisible or changes the look of others."""
    for character in text:
        if character in _ALLOWED_WHITE:
            continue
        category = unicodedata.category(character)
        variation = 0xFE00 <= ord(character) <= 0xFE0F or 0xE0100 <= ord(character) <= 0xE01EF
        if category[0] == "C" or category in ("Zl", "Zp") or character in _FILLERS or variation:
            raise NotRestrictedText(
                DefectCode.HIDDEN_CHARACTER,
                f"U+{ord(character):04X}",
                "an invisible character; remove it",
            )


def _parts(text: str, *, emphasis: bool) -> Iterator[Inline]:
    start = at = 0
    while at < len(text):
        part, end = _special(text, at, emphasis)
        if part is None:
            at += 1
            continue
        if start < at:
            yield _text(text[start:at])
        yield part
        start = at = end
    if start < len(text):
        yield _text(text[start:])


def _special(text: str, at: int, emphasis: bool) -> tuple[Inline | None, int]:
    """Return the part that begins at a character, and its end; None for plain words."""
    character, excerpt = text[at], text[at : at + 40]
    if character == "{":
        return _number(text, at)
    if character == "*":
        end = text.find("*", at + 1)
        if not emphasis or end < 0 or end == at + 1:
            raise _syntax(excerpt, "emphasis is `*words*`, and holds no other; remove the asterisk")
        inner = tuple(_parts(text[at + 1 : end], emphasis=False))
        return Emphasis(parts=inner), end + 1  # type: ignore[arg-type]  # no emphasis among them
    if character == "[":
        if cited := _CITATION.match(text, at):
            papers = (paper.strip().removeprefix("@") for paper in cited[1].split(";"))
            return Citation(papers=tuple(papers)), cited.end()
        if figure := _FIGURE.match(text, at):
            return FigureRef(id=figure[1]), figure.end()
        raise _syntax(excerpt, "brackets hold `[@paper-id]` or `[#figure-id]`; write parentheses")
    if character in "]}":
        raise _syntax(excerpt, f"{character!r} closes nothing; remove it")
    return None, at


def _number(text: str, at: int) -> tuple[Inline, int]:
    end, excerpt = text.find("}", at), text[at : at + 40]
    if end < 0:
        raise _syntax(excerpt, "a brace that is not closed: write `{fact-id}`")
    try:
        return Number(ref=parse_reference(text[at + 1 : end])), end + 1
    except BadReference as error:
        raise _syntax(text[at : end + 1][:80], str(error)) from error


def _text(text: str) -> Text:
    for character in "\\$^~`":
        if character in text:
            at = text.index(character)
            raise _syntax(
                text[max(0, at - 10) : at + 30], f"{character!r} is LaTeX; write plain words"
            )
    if html := _HTML.search(text):
        raise _syntax(text[html.start() : html.start() + 40], "HTML; write plain words")
    return Text(text=text)


def _syntax(found: str, why: str) -> NotRestrictedText:
    return NotRestrictedText(DefectCode.SYNTAX, found, why)
