"""Small texts for people: one line out of many, and nothing that a terminal would obey."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text without control characters, which could take a terminal over."""
    return "".join(c if c.isprintable() else " " for c in text)


def one_line(text: str, limit: int | None = 300) -> str:
    """Return the text with all white space collapsed, cut to `limit` characters (None: whole)."""
    joined = " ".join(text.split())
    return joined if limit is None or len(joined) <= limit else joined[: limit - 1] + "…"
