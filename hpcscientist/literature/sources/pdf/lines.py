"""Puts the lines of pages in reading order, without repeated lines and with columns separated.

Repeated lines ("furniture") are page headers, footers, page numbers and line numbers. A page has
two columns if much of its text stays in the left half and much in the right. Text across both
columns cuts the page into bands; within a band the left column is read first.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from hpcscientist.literature.sources.pdf.document import Row, Sheet

# The lines on a PDF's pages: position, size and font.

_BOLD = re.compile(r"bold|black|heavy|semib|demi|medi\b|cmbx|cmssbx|sfbx|lmroman\w*-bold", re.I)
_MATH = re.compile(
    r"^(?:cm(?:mi|sy|ex|bsy|mib)|ms[ab]m|euf|eus|eur[mb]|rsfs|lmmath|mt(?:mi|sy|ex)|tx(?:sy|ex|mia?)|"
    r"px(?:sy|ex|mia?)|fourier-math|stmary|wasy|esint|bbm|dsrom|(?:rm)?tmi|libertinust1math|zptmcm)"
    r"|math|symbol",
    re.I,
)


@dataclass(slots=True)
class PageLine:
    """A line of text, in eighths of a point from the page's top left; `size` is the font's."""

    x0: int
    y0: int
    x1: int
    y1: int
    size: int
    bold: bool
    italic: bool
    math: bool  # begins in a font of mathematics
    text: str


Block = list[PageLine]  # lines that belong together, as MuPDF sees it


@dataclass(slots=True)
class PageText:
    """The text of a page. `sideways` are the lines that run up or down its margin."""

    height: int
    blocks: list[Block] = field(default_factory=list)
    sideways: list[str] = field(default_factory=list)

    @property
    def characters(self) -> int:
        """The number of characters in its blocks."""
        return sum([len(line.text) for block in self.blocks for line in block])


def page_text(sheet: Sheet) -> PageText:
    """Return the lines of a page, with blocks in the order of the file."""
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
            PageLine(
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
    """Return whether a font is bold, and whether it is for mathematics, by its name."""
    bare = name.partition("+")[2] or name  # subsets are named ABCDEF+Font
    return bool(_BOLD.search(bare)), bool(_MATH.search(bare))


_MARGIN = 0.1  # of the page's height, at the top and at the bottom
_COLUMN_SHARE = 0.2  # of a page's characters, in each column
_LAST_COLUMN = 0.02  # the same if most pages have columns: the last page's may be short
_COLUMN_WIDTH = 0.25  # of the text's width: narrower lines say nothing about columns
_NUMBERED_LINES = 20  # this many numbers below each other are line numbers
_PAGE_NUMBER = re.compile(
    r"\W*(?:page\s*|p\.\s*)?(?:\d{1,4}|[ivxl]{1,6})(?:\s*(?:of|/|von|de)\s*\d{1,4})?\W*", re.I
)
_DIGITS = re.compile(r"\d+")


@dataclass(slots=True)
class Piece:
    """Adjacent rows in one column; `left` and `right` are the column's edges."""

    rows: list[PageLine]
    page: int
    left: int
    right: int


def read_order(pages: Sequence[PageText]) -> list[Piece]:
    """Return the pieces of the pages in reading order. The pages' blocks are used up."""
    margins = [list(_margins(page)) for page in pages]
    repeated = _repeated(margins)
    kept = [
        _without_line_numbers(_without_furniture(page, lines, repeated))
        for page, lines in zip(pages, margins, strict=True)
    ]
    if not any(kept):  # all pages repeat the same text
        kept = [page.blocks for page in pages]
    edges = [_edges(blocks) if blocks else (0, 0) for blocks in kept]
    shares = [_column_share(blocks, *sides) for blocks, sides in zip(kept, edges, strict=True)]
    usual = 2 * sum(share >= _COLUMN_SHARE for share in shares) >= len(pages)
    least = _LAST_COLUMN if usual else _COLUMN_SHARE
    pieces: list[Piece] = []
    for number, (blocks, sides, share) in enumerate(zip(kept, edges, shares, strict=True)):
        pieces += _ordered(blocks, number, *sides, has_columns=share >= least)
    return pieces


def _repeated(margins: Sequence[Sequence[PageLine]]) -> set[str]:
    seen: Counter[str] = Counter()
    for lines in margins:
        seen.update({_key(line.text) for line in lines})
    return {key for key, count in seen.items() if count > 1}


def _margins(page: PageText) -> Iterator[PageLine]:
    top, bottom = page.height * _MARGIN, page.height * (1 - _MARGIN)
    for block in page.blocks:
        if block[0].y0 < top or block[-1].y1 > bottom:
            yield from (line for line in block if line.y1 < top or line.y0 > bottom)


def _key(text: str) -> str:
    return _DIGITS.sub("#", text).strip().lower()


def _without_furniture(
    page: PageText, margins: Sequence[PageLine], repeated: set[str]
) -> list[Block]:
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
    """Return blocks without the line numbers of manuscripts for review."""
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
    """Return the share of a page's characters in the smaller of its two columns.

    `left` and `right` are the edges of the page's text.
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
    """Return the blocks of each column ("L", "R"), and those that span both ("S").

    A block with lines in both columns and none across is split in two: the file has it row by row.
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
        across = min(middle - x0, x1 - middle) > 4 * slack  # else a line only sticks out
        sides["S" if across else "L" if x0 + x1 < 2 * middle else "R"].append(block)
    return sides


def _edges(blocks: list[Block]) -> tuple[int, int]:
    lines = [line for block in blocks for line in block]
    return min([line.x0 for line in lines]), max([line.x1 for line in lines])


def _banded(left: list[Piece], right: list[Piece], across: list[Piece]) -> list[Piece]:
    """Return pieces band by band; each of the three lists is ordered from the top."""
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


def rows(block: Block) -> list[PageLine]:
    """Return a block's rows from the top, with rows that MuPDF split at gaps joined again."""
    made: list[PageLine] = []
    for line in block:
        last = made[-1] if made else None
        if last is None or line.x0 < last.x1 - 8 or not _same_row(last, line):
            made.append(line)
            continue
        text = f"{last.text} {line.text}"
        longer = line if len(line.text) > len(last.text) else last
        made[-1] = PageLine(
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


def _same_row(one: PageLine, other: PageLine) -> bool:
    overlap = min(one.y1, other.y1) - max(one.y0, other.y0)
    return 2 * overlap > min(one.y1 - one.y0, other.y1 - other.y0)


# Joining lines to running text: hyphenated words are rejoined, letters made plain.

# Relations and operators that do not occur in prose.
SIGNS = "=<>≤≥≈≡≅∼≃≠≪≫∝∈∉⊂⊆⊃→↦⇒⇔←≔∑∏∫∮∂∇√⊗⊕∘∪∩∀∃∥±×·"

# Characters that differ only in their look: a hyphen, ligatures, mathematical alphabets.
_LOOKS = re.compile("[\u2010\ufb00-\ufb06\U0001d400-\U0001d7ff]")
# Debris of fonts without Unicode: control characters, and private-use code points.
_MEANINGLESS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\ud800-\uf8ff\ufeff\ufffd]+"
)
_PARTED = re.compile("[-\u2010\u00ad]\n")
_PLAIN = bytes([*range(32, 127), 10])  # printable ASCII, and the ends of lines
_OPENING = "([{\"'“‘«„/"
_FIRST_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+(?=[\w(\[\"“])")
_OPEN_ENDS = ".!?:;。！？…"
_CONTEXT = 400  # characters
_PARAGRAPH = 10_000  # longer text is no paragraph, and extending it would copy it each time


def plain(text: str) -> str:
    """Return a line with ligatures and mathematical letters made plain, and debris removed."""
    if not text.isprintable():
        text = _MEANINGLESS.sub("", text)
    if text.isascii():
        return text
    return _LOOKS.sub(lambda found: unicodedata.normalize("NFKC", found.group()), text)


@dataclass(frozen=True, slots=True)
class Spelled:
    """Facts about a document's text: its hyphenated words, and the mathematical signs in it.

    `odd` if it has characters that `plain` changes.
    """

    compounds: frozenset[str] = frozenset()
    signs: str = ""
    odd: bool = True

    @classmethod
    def of(cls, text: str) -> Spelled:
        """Return the facts about the lines of a document."""
        data = text.encode("utf-8", "surrogatepass").translate(None, _PLAIN)
        rare = data.decode("utf-8", "surrogatepass")
        signs = [sign for sign in SIGNS if sign in (text if sign.isascii() else rare)]
        odd = _LOOKS.search(rare) is not None or not rare.isprintable()
        return cls(_compounds(text), "".join(signs), odd)


def _compounds(text: str) -> frozenset[str]:
    found, first_word = set(), _FIRST_WORD.match
    parts = text.split("-")
    before = parts[0]
    for after in parts[1:]:
        if after[:1].islower():
            word, rest = _last_word(before), first_word(after)
            if word and rest:
                found.add(f"{word}-{rest.group()}")
        before = after
    return frozenset(found)


def fixed(text: str, spelled: Spelled) -> str:
    """Return the lines of a paragraph as one line.

    A hyphen at a line's end is dropped, unless the document has the hyphenated word elsewhere or
    the word has another hyphen.
    """
    if "-\n" in text or (spelled.odd and _PARTED.search(text)):
        parts = _PARTED.split(text) if spelled.odd else text.split("-\n")
        made = [parts[0]]
        for part in parts[1:]:
            made += [_between(made[-1], part, spelled), part]
        text = "".join(made)
    text = text.replace("\n", " ")
    return plain(text) if spelled.odd else text


def _last_word(text: str) -> str:
    """Return the last word of a text, with its hyphens."""
    word = text[text.rfind(" ") + 1 :]
    if "\n" in word:
        word = word[word.rfind("\n") + 1 :]
    return word.lstrip(_OPENING)


def _between(before: str, after: str, spelled: Spelled) -> str:
    found = _FIRST_WORD.match(after)
    word, rest = _last_word(before), found.group() if found else ""
    if not rest or not word or not word[-1].isalnum():
        return "-" if rest else "- "
    keeps = "-" in word or not rest[0].islower() or word[-1].isdigit()
    return "-" if keeps or f"{word}-{rest}" in spelled.compounds else ""


def goes_on(before: str, after: str) -> bool:
    """Return whether a paragraph continues the one before it, across a column or page end."""
    if not before or not after or before[-1] in _OPEN_ENDS or len(before) > _PARAGRAPH:
        return False
    return after[0].islower() or before[-1] in "-\u2010\u00ad,"


def last_sentence(text: str) -> str:
    """Return the last sentence of a paragraph, at most _CONTEXT characters of it."""
    tail = text[-2 * _CONTEXT :]
    return _SENTENCE.split(tail)[-1].strip()[-_CONTEXT:]


def first_sentence(text: str) -> str:
    """Return the first sentence of a paragraph."""
    return _SENTENCE.split(text[: 2 * _CONTEXT], maxsplit=1)[0].strip()[:_CONTEXT]
