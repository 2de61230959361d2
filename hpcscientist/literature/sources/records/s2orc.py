"""Semantic Scholar's full texts: one long text, and lists of where its parts begin and end.

`s2orc` has them under "content", its second version under "body"; the lists are JSON in JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hpcscientist.literature.sources import text
from hpcscientist.literature.sources.records import jsonl
from hpcscientist.records.known.literature import Section

_SECTIONS = 2_000
_SECTION_CHARACTERS = 100_000


class FullText:
    """The full text of a record; empty where it has none."""

    def __init__(self, fields: dict[str, Any]) -> None:
        block = fields.get("content") or fields.get("body")
        block = block if isinstance(block, dict) else {}
        written, marks = block.get("text"), block.get("annotations")
        self._text = written if isinstance(written, str) else ""
        self._marks = marks if isinstance(marks, dict) else {}

    def first(self, kind: str) -> str:
        """Return the first part of a kind ("title", "abstract"); "" where there is none."""
        return next((text.one_line(self._text[b:e]) for b, e in self._spans(kind)), "")

    def sections(self) -> tuple[Section, ...]:
        """Return the text after each heading, until the next; all of it where there is none."""
        heads = sorted(self._spans("sectionheader"))[:_SECTIONS] or [(0, 0)]
        ends = [begin for begin, _ in heads[1:]] + [len(self._text)]
        found = (
            Section(
                heading=text.one_line(self._text[begin:end], text.TITLE_CHARACTERS),
                text=text.paragraphs(self._text[end:until], _SECTION_CHARACTERS),
            )
            for (begin, end), until in zip(heads, ends, strict=True)
        )
        return tuple(s for s in found if s.text)

    def _spans(self, kind: str) -> Iterator[tuple[int, int]]:
        marks = self._marks.get(kind)
        marks = jsonl.parse(marks)[0] if isinstance(marks, str) else marks
        for mark in marks if isinstance(marks, list) else ():
            if isinstance(mark, dict):
                begin, end = _number(mark.get("start")), _number(mark.get("end"))
                if 0 <= begin < end <= len(self._text):
                    yield begin, end


def _number(value: object) -> int:
    """Return a position, which some files have as text; -1 for what is none."""
    if isinstance(value, int):
        return int(value)
    return int(value) if isinstance(value, str) and value.isascii() and value[:15].isdigit() else -1
