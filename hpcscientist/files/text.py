"""Short texts for people: on one line, and without characters that control a terminal."""

from __future__ import annotations

import re

_JOINERS = "\u200c\u200d"  # invisible, but needed to write Persian and Indic words


def printable(text: str) -> str:
    """Return the text with a space for each unprintable character: some control terminals."""
    return "".join(c if c.isprintable() else " " for c in text)


def visible(text: str) -> str:
    """Return the text with a space for each invisible character; line breaks and tabs stay.

    Some of them control terminals, others change the order in which words are displayed.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" or c in _JOINERS else " " for c in text)


def one_line(text: str, limit: int | None = 300) -> str:
    """Return the text with white space collapsed, cut to `limit` characters unless None."""
    joined = " ".join(text.split())
    return joined if limit is None or len(joined) <= limit else joined[: limit - 1] + "…"


def parts_of(text: str) -> dict[str, str]:
    """Return the parts of a file by name: each begins with a line `=== NAME ===`."""
    parts = re.split(r"(?m)(?:^|\n)^=== (\w+) ===\n", text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))
