"""Where the lines of a search text stand in a file, on one level of reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from hpcscientist.authoring.edits.finding.levels import Unit, indent_of
from hpcscientist.authoring.edits.indents import width

Same = Callable[[Unit, Unit], bool]
_MANY = 50  # places beyond which no more are looked for
_TRIED = 20_000  # combinations of what stands before and after elided lines


@dataclass(frozen=True)
class Place:
    """Each unit of the search text with its unit of the file, in order."""

    pairs: tuple[tuple[Unit, Unit], ...]

    @property
    def first(self) -> int:
        """The first line, from 0."""
        return self.pairs[0][1].first

    @property
    def last(self) -> int:
        """The last line, from 0."""
        return self.pairs[-1][1].last


def places(
    search: Sequence[Unit], marked: Sequence[int], file: Sequence[Unit], same: Same, lines: Lines
) -> list[Place]:
    """Return the places, at most 50; `marked` lines of the search text stand for others.

    Lines left out lie in the block that their neighbours are in: none of them is indented less.
    """
    parts = _parts(search, marked)
    if not all(parts) or not parts:
        return []
    spots = [_spots(part, file, same) for part in parts]
    tried = prod(map(len, spots))
    if not tried or (len(parts) > 1 and tried > _TRIED):
        return []  # what repeats so often tells no place
    found: list[Place] = []
    for starts in _starts(parts, spots, file, lines):
        pairs = [
            pair
            for part, start in zip(parts, starts, strict=True)
            for pair in zip(part, file[start : start + len(part)], strict=True)
        ]
        found.append(Place(tuple(pairs)))
        if len(found) == _MANY:
            break
    return found


@dataclass(frozen=True)
class Lines:
    """The lines of the file."""

    file: Sequence[str]

    def least(self, first: int, end: int) -> int | None:
        """Return the least indentation of lines `first` to before `end`, in columns."""
        return min(
            (width(indent_of(line)) for line in self.file[first:end] if line.strip()), default=None
        )


def _parts(search: Sequence[Unit], marked: Sequence[int]) -> list[list[Unit]]:
    """Return the units between markers."""
    parts: list[list[Unit]] = [[]]
    left = list(marked)
    for unit in search:
        while left and left[0] < unit.first:
            parts.append([])
            left.pop(0)
        parts[-1].append(unit)
    return parts


def _spots(part: Sequence[Unit], file: Sequence[Unit], same: Same) -> list[int]:
    """Return all units of the file at which a part stands."""
    return [
        start
        for start in range(len(file) - len(part) + 1)
        if all(same(ours, file[start + n]) for n, ours in enumerate(part))
    ]


def _starts(
    parts: Sequence[Sequence[Unit]],
    spots: Sequence[Sequence[int]],
    file: Sequence[Unit],
    lines: Lines,
    begin: int = 0,
) -> Iterator[tuple[int, ...]]:
    for start in spots[0]:
        end = start + len(parts[0])
        if start < begin:
            continue
        if len(parts) == 1:
            yield (start,)
            continue
        for rest in _starts(parts[1:], spots[1:], file, lines, end):
            if _within(file[end - 1], file[rest[0]], lines):
                yield (start, *rest)


def _within(before: Unit, after: Unit, lines: Lines) -> bool:
    """Whether the lines between two units of the file are in the block these are in."""
    least = lines.least(before.last + 1, after.first)
    if least is None:
        return True
    head, tail = (width(indent_of(lines.file[unit.first])) for unit in (before, after))
    opens = lines.file[before.last].split("#")[0].rstrip().endswith((":", "(", "[", "{"))
    return least > head if opens else least >= min(head, tail)
