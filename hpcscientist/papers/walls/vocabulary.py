"""Helpers for the word lists of the checks: splitting a text into words, and stemming."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """Return the distinct words of a text, in order."""
    return tuple(dict.fromkeys(text.split()))


def stem(word: str) -> str:
    """Return a word's stem, so that its forms match: standardise, standardised."""
    for ending in ("ations", "ation", "ings", "ing", "ies", "ied", "es", "ed", "er", "e", "s", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    doubled = len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz"
    return word[:-1] if doubled else word
