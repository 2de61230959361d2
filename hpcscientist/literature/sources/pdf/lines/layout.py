"""From the lines of pages to the order in which people read them: furniture out, columns apart.

Furniture is what every page repeats: header lines, footers, page numbers, numbered lines. A page
has two columns where much of its text keeps to the left half and much to the right. What spans
both cuts the page into bands; in a band the left column is read first.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hpcscientist.literature.sources.pdf.lines.pages import Block, Line, PageText

_MARGIN = 0.1  # of the page's height, at the top and at the bottom
_COLUMN_SHARE = 0.2  # of a page's characters, in each column
_LAST_COLUMN = 0.02  # the same where most pages have columns: the last one's may be short
_COLUMN_WIDTH = 0.25  # of the text's width: what is narrower says nothing about columns
_NUMBERED_LINES = 20  # so many numbers below each other count lines
_PAGE_NUMBER = re.compile(
    r"\W*(?:page\s*|p\.\s*)?(?:\d{1,4}|[ivxl]{1,6})(?:\s*(?:of|/|von|de)\s*\d{1,4})?\W*", re.I
)
_DIGITS = re.compile(r"\d+")


@dataclass(slots=True)
class Piece:
    """Rows that stand together in one column, `left` and `right` being the column's edges."""

    rows: list[Line]
    page: int
    left: int
    right: int


def read_order(pages: Sequence[PageText]) -> list[Piece]:
    """Return what the pages say in reading order. Their blocks are used up."""
    margins = [list(_margins(page)) for page in pages]
    repeated = _repeated(margins)
    kept = [
        _without_line_numbers(_without_furniture(page, lines, repeated))
        for page, lines in zip(pages, margins, strict=True)
    ]
    if not any(kept):  # pages that say the same, and nothing else
        kept = [page.blocks for page in pages]
    edges = [_edges(blocks) if blocks else (0, 0) for blocks in kept]
    shares = [_column_share(blocks, *sides) for blocks, sides in zip(kept, edges, strict=True)]
    usual = 2 * sum(share >= _COLUMN_SHARE for share in shares) >= len(pages)
    least = _LAST_COLUMN if usual else _COLUMN_SHARE
    pieces: list[Piece] = []
    for number, (blocks, sides, share) in enumerate(zip(kept, edges, shares, strict=True)):
        pieces += _ordered(blocks, number, *sides, has_columns=share >= least)
    return pieces


def _repeated(margins: Sequence[Sequence[Line]]) -> set[str]:
    seen: Counter[str] = Counter()
    for lines in margins:
        seen.update({_key(line.text) for line in lines})
    return {key for key, count in seen.items() if count > 1}


def _margins(page: PageText) -> Iterator[Line]:
    top, bottom = page.height * _MARGIN, page.height * (1 - _MARGIN)
    for block in page.blocks:
        if block[0].y0 < top or block[-1].y1 > bottom:
            yield from (line for line in block if line.y1 < top or line.y0 > bottom)


def _key(text: str) -> str:
    return _DIGITS.sub("#", text).strip().lower()


def _without_furniture(page: PageText, margins: Sequence[Line], repeated: set[str]) -> list[Block]:
    dropped = {
        id(line)
        for line in margins
        if _key(line.text) in repeated or _PAGE_NUMBER.fullmatch(line.text)
    }
    if not dropped:
        return page.blocks
    kept = ([line for line in block if id(line) not in dropped] for block in page.blocks)
    return [block for block in kept if block]


def _without_line_numbers(blocks: list[Block]) -> list[Block]:
    """Leave out the numbers that manuscripts for review have beside their lines."""
    numbers = [x.x1 // 8 for block in blocks for x in block if x.text.isdigit()]
    if len(numbers) < _NUMBERED_LINES:
        return blocks
    places = Counter(numbers)
    counting = {place for place, count in places.items() if count >= _NUMBERED_LINES}
    if not counting:
        return blocks
    kept = (
        [x for x in block if not (x.text.isdigit() and x.x1 // 8 in counting)] for block in blocks
    )
    return [block for block in kept if block]


def _ordered(
    blocks: list[Block], page: int, left: int, right: int, has_columns: bool
) -> list[Piece]:
    middle, slack = (left + right) // 2, (right - left) // 50
    if not has_columns:
        pieces = [Piece(rows(block), page, left, right) for block in blocks]
        pieces.sort(key=lambda piece: piece.rows[0].y0)
        return pieces
    sides = _sides(blocks, middle, slack)
    made = {}
    for side, of in sides.items():
        x0, x1 = _edges(of) if of and side != "S" else (left, right)
        made[side] = [Piece(rows(block), page, x0, x1) for block in of]
        made[side].sort(key=lambda piece: piece.rows[0].y0)
    return _banded(made["L"], made["R"], made["S"])


def _column_share(blocks: list[Block], left: int, right: int) -> float:
    """Return the share of a page's characters that the lesser of two columns has.

    `left` and `right` are the edges of its text.
    """
    if not blocks:
        return 0.0
    middle, slack = (left + right) // 2, (right - left) // 50
    inner, outer = middle + slack, middle - slack
    wide = (right - left) * _COLUMN_WIDTH
    total = on_left = on_right = 0
    for block in blocks:
        for line in block:
            x0, x1, length = line.x0, line.x1, len(line.text)
            total += length
            if x1 - x0 > wide:
                if x1 <= inner:
                    on_left += length
                elif x0 >= outer:
                    on_right += length
    return min(on_left, on_right) / total


def _sides(blocks: list[Block], middle: int, slack: int) -> dict[str, list[Block]]:
    """Return the blocks of each column, and those that span both ("S").

    A block whose lines lie in both columns, none across, is two: the file has it row by row.
    """
    sides: dict[str, list[Block]] = {"L": [], "R": [], "S": []}
    for block in blocks:
        x0, x1 = min([line.x0 for line in block]), max([line.x1 for line in block])
        if x1 <= middle + slack or x0 >= middle - slack:
            sides["L" if x1 <= middle + slack else "R"].append(block)
            continue
        by_side: dict[str, Block] = defaultdict(list)
        for line in block:
            if line.x1 <= middle + slack:
                by_side["L"].append(line)
            elif line.x0 >= middle - slack:
                by_side["R"].append(line)
            else:
                by_side["S"].append(line)
        if "S" not in by_side:
            for side, lines in by_side.items():
                sides[side].append(lines)
            continue
        across = min(middle - x0, x1 - middle) > 4 * slack  # else a line that juts out
        sides["S" if across else "L" if x0 + x1 < 2 * middle else "R"].append(block)
    return sides


def _edges(blocks: list[Block]) -> tuple[int, int]:
    lines = [line for block in blocks for line in block]
    return min([line.x0 for line in lines]), max([line.x1 for line in lines])


def _banded(left: list[Piece], right: list[Piece], across: list[Piece]) -> list[Piece]:
    """Return pieces, each list ordered from the top, band by band."""
    ordered: list[Piece] = []
    i = j = 0
    for piece in across:
        top = piece.rows[0].y0
        start_i, start_j = i, j
        while i < len(left) and left[i].rows[0].y0 < top:
            i += 1
        while j < len(right) and right[j].rows[0].y0 < top:
            j += 1
        ordered += [*left[start_i:i], *right[start_j:j], piece]
    return [*ordered, *left[i:], *right[j:]]


def rows(block: Block) -> list[Line]:
    """Return a block's rows from the top: MuPDF parts a row where there is a gap in it."""
    made: list[Line] = []
    for line in block:
        last = made[-1] if made else None
        if last is None or line.x0 < last.x1 - 8 or not _same_row(last, line):
            made.append(line)
            continue
        text = f"{last.text} {line.text}"
        longer = line if len(line.text) > len(last.text) else last
        made[-1] = Line(
            last.x0,
            min(last.y0, line.y0),
            line.x1,
            max(last.y1, line.y1),
            longer.size,
            last.bold and line.bold,
            last.italic and line.italic,
            last.math or line.math,
            text,
        )
    return made


def _same_row(one: Line, other: Line) -> bool:
    overlap = min(one.y1, other.y1) - max(one.y0, other.y0)
    return 2 * overlap > min(one.y1 - one.y0, other.y1 - other.y0)
