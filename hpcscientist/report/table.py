"""Writes results as a text table, followed by the reasons why ideas failed or were rejected."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TextIO

from hpcscientist.files.text import one_line, printable
from hpcscientist.records.findings import ResultRow
from hpcscientist.views.campaign import best_row

# Words about a campaign that several renderers share: the headline, effects and durations.


_SHORT_TITLE = 60  # characters


def headline(rows: Sequence[ResultRow], next_command: str) -> str:
    """Return the best idea with its gain, and the command to run next."""
    return f"{best_words(rows)}; next: {next_command}"


def best_words(rows: Sequence[ResultRow]) -> str:
    """Return which idea is best, its gain, and whether the gain was confirmed."""
    best = best_row(rows)
    if best is None:
        return "no idea improved on the baseline"
    named = f"{best.idea_id} ({one_line(printable(best.title), _SHORT_TITLE)}), {best.metric}"
    if best.confirmed:
        gain = effect(best.test_delta, best.test_ci_low, best.test_ci_high)
        return f"best confirmed: {named} {gain} on the test split"
    gain = effect(best.delta, best.ci_low, best.ci_high)
    return f"nothing is confirmed; best on validation: {named} {gain}"


def effect(delta: float | None, low: float | None, high: float | None) -> str:
    """Return a difference as text, with its interval if there is one."""
    if delta is None:
        return "was not measured"
    return f"{delta:+.3g}" + (f" [{low:+.3g}, {high:+.3g}]" if None not in (low, high) else "")


def duration(seconds: float) -> str:
    """Return a duration as text, in its two largest units."""
    whole = max(0, round(seconds))
    days, hours, minutes = whole // 86_400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def worked(hours: float) -> str:
    """Return processor time as text: below one hour in minutes and seconds, else in hours."""
    return duration(hours * 3600) if hours < 1 else f"{hours:,.4g} h"


PLAIN_WIDTH: Final = 120  # columns of a table that goes to a file or a pipe


def table(
    rows: Sequence[ResultRow],
    stream: TextIO,
    width: int | None = None,
    *,
    verbose: bool = False,
) -> None:
    """Write a text table, followed by the reasons why ideas failed or were rejected.

    `width` is in columns; None means the terminal's width, or 120 if the stream is no terminal.
    Numbers are never shortened. If there is no room, columns are left out, the least important
    first, before titles are cut below 30 characters. On a terminal each reason takes one line. With
    `verbose` everything is shown in full, however wide.
    """
    from rich import box  # noqa: PLC0415  (pipes do not need rich)
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(file=stream, markup=False, emoji=False, highlight=False, soft_wrap=True)
    folds = not verbose and (width is not None or stream.isatty())
    room = width or (console.width if stream.isatty() else PLAIN_WIDTH)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    columns = [column for column in _COLUMNS if column.always or any(map(column.cell, rows))]
    cells = [[_printable(column.cell(row), encoding) for column in columns] for row in rows]
    left_out = [] if verbose else _leave_out(cells, columns, room)
    if not verbose:
        _shorten_titles(cells, columns, room)
    grid = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for column in columns:
        grid.add_column(column.title, justify="left" if column.words else "right", no_wrap=True)
    for row, line in zip(rows, cells, strict=True):
        style = _STYLES.get(row.finding or row.status, "")
        grid.add_row(*(Text(cell) for cell in line), style=style)

    def say(text: str, *, whole: bool) -> bool:
        """Write a line; return whether it was cut."""
        line = _printable(text, encoding)
        shown = line if whole else _cut(line, room)
        console.print(Text(shown))
        return shown != line

    if rows:
        head = f"{rows[0].metric} ({rows[0].direction}); deltas against the baseline"
        say(head, whole=True)
    console.width = max(room, 1 + sum(_widths(cells, columns)) + _GAP * len(columns))
    console.print(grid)
    reasons = (f"{row.idea_id} {row.status}: {row.reason}" for row in rows if row.reason)
    was_cut = [say(reason, whole=not folds) for reason in reasons]
    if left_out or any(was_cut):
        lacking = f", also what is left out: {', '.join(left_out)}" if left_out else ""
        say(f"--verbose shows all{lacking}", whole=not folds)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table.

    A column that is empty in all rows is left out, unless `always`. If there is no room, the column
    with the highest `rank` is left out first; columns of rank 0 are always kept.
    """

    title: str
    cell: Callable[[ResultRow], str]
    rank: int
    words: bool = False
    always: bool = False


def _number(value: float | None, form: str = ".4g") -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:{form}}"


def _interval(low: float | None, high: float | None) -> str:
    ends = _number(low, "+.3g"), _number(high, "+.3g")
    return f"[{ends[0]}, {ends[1]}]" if all(ends) else ""


def _outcome(row: ResultRow) -> str:
    return row.finding or ("undecided" if row.undecided else row.status)


_COLUMNS = (
    _Column("idea", lambda row: row.idea_id, 0, words=True, always=True),
    _Column("title", lambda row: row.title, 0, words=True, always=True),
    _Column("outcome", _outcome, 0, words=True, always=True),
    _Column("mean", lambda row: _number(row.mean), 4),
    _Column("std", lambda row: _number(row.std, ".2g"), 7),
    _Column("n", lambda row: "" if row.n is None else str(row.n), 6),
    _Column("delta", lambda row: _number(row.delta, "+.3g"), 0),
    _Column("95% interval", lambda row: _interval(row.ci_low, row.ci_high), 2),
    _Column("p adj.", lambda row: _number(row.p_adjusted, ".2g"), 5),
    _Column("test delta", lambda row: _number(row.test_delta, "+.3g"), 3),
    _Column("shrinkage", lambda row: _number(row.shrinkage, ".0%"), 8),
    _Column(
        "confirmed",
        lambda row: "" if row.confirmed is None else "yes" if row.confirmed else "no",
        1,
        words=True,
    ),
    _Column("only knobs", lambda row: "yes" if row.only_knobs else "", 9, words=True),
)

_STYLES = {"improvement": "green", "decline": "red", "failed": "dim", "rejected": "dim"}


_GAP = 2  # blanks between columns
_TITLE = 30  # characters of a title for which other columns are left out
_SHORTEST_TITLE = 12


def _widths(cells: list[list[str]], columns: Sequence[_Column]) -> list[int]:
    from rich.cells import cell_len  # noqa: PLC0415

    lines = [[column.title for column in columns], *cells]
    return [max(map(cell_len, column)) for column in zip(*lines, strict=True)]


def _place_of_titles(columns: Sequence[_Column]) -> int:
    return next(place for place, column in enumerate(columns) if column.title == "title")


def _leave_out(cells: list[list[str]], columns: list[_Column], room: int) -> list[str]:
    """Remove columns until titles have room, the least important first; return their names."""
    widths = _widths(cells, columns)
    lacking = sum(widths) + _GAP * len(columns) - room
    title = widths[_place_of_titles(columns)]
    lacking -= title - min(title, _TITLE)  # the room that cutting titles gives
    gone = set[int]()
    for place in sorted(range(len(columns)), key=lambda place: -columns[place].rank):
        if lacking > 0 and columns[place].rank:
            gone.add(place)
            lacking -= widths[place] + _GAP
    names = [columns[place].title for place in sorted(gone)]
    for line in cells:
        line[:] = [cell for place, cell in enumerate(line) if place not in gone]
    columns[:] = [column for place, column in enumerate(columns) if place not in gone]
    return names


def _shorten_titles(cells: list[list[str]], columns: Sequence[_Column], room: int) -> None:
    place = _place_of_titles(columns)
    widths = _widths(cells, columns)
    others = sum(widths) - widths[place] + _GAP * len(columns)
    most = max(_SHORTEST_TITLE, room - others)
    for line in cells:
        line[place] = _cut(line[place], most)


def _cut(text: str, most: int) -> str:
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415

    return text if cell_len(text) <= most else set_cell_size(text, most - 2).rstrip() + ".."


def _printable(text: str, encoding: str) -> str:
    """Return text as one line that the stream can encode, with control characters made visible."""
    return printable(text).encode(encoding, "replace").decode(encoding)
