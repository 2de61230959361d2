"""Small texts for people: one line out of many, and nothing that a terminal would obey."""

from __future__ import annotations

_JOINERS = "\u200c\u200d"  # invisible, but part of how Persian and Indic words are written


def printable(text: str) -> str:
    """Return the text without control characters, which could take a terminal over."""
    return "".join(c if c.isprintable() else " " for c in text)


def visible(text: str) -> str:
    """Return the text without characters that only machines see; line breaks and tabs stay.

    Some could take a terminal over, others show people the words in another order.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" or c in _JOINERS else " " for c in text)


def one_line(text: str, limit: int | None = 300) -> str:
    """Return the text with all white space collapsed, cut to `limit` characters (None: whole)."""
    joined = " ".join(text.split())
    return joined if limit is None or len(joined) <= limit else joined[: limit - 1] + "…"
