"""Lists of words, written as text."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text, in order and each once."""
    return tuple(dict.fromkeys(text.split()))
