"""The lines of type on a PDF's pages: where they stand, how large they are and in which font."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from hpcscientist.literature.sources.pdf.document import Row, Sheet

_BOLD = re.compile(r"bold|black|heavy|semib|demi|medi\b|cmbx|cmssbx|sfbx|lmroman\w*-bold", re.I)
_MATH = re.compile(
    r"^(?:cm(?:mi|sy|ex|bsy|mib)|ms[ab]m|euf|eus|eur[mb]|rsfs|lmmath|mt(?:mi|sy|ex)|tx(?:sy|ex|mia?)|"
    r"px(?:sy|ex|mia?)|fourier-math|stmary|wasy|esint|bbm|dsrom|(?:rm)?tmi|libertinust1math|zptmcm)"
    r"|math|symbol",
    re.I,
)


@dataclass(slots=True)
class Line:
    """A line of type. Eighths of a point from the top left of the page; `size` is the font's."""

    x0: int
    y0: int
    x1: int
    y1: int
    size: int
    bold: bool
    italic: bool
    math: bool  # begins in a font of mathematics
    text: str


Block = list[Line]  # lines that belong together, as MuPDF sees it


@dataclass(slots=True)
class PageText:
    """What a page says. `sideways` are the lines that run up or down its margin."""

    height: int
    blocks: list[Block] = field(default_factory=list)
    sideways: list[str] = field(default_factory=list)

    @property
    def characters(self) -> int:
        """How many characters its lines have."""
        return sum([len(line.text) for block in self.blocks for line in block])


def page_text(sheet: Sheet) -> PageText:
    """Return the lines of a page, blocks in the order in which the file has them."""
    found = PageText(height=sheet.height)
    for block in sheet.blocks:
        lines = _lines(block.lines, found.sideways)
        if lines:
            found.blocks.append(lines)
    return found


def _lines(found: Sequence[Row], sideways: list[str]) -> Block:
    block: Block = []
    for row in found:
        text = row.text.strip()
        if not text:
            continue
        box, font = row.bbox, row.font
        x, y, width, height = box.x, box.y, box.w, box.h
        if height > 2 * width and len(text) > 3 and height > 3 * font.size:
            sideways.append(text)
            continue
        bold, math = _style(font.name)
        block.append(
            Line(
                x,
                y,
                x + width,
                y + height,
                font.size,
                bold or font.weight == "bold",
                font.style == "italic",
                math,
                text,
            )
        )
    return block


@lru_cache(maxsize=4096)
def _style(name: str) -> tuple[bool, bool]:
    """Return whether a font's name says bold, and whether it says mathematics."""
    bare = name.partition("+")[2] or name  # subsets are named ABCDEF+Font
    return bool(_BOLD.search(bare)), bool(_MATH.search(bare))
