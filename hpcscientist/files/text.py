"""Small texts for people: one line out of many."""

from __future__ import annotations


def one_line(text: str, limit: int | None = 300) -> str:
    """Return the text with all white space collapsed, cut to `limit` characters (None: whole)."""
    joined = " ".join(text.split())
    return joined if limit is None or len(joined) <= limit else joined[: limit - 1] + "…"
