"""The table for people: it fits its terminal, and shows what matters."""

from __future__ import annotations

import io
import re

import pytest
from result_rows import HOSTILE, MEASURED, ROWS, row
from rich.cells import cell_len

from hpcscientist.records.findings import ResultRow, Verdict
from hpcscientist.report.table import headline, table


def shown(rows: list[ResultRow], width: int | None = None, *, verbose: bool = False) -> str:
    stream = io.StringIO()
    table(rows, stream, width, verbose=verbose)
    return stream.getvalue()


def test_table_fits_its_width_and_shows_what_matters() -> None:
    text = shown(ROWS)
    assert max(map(len, text.splitlines())) <= 120
    for part in ("idea-0003", "improvement", "0.9123", "+0.0123", "[+0.00123, +0.0234]", "0.012"):
        assert part in text
    assert "[bold]" in text  # a title is text, not markup
    assert "idea-0004 failed: timeout: ran past 30 s" in text
    assert "nan" not in text
    assert "\x1b" not in text
    assert "confirmed" not in text
    assert shown([])


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160, 200])
def test_where_there_is_no_room_columns_go_and_titles_keep_theirs(width: int) -> None:
    full = {"confirmed": True, "test_delta": 0.0112, "only_knobs": True}
    text = shown([row(1, **MEASURED, **full), row(2, reason="error: " + "long " * 60)], width)
    lines = text.splitlines()
    assert max(map(cell_len, lines)) <= width
    assert "+0.0123" in text
    # Of the title as much as 30 characters from 80 columns on, all of it where there is room.
    title = row(1).title
    assert title[: 26 if width >= 80 else 10] in text
    assert (title in text) == (width == 200)
    assert ("left out: " in text) == (width < 160)


def test_columns_that_are_empty_for_all_are_left_out_without_a_word() -> None:
    text = shown([row(1, status="failed")], 80)
    assert "interval" not in text
    assert "left out" not in text


def test_verbose_shows_all_whole() -> None:
    full = row(1, **MEASURED, confirmed=True, test_delta=0.0112, only_knobs=True)
    failed = row(2, reason="error: " + "long " * 60 + "end")
    text = shown([full, failed], 80, verbose=True)
    assert full.title in text
    assert "only knobs" in text
    assert "long end" in text
    assert "left out" not in text
    assert "long end" not in shown([full, failed], 80)


BEST = row(7, **MEASURED, confirmed=True, test_delta=0.0112, test_ci_low=0.001, test_ci_high=0.02)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "no idea"),
        ([row(1, **MEASURED | {"finding": Verdict.DECLINE})], "no idea"),
        ([row(3, **MEASURED)], "nothing .*validation: idea-0003"),
        ([row(3, **MEASURED | {"delta": 0.5}), BEST], "best confirmed: idea-0007"),
    ],
)
def test_the_last_line_names_the_best_idea_and_what_comes_next(
    rows: list[ResultRow], said: str
) -> None:
    line = headline(rows, "hpcsci resume DIR")
    assert re.match(said, line)
    assert line.endswith("next: hpcsci resume DIR")
    if "confirmed:" in said:
        assert re.search(r"\+0\.0112 \[\+0\.001, \+0\.02\] .*\btest\b", line)


def test_no_words_of_strangers_command_a_terminal() -> None:
    text = shown([row(1, title=HOSTILE, reason=f"{HOSTILE}\n{HOSTILE}", metric=HOSTILE)])
    assert not [c for c in text if c != "\n" and not c.isprintable()]


def test_table_shows_confirmation_once_there_is_one() -> None:
    rows = [row(3, **MEASURED, confirmed=False, test_delta=-0.001), ROWS[1]]
    text = shown(rows, verbose=True)
    assert "confirmed" in text
    assert "-0.001" in text
    assert "108%" in text  # all of the gain is gone, and more


def test_table_tells_what_is_undecided_from_what_has_no_finding() -> None:
    still = row(5, **MEASURED | {"finding": None}, undecided=True, reason="undecided after 3 of 5")
    copy = row(6, **MEASURED | {"finding": None}, reason="its predictions are those of idea-0003")
    lines = shown([still, copy]).splitlines()
    assert any("idea-0005" in line and " undecided " in line for line in lines)
    assert any("idea-0006" in line and " scored " in line for line in lines)


def test_table_where_the_terminal_knows_only_ascii() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    table([row(1, **(MEASURED | {"title": "Größer \x1b[31m"}))], stream)
    text = raw.getvalue().decode("ascii")
    assert "Gr??er  [31m" in text
    assert "\x1b" not in text
