"""The list of references, split into its entries."""

from __future__ import annotations

import re

from hpcscientist.literature.sources.pdf.lines.layout import Piece
from hpcscientist.literature.sources.pdf.lines.pages import Line
from hpcscientist.literature.sources.pdf.lines.prose import Spelled, mended

_BRACKETS = re.compile(
    r"\[(?:\d{1,4}|[A-Za-z][\w+&.: -]{0,30}\d{2,4}[a-z]?|[A-Za-z+]{1,6}\d{2,4}[a-z]?)\]\s*"
)
_NUMBER = re.compile(r"\(?(\d{1,4})[.)]?\s+(?=\D)")
_SHARE = 0.15  # of rows that must be indented for an indent to tell entries apart
_ENTRY = 2_000
_SHORTEST = 8


def entries(pieces: list[Piece], spelled: Spelled) -> list[str]:
    """Return the entries as they are printed, without their labels.

    Told apart by labels in brackets or numbers that count up where the first entry has such;
    else by hanging indents; else each block is one.
    """
    starts = _by_labels(pieces) or _by_numbers(pieces) or _by_indents(pieces)
    found: list[list[Line]] = []
    current: list[Line] = []
    for index, piece in enumerate(pieces):
        for at, row in enumerate(piece.rows):
            begins = (index, at) in starts if starts else at == 0
            if begins and current:
                found.append(current)
                current = []
            current.append(row)
    found.append(current)
    texts = (
        mended("\n".join([row.text for row in rows]), spelled)[:_ENTRY] for rows in found if rows
    )
    return [text for text in map(_without_label, texts) if len(text) >= _SHORTEST]


Starts = set[tuple[int, int]]


def _by_labels(pieces: list[Piece]) -> Starts:
    if not _BRACKETS.match(pieces[0].rows[0].text):
        return set()
    return {
        (index, at)
        for index, piece in enumerate(pieces)
        for at, row in enumerate(piece.rows)
        if row.text[0] == "[" and _BRACKETS.match(row.text)
    }


def _by_numbers(pieces: list[Piece]) -> Starts:
    found: Starts = set()
    expected = 1
    for index, piece in enumerate(pieces):
        for at, row in enumerate(piece.rows):
            number = _NUMBER.match(row.text)
            if number and int(number.group(1)) == expected:
                found.add((index, at))
                expected += 1
            elif not found:
                return found
    return found if expected > 2 else set()


def _by_indents(pieces: list[Piece]) -> Starts:
    edges: dict[tuple[int, int], int] = {}
    for piece in pieces:
        place = (piece.page, piece.left)
        edges[place] = min([edges.get(place, piece.right), *(row.x0 for row in piece.rows)])
    found: Starts = set()
    total = 0
    for index, piece in enumerate(pieces):
        edge = edges[piece.page, piece.left]
        for at, row in enumerate(piece.rows):
            total += 1
            if row.x0 - edge < row.size / 2:
                found.add((index, at))
    return found if len(found) <= (1 - _SHARE) * total else set()


def _without_label(entry: str) -> str:
    label = _BRACKETS.match(entry) or _NUMBER.match(entry)
    return entry[label.end() :].strip() if label else entry.strip()
