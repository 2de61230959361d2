"""Where the lines of a search text stand in a file, on one level of reading.

Each level takes what the one before takes, and more: other white space at the ends of lines;
other indentation; blank lines that only one of the two holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from hpcscientist.authoring.edits.indents import indent_of, width
from hpcscientist.authoring.edits.outcome import Matched

LEVELS: tuple[Matched, ...] = ("white space", "indentation", "blank lines")
_MANY = 50  # places beyond which no more are looked for
_TRIED = 20_000  # combinations of what stands before and after elided lines

_Counted = Sequence[tuple[int, str]]  # the number of a line, from 0, and what is compared of it


@dataclass(frozen=True)
class Place:
    """Each line of the search text that counts, with its line of the file, in order (from 0)."""

    pairs: tuple[tuple[int, int], ...]

    @property
    def first(self) -> int:
        """The first line of the file, from 0."""
        return self.pairs[0][1]

    @property
    def last(self) -> int:
        """The last line of the file, from 0."""
        return self.pairs[-1][1]


def places(
    search: Sequence[str], marked: Sequence[int], file: Sequence[str], level: Matched
) -> list[Place]:
    """Return the places, at most 50; `marked` lines of the search text stand for others.

    Lines left out lie in the block that their neighbours are in: none of them is indented less.
    """
    parts = _parts(_counted(search, level), marked)
    theirs = _counted(file, level)
    if not all(parts):
        return []
    spots = [_spots(part, theirs) for part in parts]
    tried = prod(map(len, spots))
    if not tried or (len(parts) > 1 and tried > _TRIED):
        return []  # what repeats so often tells no place
    found: list[Place] = []
    for starts in _starts(parts, spots, theirs, file):
        pairs = [
            (ours[0], other[0])
            for part, start in zip(parts, starts, strict=True)
            for ours, other in zip(part, theirs[start : start + len(part)], strict=True)
        ]
        found.append(Place(tuple(pairs)))
        if len(found) == _MANY:
            break
    return found


def _counted(lines: Sequence[str], level: Matched) -> _Counted:
    if level == "white space":
        return [(number, line.rstrip()) for number, line in enumerate(lines)]
    found = [(number, line.strip()) for number, line in enumerate(lines)]
    return [line for line in found if line[1]] if level == "blank lines" else found


def _parts(search: _Counted, marked: Sequence[int]) -> list[list[tuple[int, str]]]:
    """Return the lines between markers."""
    parts: list[list[tuple[int, str]]] = [[]]
    for line in search:
        if line[0] in marked:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _spots(part: _Counted, file: _Counted) -> list[int]:
    """Return where in the file a part stands."""
    wanted, there = [text for _, text in part], [text for _, text in file]
    return [
        start
        for start in range(len(there) - len(wanted) + 1)
        if there[start : start + len(wanted)] == wanted
    ]


def _starts(
    parts: Sequence[_Counted],
    spots: Sequence[Sequence[int]],
    counted: _Counted,
    file: Sequence[str],
    begin: int = 0,
) -> Iterator[tuple[int, ...]]:
    for start in spots[0]:
        end = start + len(parts[0])
        if start < begin:
            continue
        if len(parts) == 1:
            yield (start,)
            continue
        for rest in _starts(parts[1:], spots[1:], counted, file, end):
            if _within(file, counted[end - 1][0], counted[rest[0]][0]):
                yield (start, *rest)


def _within(file: Sequence[str], before: int, after: int) -> bool:
    """Whether the lines between two of the file are in the block these are in."""
    between = [width(indent_of(line)) for line in file[before + 1 : after] if line.strip()]
    if not between:
        return True
    head, tail = (width(indent_of(file[number])) for number in (before, after))
    opens = file[before].split("#")[0].rstrip().endswith((":", "(", "[", "{"))
    return min(between) > head if opens else min(between) >= min(head, tail)
