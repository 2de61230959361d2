"""Texts by models and by generated code inside Markdown that people open.

A text becomes one line in which nothing has a meaning to Markdown, GitHub's included: no heading,
list, table, link, image, formula, mention, HTML or code can come out of it.
"""

from __future__ import annotations

import re

from hpcscientist.models.prompting.quoting import line

_MARKS = re.compile(r"[\\`*_\[\]<>&~|$#!@{}^]|:(?=//)|(?i:(?<=www)\.)")
_OPENING = re.compile(r"^(?:[-+=:]|[0-9]{1,9}(?=[.)]))")


def plain(text: str, limit: int) -> str:
    """Return a text as one line of at most `limit` characters, escaped; a cut one ends in "…"."""
    shown = _MARKS.sub(r"\\\g<0>", line(text, limit))
    opening = _OPENING.match(shown)
    if opening is None:
        return shown
    # A mark of a list or an underline is escaped itself, a number by what follows it.
    end = opening.end()
    return f"{shown[:end]}\\{shown[end:]}" if shown[0].isdigit() else f"\\{shown}"
