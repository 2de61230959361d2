"""Cleans texts for records: one line, no control characters, bounded length, valid Unicode."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path

TITLE_CHARACTERS = 1_000
ABSTRACT_CHARACTERS = 20_000
AUTHORS = 5_000
REFERENCES = 5_000

_MARKUP = "i|b|em|strong|sub|sup|scp|sc|p|br|u|tt|title|sec|italic|bold|inline-formula|tex-math"
_TAG = re.compile(
    rf"</?(?:{_MARKUP}|(?:jats|mml):[\w-]+|math|m[a-z]{{1,10}})"
    r"""(?:\s+[\w:-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'))*\s*/?>""",
    re.IGNORECASE,
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_BLANKS = re.compile(r"[^\S\n]+")
_YEAR = re.compile(r"(?<!\d)(1[5-9]\d\d|20\d\d|21\d\d)(?!\d)")


def one_line(text: object, limit: int = ABSTRACT_CHARACTERS) -> str:
    """Return a text as one line of at most `limit` characters; "" if `text` is no string."""
    if not isinstance(text, str):
        return ""
    text = text if text.isprintable() else _printable(text)
    return " ".join(text.split())[:limit].rstrip()


def paragraphs(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, with single blanks and single empty lines."""
    lines = (_BLANKS.sub(" ", line).strip() for line in _printable(text).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()[:limit].rstrip()


def without_markup(text: object) -> str:
    """Return a text without the HTML, JATS and MathML tags that publishers leave in it."""
    if not isinstance(text, str):
        return ""
    return _TAG.sub("", html.unescape(_TAG.sub("", text))) if "<" in text or "&" in text else text


def year_of(value: object) -> int | None:
    """Return the first year between 1500 and 2199 in a number or a date; None if there is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    found = _YEAR.search(str(value)[:100])
    return int(found.group()) if found else None


def count_of(value: object) -> int | None:
    """Return a count; None if the value is not a non-negative integer."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def shown(path: Path) -> str:
    """Return a path as text for users, even if its bytes are not valid UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")


def _printable(text: str) -> str:
    return _CONTROL.sub(lambda found: "\ufffd" if found.group() >= "\ud800" else " ", text)
