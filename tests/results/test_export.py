"""`hpcsci results`: four formats of the same rows; what was not measured is null."""

from __future__ import annotations

import csv as csv_reader
import io
import json as json_reader
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hpcscientist.records.found.finding import ResultRow, Verdict
from hpcscientist.results import export, table

CONTRACT = [
    *("idea_id", "parent_ids", "round", "title", "status", "reason", "finding"),
    *("metric", "direction", "mean", "std", "n", "baseline_mean"),
    *("delta", "ci_low", "ci_high", "p_adjusted"),
    *("confirmed", "test_delta", "test_ci_low", "test_ci_high"),
    *("gpu_hours", "cpu_hours", "attempts"),
]
ADDED = ["only_knobs"]  # after those of the contract


def row(number: int, **fields: Any) -> ResultRow:
    values: dict[str, Any] = dict.fromkeys(CONTRACT)
    values |= {
        "idea_id": f"idea-{number:04d}",
        "parent_ids": ("idea-0001", "idea-0002"),
        "round": 1,
        "title": "Wider [bold]layers[/bold] with a long name that goes on :smile: and on",
        "status": "failed",
        "metric": "accuracy",
        "direction": "maximize",
    }
    return ResultRow(**(values | fields))


MEASURED: dict[str, Any] = {
    "status": "scored",
    "finding": Verdict.IMPROVEMENT,
    "mean": 0.912345,
    "std": 0.0123,
    "n": 5,
    "baseline_mean": 0.9,
    "delta": 0.012345,
    "ci_low": 0.00123,
    "ci_high": 0.0234,
    "p_adjusted": 0.01234,
    "cpu_hours": 0.5,
    "attempts": 2,
}
MEASURED_DOWN = MEASURED | {"delta": -0.5}
ROWS = [row(3, **MEASURED), row(4, reason="timeout: ran past\n30 s", mean=math.nan)]


def as_text(form: export.Format, rows: list[ResultRow]) -> str:
    stream, raw = io.StringIO(), io.BytesIO()
    export.write(rows, form, stream, raw)
    return stream.getvalue() + raw.getvalue().decode()


def test_json_has_the_contract_s_fields_in_order_and_nulls() -> None:
    first, second = json_reader.loads(as_text("json", ROWS))
    assert list(first) == CONTRACT + ADDED
    assert (first["finding"], first["mean"], first["parent_ids"]) == (
        "improvement",
        0.912345,
        ["idea-0001", "idea-0002"],
    )
    assert {second[k] for k in ("finding", "mean", "n", "delta", "cpu_hours", "confirmed")} == {
        None
    }
    assert json_reader.loads(as_text("json", [])) == []


def test_csv_leaves_nulls_empty() -> None:
    first, second = csv_reader.DictReader(io.StringIO(as_text("csv", ROWS)))
    assert list(first) == CONTRACT + ADDED
    assert (first["mean"], first["n"], first["parent_ids"]) == (
        "0.912345",
        "5",
        "idea-0001 idea-0002",
    )
    assert {second[k] for k in ("finding", "mean", "n", "delta", "confirmed")} == {""}
    confirmed = next(csv_reader.DictReader(io.StringIO(as_text("csv", [row(1, confirmed=True)]))))
    assert confirmed["confirmed"] == "true"


@pytest.mark.parametrize("rows", [ROWS, ROWS[1:], []])
def test_arrow_is_typed_whatever_the_rows(rows: list[ResultRow]) -> None:
    stream = io.BytesIO()
    export.write(rows, "arrow", io.StringIO(), stream)
    table = pa.ipc.open_stream(stream.getvalue()).read_all()
    assert table.to_pylist() == json_reader.loads(as_text("json", rows))
    kinds = {name: str(table.schema.field(name).type) for name in table.schema.names}
    assert (kinds["mean"], kinds["n"], kinds["confirmed"], kinds["reason"]) == (
        "double",
        "int64",
        "bool",
        "string",
    )


def test_table_fits_its_width_and_shows_what_matters() -> None:
    text = as_text("table", ROWS)
    assert max(map(len, text.splitlines())) <= 120
    for part in ("idea-0003", "improvement", "0.9123", "+0.0123", "[+0.00123, +0.0234]", "0.012"):
        assert part in text
    assert "[bold]" in text  # a title is text, not markup
    assert "idea-0004 failed: timeout: ran past 30 s" in text
    assert "nan" not in text
    assert "\x1b" not in text
    assert "confirmed" not in text
    assert as_text("table", [])


def test_table_shows_confirmation_once_there_is_one() -> None:
    text = as_text("table", [row(3, **MEASURED, confirmed=False, test_delta=-0.001), ROWS[1]])
    assert "confirmed" in text
    assert "-0.001" in text
    assert "108%" in text  # all of the gain is gone, and more


def test_table_tells_what_is_undecided_from_what_has_no_finding() -> None:
    still = row(5, **MEASURED | {"finding": None}, undecided=True, reason="undecided after 3 of 5")
    copy = row(6, **MEASURED | {"finding": None}, reason="its predictions are those of idea-0003")
    lines = as_text("table", [still, copy]).splitlines()
    assert any("idea-0005" in line and " undecided " in line for line in lines)
    assert any("idea-0006" in line and " scored " in line for line in lines)


def test_shrinkage_is_of_improvements_alone_whichever_way_is_better() -> None:
    half = row(3, **MEASURED | {"delta": -0.2, "direction": "minimize"}, test_delta=-0.1)
    assert half.shrinkage == pytest.approx(0.5)
    assert row(3, **MEASURED).shrinkage is None
    declined = row(3, **MEASURED | {"finding": Verdict.DECLINE}, test_delta=0.1)
    assert declined.shrinkage is None
    assert "shrinkage" not in ResultRow.model_fields


def test_table_where_the_terminal_knows_only_ascii() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    table.table([row(1, **(MEASURED | {"title": "Größer \x1b[31m"}))], stream)
    text = raw.getvalue().decode("ascii")
    assert "Gr??er  [31m" in text
    assert "\x1b" not in text


def test_json_and_csv_import_neither_arrow_nor_rich() -> None:
    code = (
        "import sys; from hpcscientist.results import export;"
        "export.json([], sys.stdout); export.csv([], sys.stdout);"
        "sys.exit('pyarrow' in sys.modules or 'rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert done.returncode == 0


BEYOND = "Größer → 大"
HOSTILE = "a\rb\x1b[31m\u202ec\x85d\u2028e"


@pytest.mark.parametrize("form", ["json", "csv", "table", "arrow"])
def test_no_words_of_strangers_command_whoever_reads_them(form: export.Format) -> None:
    stream, raw = io.StringIO(), io.BytesIO()
    rows = [row(1, title=HOSTILE, reason=f"{HOSTILE}\n{HOSTILE}", metric=HOSTILE)]
    export.write(rows, form, stream, raw)
    if form == "arrow":
        table = pa.ipc.open_stream(raw.getvalue()).read_all().to_pylist()
        text = " ".join(str(value) for value in table[0].values())
    else:
        text = stream.getvalue() + raw.getvalue().decode()
    assert not [c for c in text if c != "\n" and not c.isprintable()]


def test_csv_keeps_a_row_a_line_and_gives_a_spreadsheet_no_formula() -> None:
    titles = ["=1+1", "+1", "-log", "@SUM(A1)", "\t=1+1", '"a",b\r\nc', "＝1", "plain"]
    text = as_text("csv", [row(n, title=title, **MEASURED_DOWN) for n, title in enumerate(titles)])
    assert len(text.split("\n")) == 1 + len(titles) + 1
    found = list(csv_reader.DictReader(io.StringIO(text, newline="")))
    assert [line["title"] for line in found] == [
        *("'=1+1", "'+1", "'-log", "'@SUM(A1)", " =1+1", '"a",b  c', "'＝1", "plain")
    ]
    assert {line["delta"] for line in found} == {"-0.5"}  # a number stays one
    assert [r["title"] for r in json_reader.loads(as_text("json", [row(1, title="=1")]))] == ["=1"]


@pytest.mark.parametrize("form", ["json", "csv"])
def test_exports_are_utf8_whatever_the_locale(form: str) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_export as t;"
        "from hpcscientist.results import export;"
        "export.write([t.row(1, title=t.BEYOND)], sys.argv[2], sys.stdout, sys.stdout.buffer)"
    )
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", code, str(Path(__file__).parent), form]
    done = subprocess.run(command, check=False, capture_output=True, env=os.environ | ascii_only)
    assert done.returncode == 0, done.stderr
    assert BEYOND in done.stdout.decode("utf-8")
