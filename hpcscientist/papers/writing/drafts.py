"""Drafts of sections: parses replies, assembles a manuscript, removes sentences with defects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hpcscientist.papers.writing.advice import ABSTRACT, SectionAdvice
from hpcscientist.papers.writing.evidence import FoundPapers
from hpcscientist.records.facts import Fact
from hpcscientist.records.manuscript import (
    Block,
    Citation,
    Defect,
    DefectCode,
    FigureRef,
    FigureUse,
    Inline,
    ItemList,
    Line,
    Manuscript,
    NotRestrictedText,
    PaperScope,
    Paragraph,
    Place,
    Section,
    Support,
    Text,
    parse_blocks,
    parse_line,
    walk,
    written,
)
from hpcscientist.records.writing import SectionReply

_END = re.compile(r"(?<=[.!?])\s+(?=\S)")
_SLACK = 1.5  # factor by which a section may exceed the words that its writer is asked for
_LISTED = 8  # most facts of a section that has no other text
_NOTHING = "No text for this section passed the checks."
_INSTEAD = "The facts that belong here are:"

# Defects of a manuscript as a whole, which one section alone cannot have.
WHOLE = frozenset(
    {
        DefectCode.NOT_TOLD,
        DefectCode.MISSING_SECTION,
        DefectCode.UNCITED_PAPER,
        DefectCode.UNUSED_FIGURE,
    }
)


@dataclass(frozen=True, slots=True)
class FigureOffer:
    """A figure that the paper may use: its id, what it shows, and its default caption.

    `shows` is for the writer only; `caption` is restricted text.
    """

    id: str
    shows: str
    caption: str


@dataclass(frozen=True, slots=True)
class SectionDraft:
    """One section. `refused` are the defects of texts that could not be parsed into blocks."""

    advice: SectionAdvice
    blocks: tuple[Block, ...] = ()
    supports: tuple[Support, ...] = ()
    captions: tuple[FigureUse, ...] = ()
    refused: tuple[Defect, ...] = ()

    def text(self) -> str:
        """Return the section as a model writes it."""
        return "\n\n".join(_written(block) for block in self.blocks)

    def lines(self) -> Iterator[Line]:
        """Return its paragraphs and list items."""
        return _lines(self.blocks)

    def words(self) -> int:
        """Return the number of words; a reference to a fact counts as one."""
        return len(self.text().split())


def read(
    advice: SectionAdvice,
    reply: SectionReply,
    evidence: FoundPapers,
    figures: Mapping[str, FigureOffer],
) -> SectionDraft:
    """Parse a reply into a draft. Texts that are not restricted text become its defects."""
    blocks, supports, refused = list[Block](), list[Support](), list[Defect]()
    for text in reply.paragraphs:
        try:
            found = parse_blocks(text)
        except NotRestrictedText as error:
            refused.append(_defect(error, advice.id, len(blocks) + 1))
            continue
        for block in found:
            done, cited = _resolved(block, evidence)
            blocks.append(done)
            supports += cited
    captions = list[FigureUse]()
    for caption in reply.captions:
        if caption.figure not in figures or any(c.id == caption.figure for c in captions):
            continue
        try:
            line = parse_line(caption.caption)
        except NotRestrictedText as error:
            refused.append(_defect(error, f"figure:{caption.figure}", 1))
            continue
        captions.append(FigureUse(id=caption.figure, caption=line))
    return SectionDraft(
        advice, tuple(blocks), tuple(dict.fromkeys(supports)), tuple(captions), tuple(refused)
    )


def too_long(draft: SectionDraft) -> tuple[Defect, ...]:
    """Return a defect if a section is much longer than it should be."""
    words, most = draft.words(), draft.advice.words
    if words <= _SLACK * most:
        return ()
    place = Place(section=draft.advice.id, paragraph=max(1, len(draft.blocks)))
    fix = f"it has {words} words; write at most {most}, and leave out what repeats"
    return (Defect(code=DefectCode.TOO_LONG, place=place, found=draft.advice.title, fix=fix),)


def assembled(
    title: str,
    drafts: Iterable[SectionDraft],
    figures: Mapping[str, FigureOffer],
    scope: PaperScope,
) -> Manuscript:
    """Return the manuscript of all drafts, including the abstract, in order.

    Its figures are those that the text refers to, in order of reference.
    """
    given = tuple(drafts)
    captions = {use.id: use for draft in given for use in draft.captions}
    named = (
        part.id
        for draft in given
        for line in _lines(draft.blocks)
        for part in walk(line)
        if isinstance(part, FigureRef) and part.id in figures
    )
    used = tuple(
        captions.get(name) or FigureUse(id=name, caption=parse_line(figures[name].caption))
        for name in dict.fromkeys(named)
    )
    return Manuscript(
        title=title,
        abstract=next((d.blocks for d in given if d.advice.id == ABSTRACT), ()),
        sections=tuple(
            Section(id=draft.advice.id, title=draft.advice.title, blocks=draft.blocks)
            for draft in given
            if draft.advice.id != ABSTRACT
        ),
        figures=used,
        supports=tuple(dict.fromkeys(s for draft in given for s in draft.supports)),
        scope=scope,
    )


def own(defects: Iterable[Defect], draft: SectionDraft) -> tuple[Defect, ...]:
    """Return the defects that belong to a section or to its captions."""
    places = {draft.advice.id, *(f"figure:{use.id}" for use in draft.captions)}
    return tuple(defect for defect in defects if defect.place.section in places)


def struck(draft: SectionDraft, defects: Sequence[Defect]) -> SectionDraft:
    """Return a section without the sentences and captions that have these defects.

    Texts that could not be parsed are dropped, too. If no sentence of a paragraph contains what was
    found, the whole paragraph is removed.
    """
    blocks = list[Block]()
    for number, block in enumerate(draft.blocks, 1):
        here = [
            defect.found
            for defect in defects
            if (defect.place.section, defect.place.paragraph) == (draft.advice.id, number)
        ]
        if not here:
            blocks.append(block)
        elif (shorter := _without(block, here)) is not None:
            blocks.append(shorter)
    bad = {d.place.section for d in defects}
    captions = tuple(use for use in draft.captions if f"figure:{use.id}" not in bad)
    return _again(draft, tuple(blocks), captions)


def shortened(draft: SectionDraft) -> SectionDraft:
    """Return a section without its last paragraph."""
    return _again(draft, draft.blocks[:-1], draft.captions)


def listed(advice: SectionAdvice, facts: Sequence[Fact]) -> SectionDraft:
    """Return a section that only lists its facts."""
    items = list[Line]()
    for fact in facts[:_LISTED]:
        try:
            items.append(parse_line(f"{fact.label}: {{{fact.id}}}"))
        except NotRestrictedText:
            continue
    said = f"{_NOTHING} {_INSTEAD}" if items else _NOTHING
    first = Paragraph(parts=(Text(text=said),))
    return SectionDraft(advice, (first, ItemList(items=tuple(items))) if items else (first,))


def added(draft: SectionDraft, text: str) -> SectionDraft:
    """Return a section with a text added at its end."""
    blocks = (*draft.blocks, *parse_blocks(text))
    return SectionDraft(draft.advice, blocks, draft.supports, draft.captions)


def sentences(line: Line) -> tuple[Line, ...]:
    """Return the sentences of a line. A citation after a full stop ends the sentence before it."""
    found, now = list[Line](), list[Inline]()
    for part in line:
        if not isinstance(part, Text):
            now.append(part)
            continue
        if part.text[:1].isspace() and _is_closed(now):
            found.append(tuple(now))
            now = []
        pieces = _END.split(part.text)
        for place, piece in enumerate(pieces):
            if place:
                found.append(tuple(now))
                now = []
            if piece:
                now.append(Text(text=piece))
    if now:
        found.append(tuple(now))
    return tuple(sentence for sentence in found if sentence)


def said(sentence: Iterable[Inline]) -> str:
    """Return a sentence as supports store it: its source with single spaces."""
    return " ".join(written(sentence).split())


def _is_closed(parts: Sequence[Inline]) -> bool:
    """Return whether a sentence has ended: with a full stop and citations after it."""
    words = [part for part in parts if not isinstance(part, Citation)]
    last = words[-1] if words and len(words) < len(parts) else None
    return isinstance(last, Text) and last.text.rstrip().endswith((".", "!", "?"))


def _resolved(block: Block, evidence: FoundPapers) -> tuple[Block, tuple[Support, ...]]:
    supports = list[Support]()

    def of(line: Line) -> Line:
        done = list[Inline]()
        for sentence in sentences(line):
            parts, cited = evidence.resolved(sentence)
            supports.extend(
                Support(paper_id=paper_id, sentence=said(parts), quote=quote)
                for paper_id, quote in cited
            )
            if done:
                done.append(Text(text=" "))
            done += parts
        return tuple(parse_line(written(done)))

    if isinstance(block, Paragraph):
        return Paragraph(parts=of(block.parts)), tuple(supports)
    return ItemList(items=tuple(of(item) for item in block.items)), tuple(supports)


def _without(block: Block, found: Sequence[str]) -> Block | None:
    """Return a block without the sentences that contain a text of `found`; None if none is left."""
    wanted = [" ".join(text.split()) for text in found if text.strip()]
    lines = [block.parts] if isinstance(block, Paragraph) else list(block.items)
    kept = list[Line]()
    for line in lines:
        stay = [s for s in sentences(line) if not any(text in written(s) for text in wanted)]
        if stay:
            kept.append(parse_line(" ".join(written(sentence) for sentence in stay)))
    if not kept or kept == lines:
        return None
    return Paragraph(parts=kept[0]) if isinstance(block, Paragraph) else ItemList(items=tuple(kept))


def _again(
    draft: SectionDraft, blocks: tuple[Block, ...], captions: tuple[FigureUse, ...]
) -> SectionDraft:
    there = {said(sentence) for line in _lines(blocks) for sentence in sentences(line)}
    supports = tuple(support for support in draft.supports if support.sentence in there)
    return SectionDraft(draft.advice, blocks, supports, captions)


def _lines(blocks: Iterable[Block]) -> Iterator[Line]:
    for block in blocks:
        yield from (block.parts,) if isinstance(block, Paragraph) else block.items


def _written(block: Block) -> str:
    if isinstance(block, Paragraph):
        return written(block.parts)
    return "\n".join(f"- {written(item)}" for item in block.items)


def _defect(error: NotRestrictedText, section: str, paragraph: int) -> Defect:
    place = Place(section=section, paragraph=paragraph)
    return Defect(code=error.code, place=place, found=error.found, fix=str(error))
