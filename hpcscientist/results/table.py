"""Results as a table for people, and below it why ideas failed or were rejected."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, TextIO

from hpcscientist.files.text import printable
from hpcscientist.records.found.finding import ResultRow

PLAIN_WIDTH: Final = 120  # columns of a table that goes to a file or a pipe


def table(rows: Sequence[ResultRow], stream: TextIO, width: int | None = None) -> None:
    """Write a table for people, and below it why ideas failed or were rejected.

    `width` in columns; None: the terminal's, or 120 where the stream is no terminal. Titles
    are shortened to fit, numbers never.
    """
    from rich import box  # noqa: PLC0415  (pipes do not need rich)
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(file=stream, markup=False, emoji=False, highlight=False, soft_wrap=True)
    room = width or (console.width if stream.isatty() else PLAIN_WIDTH)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    columns = [column for column in _COLUMNS if column.always or any(map(column.cell, rows))]
    cells = [[_printable(column.cell(row), encoding) for column in columns] for row in rows]
    _shorten_titles(cells, columns, room)
    grid = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for column in columns:
        grid.add_column(column.title, justify="left" if column.words else "right", no_wrap=True)
    for row, line in zip(rows, cells, strict=True):
        style = _STYLES.get(row.finding or row.status, "")
        grid.add_row(*(Text(cell) for cell in line), style=style)
    if rows:
        head = f"{rows[0].metric} ({rows[0].direction}); deltas against the baseline"
        console.print(Text(_printable(head, encoding)))
    console.width = max(room, 1 + sum(_widths(cells, columns)) + _GAP * len(columns))
    console.print(grid)
    for row in rows:
        if row.reason:
            reason = f"{row.idea_id} {row.status}: {row.reason}"
            console.print(Text(_printable(reason, encoding)))


class _Column:
    """A column of the table for people; one without content may be left out."""

    def __init__(
        self,
        title: str,
        cell: Callable[[ResultRow], str],
        words: bool = False,
        always: bool = True,
    ) -> None:
        self.title, self.cell, self.words, self.always = title, cell, words, always


def _number(value: float | None, form: str = ".4g") -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:{form}}"


def _interval(low: float | None, high: float | None) -> str:
    ends = _number(low, "+.3g"), _number(high, "+.3g")
    return f"[{ends[0]}, {ends[1]}]" if all(ends) else ""


def _outcome(row: ResultRow) -> str:
    return row.finding or ("undecided" if row.undecided else row.status)


_COLUMNS = (
    _Column("idea", lambda row: row.idea_id, words=True),
    _Column("title", lambda row: row.title, words=True),
    _Column("outcome", _outcome, words=True),
    _Column("mean", lambda row: _number(row.mean)),
    _Column("std", lambda row: _number(row.std, ".2g")),
    _Column("n", lambda row: "" if row.n is None else str(row.n)),
    _Column("delta", lambda row: _number(row.delta, "+.3g")),
    _Column("95% interval", lambda row: _interval(row.ci_low, row.ci_high)),
    _Column("p adj.", lambda row: _number(row.p_adjusted, ".2g")),
    _Column("test delta", lambda row: _number(row.test_delta, "+.3g"), always=False),
    _Column("shrinkage", lambda row: _number(row.shrinkage, ".0%"), always=False),
    _Column(
        "confirmed",
        lambda row: "" if row.confirmed is None else "yes" if row.confirmed else "no",
        words=True,
        always=False,
    ),
    _Column("only knobs", lambda row: "yes" if row.only_knobs else "", words=True, always=False),
)

_STYLES = {"improvement": "green", "decline": "red", "failed": "dim", "rejected": "dim"}


_GAP = 2  # blanks between columns
_SHORTEST_TITLE = 12


def _widths(cells: list[list[str]], columns: Sequence[_Column]) -> list[int]:
    from rich.cells import cell_len  # noqa: PLC0415

    lines = [[column.title for column in columns], *cells]
    return [max(map(cell_len, column)) for column in zip(*lines, strict=True)]


def _shorten_titles(cells: list[list[str]], columns: Sequence[_Column], room: int) -> None:
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415

    place = [column.title for column in columns].index("title")
    widths = _widths(cells, columns)
    others = sum(widths) - widths[place] + _GAP * len(columns)
    most = max(_SHORTEST_TITLE, room - others)
    for line in cells:
        if cell_len(line[place]) > most:
            line[place] = set_cell_size(line[place], most - 2).rstrip() + ".."


def _printable(text: str, encoding: str) -> str:
    """Return text on one line that the stream can encode, control characters shown."""
    return printable(text).encode(encoding, "replace").decode(encoding)
