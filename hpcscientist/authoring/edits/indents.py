"""From the indentation of an edit to that of the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

_TAB = 4


def indent_of(line: str) -> str:
    """Return the white space a line begins with."""
    return line[: len(line) - len(line.lstrip())]


def width(indent: str) -> int:
    """Return the columns of an indentation, a tab being four."""
    return len(indent.expandtabs(_TAB))


@dataclass(frozen=True)
class Shift:
    """What each indentation of the edit (in columns) is in the file."""

    known: Mapping[int, str]
    step: int  # columns of one level in the edit
    unit: str  # one level in the file

    @property
    def still(self) -> bool:
        """Whether nothing is shifted."""
        return all(indent == " " * columns for columns, indent in self.known.items())

    def of(self, indent: str, loose: bool = False) -> str | None:
        """Return the file's indentation for one of the edit's; None if it cannot be told.

        A `loose` one means nothing (within brackets or strings), so a near one will do.
        """
        columns = width(indent)
        if columns in self.known:
            return self.known[columns]
        moved = {width(file) - edit for edit, file in self.known.items()}
        if len(moved) == 1 and not any("\t" in file for file in self.known.values()):
            shifted = columns + moved.pop()
            return " " * max(0, shifted) if shifted >= 0 or loose else None
        below = [edit for edit in self.known if edit < columns]
        if not below:
            return indent if loose else None
        levels, rest = divmod(columns - max(below), self.step)
        if rest and not loose:
            return None
        return self.known[max(below)] + self.unit * levels + " " * rest


def shift_of(
    pairs: Iterable[tuple[str, str]], edit: Sequence[str], file: Sequence[str]
) -> Shift | None:
    """Return the shift that pairs of indentations (edit's, file's) show; None if they disagree.

    Lines of different levels in the edit must be so in the file.
    """
    known: dict[int, str] = {}
    for ours, theirs in pairs:
        if known.setdefault(width(ours), theirs) != theirs:
            return None
    step = _step(edit)
    for before, after in pairwise(sorted(known)):
        deeper = width(known[after]) - width(known[before])
        # Lines of two levels are not of one; a column or two too many are carelessness.
        if deeper < 0 or (deeper == 0 and (after - before) % step == 0):
            return None
    return Shift(known, step, unit_of(file))


def unit_of(lines: Sequence[str]) -> str:
    """Return one level of indentation as the lines have it."""
    tabs = sum(line.startswith("\t") for line in lines)
    spaces = sum(line.startswith("  ") for line in lines)
    return "\t" if tabs > spaces else " " * _step(lines)


def _step(lines: Sequence[str]) -> int:
    """Return the least step inwards from a line that opens a block, in columns; else 4."""
    filled = [line for line in lines if line.strip()]
    steps = [
        width(indent_of(after)) - width(indent_of(before))
        for before, after in pairwise(filled)
        if before.rstrip().endswith(":")
    ]
    return min((step for step in steps if step > 0), default=_TAB)
