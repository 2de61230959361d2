"""Type on the pages of a PDF, as TeX sets it: justified lines, kerned words, embedded fonts.

A line is one operator whose numbers move the pen, between some letters and between words; there
are no blanks in it. Each size of a face is a font of its own, of which a file has only the glyphs
that it uses: a paper has some fifteen of them. Points from the top left.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any, Final

from hpcscientist.errors import LibraryError

WIDTH: Final = 612.0
HEIGHT: Final = 792.0
FACES: Final = {"roman": "tiro", "bold": "tibo", "italic": "tiit", "symbol": "symb"}
# As the metrics of Times have them, thousandths of an em that the second letter moves left.
_KERNS: Final = (
    dict.fromkeys(("ev", "iv", "va"), 25)
    | dict.fromkeys(("av", "vo", "bu"), 20)
    | dict.fromkeys(("ve", "ov", "aw", "xe", "ow", "ew"), 15)
    | dict.fromkeys(("wa", "wo", "ke", "ko", "py"), 10)
    | {"rg": 18, "nv": 40, "Te": 70, "To": 80, "Tr": 35, "We": 80, "Av": 74, "Pr": 10}
)
_LIGATURES: Final = (("ffi", "f\ufb01"), ("ffl", "f\ufb02"), ("fi", "\ufb01"), ("fl", "\ufb02"))
_TO_UNICODE: Final = """/CIDInit /ProcSet findresource begin 12 dict begin begincmap
/CMapName /Symbols def /CMapType 2 def
1 begincodespacerange <0000> <ffff> endcodespacerange
{count} beginbfchar
{pairs}
endbfchar
endcmap end end
"""
_GREEK: Final = frozenset("αβεηθλμσφ∇∑∫≤≈−√")


def mupdf() -> Any:
    """Return PyMuPDF. Raises LibraryError where it is not installed."""
    try:
        return importlib.import_module("pymupdf")  # an extra, and slow
    except ImportError as error:
        raise LibraryError("no PyMuPDF here: pip install 'hpcscientist[pdf]'") from error


@cache
def _font(face: str) -> Any:
    return mupdf().Font(FACES[face])


@cache
def _glyph(face: str, char: str) -> tuple[str, float]:
    """Return a character's glyph as the file has it, and its width for size 1."""
    font = _font(face)
    return f"{font.has_glyph(ord(char)):04x}", font.glyph_advance(ord(char))


@cache
def _word(face: str, word: str) -> tuple[str, float]:
    """Return a word as glyphs and kerns between them, and its width for size 1."""
    glyphs = [_glyph(face, char) for char in word]
    kerns = [*(_KERNS.get(first + second, 0) for first, second in pairwise(word)), 0]
    codes = [
        f"{code}>{kern}<" if kern else code
        for (code, _), kern in zip(glyphs, kerns, strict=bool(word))
    ]
    return f"<{''.join(codes)}>", sum(width for _, width in glyphs) - sum(kerns) / 1000


def with_ligatures(text: str) -> str:
    """Return a text with "fi" and "fl" as the one letter that fonts have for them."""
    for letters, one in _LIGATURES:
        text = text.replace(letters, one)
    return text


def width(face: str, text: str, size: float) -> float:
    """Return how wide a text is."""
    return _word(face, text)[1] * size


@dataclass(slots=True)
class Sheet:
    """One page as it is written, and the fonts it needs by name: face and size."""

    operators: list[str] = field(default_factory=list)
    fonts: dict[str, str] = field(default_factory=dict)

    def _named(self, face: str, size: float) -> str:
        name = f"{face}{10 * size:.0f}"
        self.fonts[name] = face
        return f"/{name} {size:g} Tf"

    def words(
        self, x: float, y: float, face: str, size: float, words: list[str], gap: float
    ) -> None:
        """Set words from `x` on, their baseline at `y`, `gap` points apart."""
        moves = f"{-1000 * gap / size:.0f}".join(_word(face, word)[0] for word in words)
        self.operators.append(
            f"BT {self._named(face, size)} 1 0 0 1 {x:.2f} {HEIGHT - y:.2f} Tm [{moves}] TJ ET"
        )

    def formula(self, x: float, y: float, marked: str, size: float) -> None:
        """Set a formula in TeX's marks: letters in italics, Greek and operators from Symbol."""
        shift = 0.0
        for char in marked:
            if char in "_^":
                shift = -0.25 * size if char == "_" else 0.35 * size
                continue
            face = "symbol" if char in _GREEK else "italic" if char.isalpha() else "roman"
            type_size = 0.7 * size if shift else size
            if char == " ":
                x += 0.33 * size
            else:
                code, advance = _glyph(face, char)
                place = f"{x:.2f} {HEIGHT - y + shift:.2f}"
                self.operators.append(
                    f"BT {self._named(face, type_size)} 1 0 0 1 {place} Tm <{code}> Tj ET"
                )
                x += advance * type_size
            shift = 0.0

    def curve(self, points: list[tuple[float, float]]) -> None:
        """Draw a line through points."""
        (x, y), *others = points
        path = "".join(f"{a:.2f} {HEIGHT - b:.2f} l " for a, b in others)
        self.operators.append(f"0.6 w {x:.2f} {HEIGHT - y:.2f} m {path}S")


def broken_lines(words: list[str], face: str, size: float, measure: float) -> list[list[str]]:
    """Break words into lines no wider than `measure`, parting long words where need be."""
    blank = _glyph(face, " ")[1] * size
    lines: list[list[str]] = [[]]
    used = 0.0
    for word in words:
        wide = width(face, word, size)
        if not lines[-1] or used + blank + wide <= measure:
            used += (blank if lines[-1] else 0.0) + wide
            lines[-1].append(word)
            continue
        first, second = _parted(word)
        part = width(face, first, size)
        if first and used + blank + part <= measure:
            lines[-1].append(first)
            lines.append([second])
        else:
            lines.append([word])
        used = width(face, lines[-1][0], size)
    return lines


def _parted(word: str) -> tuple[str, str]:
    """Return a word's halves, the first with its hyphen; "" where it is not to be parted."""
    if "-" in word.rstrip("-"):
        first, _, second = word.partition("-")
        return f"{first}-", second
    middle = len(word) // 2
    if len(word) < 8 or not word.isalpha() or not word.islower():
        return "", word
    return f"{word[:middle]}-", word[middle:]


def _symbol_font(document: Any) -> int:
    """Add the font Symbol, which PyMuPDF itself only adds without saying what its glyphs mean."""
    font = _font("symbol")

    def added(text: str, stream: bytes = b"") -> int:
        number: int = document.get_new_xref()
        document.update_object(number, f"<<{text}>>")
        if stream:
            document.update_stream(number, stream, new=True)
        return number

    glyphs = {c: _glyph("symbol", c) for c in sorted(_GREEK)}
    pairs = "\n".join(f"<{code}> <{ord(c):04x}>" for c, (code, _) in glyphs.items())
    table = _TO_UNICODE.format(count=len(glyphs), pairs=pairs)
    widths = " ".join(f"{int(code, 16)} [{1000 * w:.0f}]" for code, w in glyphs.values())
    file = added("/Subtype/CIDFontType0C", font.buffer)
    described = added(
        "/Type/FontDescriptor/FontName/AAAAAA+Symbol/Flags 4/FontBBox[-180 -293 1090 1010]"
        f"/ItalicAngle 0/Ascent 1010/Descent -293/CapHeight 700/StemV 85/FontFile3 {file} 0 R"
    )
    descendant = added(
        "/Type/Font/Subtype/CIDFontType0/BaseFont/AAAAAA+Symbol/FontDescriptor "
        f"{described} 0 R/W[{widths}]"
        "/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>"
    )
    return added(
        "/Type/Font/Subtype/Type0/BaseFont/AAAAAA+Symbol/Encoding/Identity-H"
        f"/DescendantFonts[{descendant} 0 R]/ToUnicode {added('', table.encode('ascii'))} 0 R"
    )


def add_page(document: Any, sheet: Sheet, fonts: dict[str, int]) -> Any:
    """Add a page to a document of PyMuPDF; `fonts` gives the fonts' objects, and is filled."""
    page = document.new_page(width=WIDTH, height=HEIGHT)
    for name, face in sheet.fonts.items():
        if name not in fonts:
            fonts[name] = (
                _symbol_font(document)
                if face == "symbol"
                else page.insert_font(fontname=name, fontbuffer=_font(face).buffer)
            )
    names = " ".join(f"/{name} {fonts[name]} 0 R" for name in sheet.fonts)
    content = document.get_new_xref()
    document.update_object(content, "<<>>")
    document.update_stream(content, "\n".join(sheet.operators).encode("ascii"), new=True)
    document.xref_set_key(page.xref, "Resources", f"<</Font<<{names}>>>>")
    document.xref_set_key(page.xref, "Contents", f"{content} 0 R")
    return page
