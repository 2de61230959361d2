"""Turns a document's pieces, in reading order, into sections, formulas and references."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from hpcscientist.literature.sources.pdf import headings
from hpcscientist.literature.sources.pdf.lines import (
    SIGNS,
    PageLine,
    Piece,
    Spelled,
    first_sentence,
    fixed,
    goes_on,
    last_sentence,
    plain,
)
from hpcscientist.records.literature import Formula, Section

# Recognising the rows of a displayed formula.

_NUMBERED_LINE = re.compile(r"\(\d+(?:\.\d+)*[a-z]?\)$", re.MULTILINE)
# A relation or a large operator; every formula has one.
_RELATION = re.compile(f"[{SIGNS.partition('⊗')[0]}]")
_OPERATOR = re.compile(r"((?<= )[=<>≤≥≈≡≅∼≃≠≪≫∝∈∉⊂⊆⊃→↦⇒⇔←≔]|(?<=[\w)\]}|] )[−±×·∘⊗⊕∪∩])(?=[^\s=])")
_NUMBER = re.compile(r"[(\[](?:[A-Z]\.?)?\d+(?:\.\d+)*[a-z]?[)\]]$")
_WORD = re.compile(r"[^\W\d_]{3,}")
_FUNCTIONS = (
    "sin cos tan sinh cosh tanh exp log max min sup inf lim det dim ker deg gcd arg argmax argmin "
    "softmax sigmoid relu gelu erf tr diag sgn sign rank span var cov mean std for all and with "
    "where otherwise subject such that mod bmod limsup liminf attention concat norm layernorm kl "
    "elbo mse loss head multihead ffn softplus"
)
_UPRIGHT = frozenset(_FUNCTIONS.split())
_BULLETS = "•◦▪▫‣●○■□–—∗*"
_PROSE = 0.4  # share of letters in words, above which a row is prose
_FRAGMENT = 40  # characters
_FORMULA = 400
MOST_PROSE_WORDS = 4


def may_have_formula(text: str, signs: str) -> bool:
    """Return whether lines contain a sign that only formulas have. Fast, as most lines have none.

    `signs` are the signs that occur in the document.
    """
    for sign in signs:
        if sign in text:
            return True
    return (text[-1:] == ")" or ")\n" in text) and _NUMBERED_LINE.search(text) is not None


def is_formula(row: PageLine, left: int) -> bool:
    """Return whether a row is a formula by itself; `left` is the column's edge.

    A formula has a relation or a large operator, few words, and is indented or numbered.
    """
    text = row.text
    if len(text) > _FORMULA or _RELATION.search(text) is None or prose(text) > _PROSE:
        return False
    return row.x0 - left > row.size or _NUMBER.search(text) is not None


def is_fragment(row: PageLine) -> bool:
    """Return whether a row may belong to an adjacent formula: limits, denominator, number."""
    text = row.text
    if len(text) > _FRAGMENT or text[0] in _BULLETS:
        return False
    return prose(text) <= _PROSE if row.math else prose(text) == 0


def prose(text: str) -> float:
    """Return the share of a row's characters that are in words; 1.0 if it has many words."""
    words = [w for w in _WORD.findall(text) if w.lower() not in _UPRIGHT]
    if len(words) > MOST_PROSE_WORDS:
        return 1.0
    return sum(map(len, words)) / max(1, len(text) - text.count(" "))


def formula_text(rows: list[PageLine]) -> str:
    """Return the rows of a formula as one line.

    MuPDF reports no gap after a symbol, so a blank is restored after an operator that has one
    before it.
    """
    return _OPERATOR.sub(r"\1 ", " ".join(row.text for row in rows))


def is_numbered(text: str) -> bool:
    """Return whether a row ends with a formula's number."""
    return _NUMBER.search(text) is not None


SMALLER = 0.93  # times the body's size: footnotes, captions, text in figures
FORMULAS = 2_000
_CONTENTS = re.compile(r"[\s.]\d{1,3}$")
_TWO_LETTERS = re.compile(r"[^\W\d_]{2}")
_EXPLAINS = ("where ", "with ", "here ", "wobei ", "où ", "donde ")


@dataclass(slots=True)
class BodyPart:
    """A heading and the text below it. `asides` are captions and footnotes."""

    heading: str
    name: str
    page: int = 0
    first: bool = False  # numbered as the first section
    paragraphs: list[str] = field(default_factory=list)
    asides: list[str] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)  # of a list of references only

    @property
    def text(self) -> str:
        """The paragraphs, then the asides, separated by empty lines."""
        return "\n\n".join([*self.paragraphs, *self.asides])


@dataclass(slots=True)
class Body:
    """The content of a document. The first part is everything before the first heading."""

    parts: list[BodyPart]
    formulas: list[Formula]


def body_type(pieces: Sequence[Piece]) -> tuple[int, bool]:
    """Return the font size of running text, and whether it is bold."""
    sizes: Counter[tuple[int, bool]] = Counter()
    for piece in pieces:
        for row in piece.rows:
            sizes[row.size, row.bold] += len(row.text)
    return sizes.most_common(1)[0][0] if sizes else (0, False)


class BodyReading:
    """Builds parts and formulas in one pass over the pieces."""

    def __init__(self, size: int, bold: bool, spelled: Spelled) -> None:
        self._size, self._bold, self._spelled = size, bold, spelled
        self.parts = [BodyPart("", "")]
        self.formulas: list[Formula] = []
        self._formula: list[PageLine] = []
        self._context = ""
        self._after_formula = False  # a paragraph after a formula is not joined with the last one

    def read(self, pieces: Sequence[Piece]) -> Body:
        """Read the pieces and return the body."""
        for piece in pieces:
            if self.parts[-1].name in headings.REFERENCES:
                self._reference(piece)
            else:
                self._piece(piece)
        self._end_formula()
        return Body(self.parts, self.formulas)

    def _piece(self, piece: Piece) -> None:
        rows, size = piece.rows, self._size
        text = "\n".join([row.text for row in rows])
        maybe = may_have_formula(text, self._spelled.signs)
        if not maybe and len(rows) > 2:
            for row in rows:
                if row.bold or row.math or not -2 < row.size - size < 2:
                    break
            else:  # running text: the fast path for most pieces
                self._paragraph(rows, text)
                return
        self._rows(piece, maybe or bool(self._formula) or any(row.math for row in rows))

    def _rows(self, piece: Piece, maybe: bool) -> None:
        """Read rows one by one; `maybe` if some may be formulas."""
        rows, at, start = piece.rows, 0, 0
        while at < len(rows):
            count = headings.heading_rows(piece, at, self._size, self._bold)
            if count:
                self._paragraph(rows[start:at])
                self._heading(rows[at : at + count], piece.page)
                at = start = at + count
                if self.parts[-1].name in headings.REFERENCES:
                    if at < len(rows):
                        self._reference(Piece(rows[at:], piece.page, piece.left, piece.right))
                    return
            elif maybe and self._of_formula(rows[at], piece):
                if start < at:
                    self._paragraph(rows[start:at])
                self._add_to_formula(rows[at], piece.left)
                at = start = at + 1
            else:
                at += 1
        self._paragraph(rows[start:])

    def _of_formula(self, row: PageLine, piece: Piece) -> bool:
        if row.size < self._size * SMALLER and not self._formula:
            return False
        if is_formula(row, piece.left):
            return True
        if self._formula:
            last = self._formula[-1]
            near = row.y0 - last.y1 < 2 * self._size and row.y1 > last.y0 - 2 * self._size
            return near and is_fragment(row)
        return row.math and row.x0 - piece.left > row.size and is_fragment(row)

    def _add_to_formula(self, row: PageLine, left: int) -> None:
        """Add a row to the current formula, or begin a new one if that has its number already."""
        numbered = any(is_numbered(r.text) for r in self._formula)
        if numbered and row.y0 >= max(r.y1 for r in self._formula) and is_formula(row, left):
            self._end_formula()
        self._formula.append(row)

    def _heading(self, rows: list[PageLine], page: int) -> None:
        self._end_formula()
        text = fixed("\n".join(row.text for row in rows), self._spelled)
        first = headings.is_first(text)
        self.parts.append(
            BodyPart(headings.heading_text(text), headings.bare_name(text), page, first)
        )
        self._after_formula = False
        self._context = ""

    def _paragraph(self, rows: list[PageLine], lines: str = "") -> None:
        if not rows:
            return
        self._end_formula()
        part = self.parts[-1]
        text = fixed(lines or "\n".join([row.text for row in rows]), self._spelled)
        small = rows[0].size < self._size * SMALLER and part.name not in headings.ABSTRACTS
        if (small and part is not self.parts[0]) or headings.is_caption(text):
            if _TWO_LETTERS.search(text):  # leaves out the numbers on a figure's axes
                part.asides.append(text)
            return
        if self._after_formula and text[:6].lower().startswith(_EXPLAINS):
            self._explain(text)
        before = "" if self._after_formula or not part.paragraphs else part.paragraphs[-1]
        if goes_on(before, text):
            text = part.paragraphs[-1] = fixed(f"{before}\n{text}", self._spelled)
        else:
            part.paragraphs.append(text)
        self._after_formula = False
        self._context = text

    def _explain(self, text: str) -> None:
        last = self.formulas[-1]
        context = f"{last.context} {first_sentence(text)}".strip()
        self.formulas[-1] = last.model_copy(update={"context": context})

    def _end_formula(self) -> None:
        rows, self._formula = self._formula, []
        if not rows:
            return
        text = plain(formula_text(rows))
        part = self.parts[-1]
        if may_have_formula(text, self._spelled.signs) and len(self.formulas) < FORMULAS:
            context = last_sentence(self._context)
            self.formulas.append(Formula(text=text, section=part.heading, context=context))
            self._after_formula = True
        part.paragraphs.append(text)

    def _reference(self, piece: Piece) -> None:
        rows = piece.rows
        for at, row in enumerate(rows):
            larger = row.size > self._size * headings.LARGER
            if (larger or row.bold) and not self._bold:
                count = headings.heading_rows(piece, at, self._size, False)
                if count and (larger or headings.heading_text(row.text) != row.text):
                    if at:
                        self._keep_reference(rows[:at], piece)
                    self._rows(Piece(rows[at:], piece.page, piece.left, piece.right), True)
                    return
        self._keep_reference(rows, piece)

    def _keep_reference(self, rows: list[PageLine], piece: Piece) -> None:
        self.parts[-1].pieces.append(Piece(rows, piece.page, piece.left, piece.right))


def sections(parts: Sequence[BodyPart]) -> tuple[Section, ...]:
    """Return parts as sections; headings without text from a table of contents are left out."""
    return tuple(
        Section(heading=part.heading, text=text)
        for part in parts
        if (text := part.text) or (part.heading and not _CONTENTS.search(part.heading))
    )


# Splitting the list of references into entries.

_BRACKETS = re.compile(
    r"\[(?:\d{1,4}|[A-Za-z][\w+&.: -]{0,30}\d{2,4}[a-z]?|[A-Za-z+]{1,6}\d{2,4}[a-z]?)\]\s*"
)
_LABEL = re.compile(r"\(?(\d{1,4})[.)]?\s+(?=\D)")
_SHARE = 0.15  # of rows that must be indented for indents to separate entries
_ENTRY = 2_000
_SHORTEST = 8


def entries(pieces: list[Piece], spelled: Spelled) -> list[str]:
    """Return the entries as printed, without their labels.

    Labels in brackets or ascending numbers separate entries, if the first entry has one; else
    hanging indents do; else each block is one entry.
    """
    starts = _by_labels(pieces) or _by_numbers(pieces) or _by_indents(pieces)
    found: list[list[PageLine]] = []
    current: list[PageLine] = []
    for index, piece in enumerate(pieces):
        for at, row in enumerate(piece.rows):
            begins = (index, at) in starts if starts else at == 0
            if begins and current:
                found.append(current)
                current = []
            current.append(row)
    found.append(current)
    texts = (
        fixed("\n".join([row.text for row in rows]), spelled)[:_ENTRY] for rows in found if rows
    )
    return [text for text in map(_without_label, texts) if len(text) >= _SHORTEST]


Starts = set[tuple[int, int]]


def _by_labels(pieces: list[Piece]) -> Starts:
    if not _BRACKETS.match(pieces[0].rows[0].text):
        return set()
    return {
        (index, at)
        for index, piece in enumerate(pieces)
        for at, row in enumerate(piece.rows)
        if row.text[0] == "[" and _BRACKETS.match(row.text)
    }


def _by_numbers(pieces: list[Piece]) -> Starts:
    found: Starts = set()
    expected = 1
    for index, piece in enumerate(pieces):
        for at, row in enumerate(piece.rows):
            number = _LABEL.match(row.text)
            if number and int(number.group(1)) == expected:
                found.add((index, at))
                expected += 1
            elif not found:
                return found
    return found if expected > 2 else set()


def _by_indents(pieces: list[Piece]) -> Starts:
    edges: dict[tuple[int, int], int] = {}
    for piece in pieces:
        place = (piece.page, piece.left)
        edges[place] = min([edges.get(place, piece.right), *(row.x0 for row in piece.rows)])
    found: Starts = set()
    total = 0
    for index, piece in enumerate(pieces):
        edge = edges[piece.page, piece.left]
        for at, row in enumerate(piece.rows):
            total += 1
            if row.x0 - edge < row.size / 2:
                found.add((index, at))
    return found if len(found) <= (1 - _SHARE) * total else set()


def _without_label(entry: str) -> str:
    label = _BRACKETS.match(entry) or _LABEL.match(entry)
    return entry[label.end() :].strip() if label else entry.strip()
