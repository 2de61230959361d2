"""Shares with their intervals, and tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hpcscientist.bench.figure import Figure
from hpcscientist.feedback.statistics import wilson


@dataclass(frozen=True, slots=True)
class Share:
    """`part` of `whole`; of nothing there is no value."""

    part: int
    whole: int

    @property
    def value(self) -> float | None:
        """The share itself."""
        return self.part / self.whole if self.whole else None

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval; of nothing, from 0 to 1."""
        return wilson(self.part, self.whole) if self.whole else (0.0, 1.0)

    def shown(self) -> str:
        """Return the share and its interval, "-" for one of nothing."""
        if self.value is None:
            return "-"
        low, high = self.interval
        return f"{self.value:.3f} ({low:.3f} to {high:.3f})"

    def figure(
        self, name: str, unit: str, compared_with: str | None = None, target: float | None = None
    ) -> Figure | None:
        """Return the share as a figure whose spread is its interval's width; None of nothing."""
        if self.value is None:
            return None
        low, high = self.interval
        return Figure(name, self.value, unit, compared_with, None, target, high - low, self.whole)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
