"""Checks of a paper's text that need no model: contradictions and citations without a source."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

_NUMBER = re.compile(r"(?<![\w-])[+-]?\d+(?:[.,]\d+)*%?")  # not in names such as idea-0001
_CLAUSE = re.compile(r"[^.;:!?\n]+(?:\.\d+[^.;:!?\n]*)*")
_CITED = re.compile(r"\[(\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\]")
_HEADING = re.compile(r"^## .*(?:references|bibliography).*$", re.I | re.M)
_ENTRY = re.compile(r"^\s*\[(\d{1,3})\]", re.M)
_WORDS = 6  # fewest equal words: shorter clauses say too little ("against 0.9 of the baseline")


def alarms(text: str) -> list[str]:
    """Return the passages that contradict others, or cite an unlisted source."""
    return [*dict.fromkeys([*_contradictions(text), *_unlisted(text)])]


def _contradictions(text: str) -> Iterator[str]:
    """Yield clauses that differ only in their numbers."""
    told: dict[str, dict[tuple[str, ...], str]] = defaultdict(dict)
    for clause in _CLAUSE.findall(text):
        for part in clause.split(", "):
            numbers = tuple(_NUMBER.findall(part))
            words = " ".join(_NUMBER.sub("#", part).lower().split())
            if numbers and len(words.split()) - len(numbers) >= _WORDS:
                told[words].setdefault(numbers, " ".join(part.split()))
    for of in told.values():
        if len(of) > 1:
            yield from of.values()


def _unlisted(text: str) -> Iterator[str]:
    heading = list(_HEADING.finditer(text))
    if not heading:
        return
    body, listed = text[: heading[-1].start()], text[heading[-1].end() :]
    known = set(_ENTRY.findall(listed))
    for clause in _CLAUSE.findall(body):
        cited = {n for found in _CITED.findall(clause) for n in re.findall(r"\d+", found)}
        if known and cited - known:
            yield " ".join(clause.split())
