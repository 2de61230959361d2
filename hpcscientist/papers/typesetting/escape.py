"""Escapes untrusted text as LaTeX that prints it and does nothing else.

Every character that is not plain becomes a macro from this file or from pylatexenc's table, so no
character of a manuscript, a title or a name reaches TeX with a special meaning.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Final

from hpcscientist.files.text import visible

if TYPE_CHECKING:
    from pylatexenc.latexencode import UnicodeToLatexEncoder

UNKNOWN: Final = r"\hpcunknown{}"
_PLAIN: Final = re.compile(r"[A-Za-z0-9 .,;:()/+=*@!?|\[\]-]")
# Characters that pylatexenc lacks, encodes otherwise, or encodes with macros of other packages.
_OWN: Final = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    '"': r"\textquotedbl{}",
    "'": r"'",
    "`": r"\textasciigrave{}",
    "\N{MINUS SIGN}": r"\ensuremath{-}",
    "\N{PLUS-MINUS SIGN}": r"\ensuremath{\pm}",
    "\N{MULTIPLICATION SIGN}": r"\ensuremath{\times}",
    "\N{NO-BREAK SPACE}": "~",
    "\N{NARROW NO-BREAK SPACE}": r"\,",
    "\N{THIN SPACE}": r"\,",
    "\N{HYPHEN}": "-",
    "\N{NON-BREAKING HYPHEN}": r"\mbox{-}",
    "\N{EN DASH}": "--",
    "\N{EM DASH}": "---",
    "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
    "\N{LEFT SINGLE QUOTATION MARK}": "`",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{LEFT DOUBLE QUOTATION MARK}": "``",
    "\N{RIGHT DOUBLE QUOTATION MARK}": "''",
    "\N{EURO SIGN}": r"\texteuro{}",
}
# Accents that the T1 encoding sets on any letter.
_ACCENTS: Final = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u",
    "\u0307": ".", "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0323": "d",
    "\u0327": "c", "\u0328": "k", "\u0331": "b",
}  # fmt: skip
# Macros of pylatexenc's table that our packages lack, or that need another font or math mode.
_UNDEFINED: Final = re.compile(
    r"\\(?:CYR|cyr|nument|texthvlig|textnrleg|textschwa|textphi|textglotstop|textturnk|textfrac|"
    r"acute|mathscr|arrowwave|dblarrowupdown|DownArrowUpArrow|rightangle|surfintegral|volintegral|"
    r"clwintegral|clockoint|sqrint|homothetic|lazysinv|approxnotequal|tildetrpl|allequal|estimates|"
    r"starequal|notlessgreater|notgreaterless|truestate|forcesextra|VDash|original|image|"
    r"hermitconjmatrix|verymuch|precedesnotsimilar|udots|varperspcorrespond|recorder|quarternote|"
    r"mathbb\{[a-z])|^\\(?:varepsilon|Upsilon|flat|natural|sharp)$"
)
_POWER = re.compile(r"(?<=\d)e(-?\d+)")
_SUPERSCRIPTS: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789\N{MINUS SIGN}+")
_RAISED: Final = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+")


def latex(text: str) -> str:
    """Return LaTeX that prints a text; characters that our fonts lack print as empty boxes."""
    clean = unicodedata.normalize("NFC", visible(text)).replace("\t", " ").replace("\n", " ")
    return "".join(map(_character, clean))


def lacking(text: str) -> str:
    """Return the characters that our fonts lack, or print with only one of several accents."""
    clean = unicodedata.normalize("NFC", visible(text))
    return "".join(dict.fromkeys(c for c in clean if UNKNOWN in _character(c) or _is_stacked(c)))


def _is_stacked(c: str) -> bool:
    return len(unicodedata.normalize("NFD", c)) > 2


def breakable(text: str) -> str:
    """Return LaTeX of an id, a path or a hash in typewriter, with allowed line breaks."""
    parts = re.split(r"(?<=[-./_(,:])(?=.)|(?<=[0-9a-f]{8})(?=[0-9a-f])", text)
    return r"\texttt{" + r"\allowbreak{}".join(map(latex, parts)) + "}"


def number(text: str) -> str:
    """Return LaTeX of a fact's printed text, with powers of ten as superscripts."""
    pieces = re.split(f"({_RAISED.pattern})", _power(text))
    return "".join(
        rf"\textsuperscript{{{latex(piece.translate(_SUPERSCRIPTS))}}}"
        if _RAISED.fullmatch(piece)
        else latex(piece).replace(" ", "~")
        for piece in pieces
        if piece
    )


def as_seen(text: str) -> str:
    """Return a printed number as it reads in a PDF: no spaces, superscripts as plain digits."""
    return squeezed(_power(text))


def squeezed(text: str) -> str:
    """Return a text in NFKC form without spaces, so that its layout does not matter."""
    plain = unicodedata.normalize("NFKC", text).replace("\N{HYPHEN}", "-")
    return "".join(plain.split())


def _power(text: str) -> str:
    def raised(found: re.Match[str]) -> str:
        digits = found[1].replace("-", "\N{SUPERSCRIPT MINUS}")
        return "\N{MULTIPLICATION SIGN}10" + digits.translate(_RAISE)

    return _POWER.sub(raised, text)


_RAISE: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@cache
def _character(c: str) -> str:
    if _PLAIN.fullmatch(c):
        return c
    if c in _OWN:
        return _OWN[c]
    if c.isascii():
        return UNKNOWN
    return _accented(c) or _symbol(c)


def _accented(c: str) -> str:
    """Return LaTeX of an accented letter; "" for any other character.

    T1 sets one accent on a letter, so Vietnamese letters lose their tone; `lacking` reports them.
    """
    apart = unicodedata.normalize("NFD", c)
    base, marks = apart[0], apart[1:]
    if marks and base.isascii() and base.isalpha() and marks[0] in _ACCENTS:
        return rf"\{_ACCENTS[marks[0]]}{{{base}}}"
    return ""


def _symbol(c: str) -> str:
    found = str(_encoder().unicode_to_latex(c))
    if found != c and not _UNDEFINED.search(found):
        return rf"{{{found}}}"
    parts = unicodedata.normalize("NFKD", c)
    if parts == c or (c.isnumeric() and not any(part.isdecimal() for part in parts)):
        return UNKNOWN  # also for numerals that decompose to letters, as "XII" does
    return "".join(map(_character, parts))


@cache
def _encoder() -> UnicodeToLatexEncoder:
    from pylatexenc.latexencode import UnicodeToLatexEncoder  # noqa: PLC0415 (slow)

    return UnicodeToLatexEncoder(
        unknown_char_policy="keep", unknown_char_warning=False, replacement_latex_protection="none"
    )
