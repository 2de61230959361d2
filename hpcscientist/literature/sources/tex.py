"""Converts LaTeX to plain text; formulas stay as written."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pylatexenc.latex2text import LatexNodes2Text

_MATH_MARK = re.compile(r"\$\$?|\\.", re.DOTALL)
_CLOSING = {"$": "$", "$$": "$$", "\\(": "\\)", "\\[": "\\]"}
_DEEPEST = 50
_DEEPEST_OPTIONS = 5  # each unclosed bracket doubles what pylatexenc tries
_LONGEST = 100_000
_COMBINING = {
    "`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", "=": "\u0304", "u": "\u0306",
    ".": "\u0307", '"': "\u0308", "r": "\u030a", "H": "\u030b", "v": "\u030c", "d": "\u0323",
    "c": "\u0327", "k": "\u0328", "b": "\u0331",
}  # fmt: skip
_LETTER = r"(\\[ij](?![a-zA-Z])|[^\W\d_])"
_ACCENT = re.compile(
    rf"""\\(?:([`'^~="."])\s*|([urHvdckb])(?:\s+|(?=\{{)))(?:\{{\s*{_LETTER}\s*\}}|{_LETTER})"""
)
_SYMBOLS = {
    "ss": "ß", "o": "ø", "O": "Ø", "l": "ł", "L": "Ł", "ae": "æ", "AE": "Æ", "oe": "œ",
    "OE": "Œ", "aa": "å", "AA": "Å", "i": "ı", "j": "ȷ", "S": "§", "dh": "ð", "DH": "Ð",
    "th": "þ", "TH": "Þ", "TeX": "TeX", "LaTeX": "LaTeX", "BibTeX": "BibTeX", "ldots": "…",
    "dots": "…", "textendash": "–", "textemdash": "—", "textasciitilde": "\ue002", "quad": " ",
    "textbackslash": "/", "textregistered": "®", "texttrademark": "™", "copyright": "©",
}  # fmt: skip
_SYMBOL = re.compile(
    rf"\\({'|'.join(sorted(_SYMBOLS, key=len, reverse=True))})(?![a-zA-Z])(?:\{{\}}|\s*)"
)
_STYLE = re.compile(
    r"\\(?:(?:emph|text(?:bf|it|tt|sc|rm|sf|sl|md|up|normal)|mbox|url|underline|uppercase)\s*(?=\{)"
    r"|(?:em|bf|it|tt|sc|rm|sf|sl|bfseries|itshape|scshape|ttfamily|sffamily|rmfamily|tiny|small"
    r"|footnotesize|normalsize|large|Large|LARGE|huge|Huge|centering|noindent|protect)(?![a-zA-Z])\s*)"
)
_ESCAPED = re.compile(r"\\([&%$#_{}])")
# These stand for escaped braces and printed tildes while the others are removed.
_OPEN, _CLOSE, _TILDE = "\ue000", "\ue001", "\ue002"
_GUARDED = {"{": _OPEN, "}": _CLOSE}
_ADDRESS = re.compile(r"\\(?:url|nolinkurl|path)\s*\{[^{}]*\}")
_MACRO = re.compile(r"\\(?:[a-zA-Z@]+\*?[ \t]*(?:\[[^\[\]]{0,200}\])?|[^a-zA-Z])")
_BRACES = re.compile(r"(?<!\\)[{}]")
_MARKS = re.compile(r"[\\{}~]|--|``|''")


def plain(source: str, quick: bool = False) -> str:
    r"""Return a piece of LaTeX as plain text: accents become letters, macros what they print.

    Math between dollars or \( and \) is kept. A percent sign is literal, since BibTeX and metadata
    have no comments. Text without any sign of LaTeX is returned unchanged. `quick` is for running
    text: it drops the names of unknown macros instead of asking a parser what they print.
    """
    if not _MARKS.search(source):
        return source
    parts = split_math(source)
    return "".join(p if i % 2 else _decoded(p, quick) for i, p in enumerate(parts)).strip()


def split_math(source: str) -> list[str]:
    """Return text, formula, text, … of a piece of LaTeX; an unclosed formula counts as text."""
    parts: list[str] = []
    done = opened = 0
    closing = ""
    for mark in _MATH_MARK.finditer(source):
        if not closing and mark.group() in _CLOSING:
            closing, opened = _CLOSING[mark.group()], mark.start()
        elif closing and mark.group() == closing:
            parts += [source[done:opened], source[opened : mark.end()]]
            done, closing = mark.end(), ""
    return [*parts, source[done:]]


def _decoded(piece: str, quick: bool) -> str:
    if not _MARKS.search(piece):
        return piece
    if "\\" in piece:
        piece = _ADDRESS.sub(lambda m: m.group().replace("~", _TILDE), piece)
        piece = _SYMBOL.sub(lambda m: _SYMBOLS[m.group(1)], _ACCENT.sub(_accented, piece))
        piece = _STYLE.sub("", piece)
        piece = _ESCAPED.sub(lambda m: _GUARDED.get(m.group(1), m.group(1)), piece)
    if "\\" in piece:
        piece = _MACRO.sub(" ", piece) if quick else _by_parser(piece)
    piece = _BRACES.sub("", piece).replace("~", " ").replace("\xa0", " ")
    piece = piece.replace(_OPEN, "{").replace(_CLOSE, "}").replace(_TILDE, "~")
    piece = piece.replace("---", "—").replace("--", "–").replace("``", "“").replace("''", "”")
    return unicodedata.normalize("NFC", piece)


def _accented(found: re.Match[str]) -> str:
    letter = (found.group(3) or found.group(4)).lstrip("\\")
    return unicodedata.normalize("NFC", letter + _COMBINING[found.group(1) or found.group(2)])


def _by_parser(piece: str) -> str:
    """Decode macros that are not in the tables. A last resort, since it takes a millisecond."""
    too_deep = _depth(piece) > _DEEPEST or _depth(piece, "[]") > _DEEPEST_OPTIONS
    if len(piece) > _LONGEST or too_deep:
        return _stripped(piece)
    from pylatexenc.latexwalker import LatexWalkerError  # noqa: PLC0415  not needed by most texts

    # A brace at an end may belong to one beyond a formula.
    lead = " " if piece.lstrip("{}")[:1].isspace() else ""
    trail = " " if piece.rstrip("{}")[-1:].isspace() else ""
    try:
        text = _decoder().latex_to_text(re.sub(r"(?<!\\)[%$]", r"\\\g<0>", piece))
    except (LatexWalkerError, RecursionError, ValueError, LookupError, TypeError, AttributeError):
        return _stripped(piece)  # pylatexenc tries to be tolerant, but does raise these
    return f"{lead}{text.strip()}{trail}"


def _depth(piece: str, pair: str = "{}") -> int:
    deepest = depth = 0
    for mark in re.findall(rf"(?<!\\)[{re.escape(pair)}]", piece):
        depth += 1 if mark == pair[0] else -1
        deepest = max(deepest, depth)
    return deepest


def _stripped(piece: str) -> str:
    return _MACRO.sub(" ", piece)


@lru_cache
def _decoder() -> LatexNodes2Text:
    from pylatexenc.latex2text import LatexNodes2Text  # noqa: PLC0415

    return LatexNodes2Text(math_mode="verbatim")
