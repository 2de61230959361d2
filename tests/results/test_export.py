"""`hpcsci results`: four formats of the same rows; what was not measured is null."""

from __future__ import annotations

import csv as csv_reader
import io
import json as json_reader
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from result_rows import ADDED, BEYOND, CONTRACT, HOSTILE, MEASURED, MEASURED_DOWN, ROWS, row

from hpcscientist.records.findings import ResultRow, Verdict
from hpcscientist.results import export


def as_text(form: export.Format, rows: list[ResultRow]) -> str:
    raw = io.BytesIO()
    export.write(rows, form, raw)
    return raw.getvalue().decode()


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
    export.write(rows, "arrow", stream)
    table = pa.ipc.open_stream(stream.getvalue()).read_all()
    assert table.to_pylist() == json_reader.loads(as_text("json", rows))
    kinds = {name: str(table.schema.field(name).type) for name in table.schema.names}
    assert (kinds["mean"], kinds["n"], kinds["confirmed"], kinds["reason"]) == (
        "double",
        "int64",
        "bool",
        "string",
    )


def test_shrinkage_is_of_improvements_alone_whichever_way_is_better() -> None:
    half = row(3, **MEASURED | {"delta": -0.2, "direction": "minimize"}, test_delta=-0.1)
    assert half.shrinkage == pytest.approx(0.5)
    assert row(3, **MEASURED).shrinkage is None
    declined = row(3, **MEASURED | {"finding": Verdict.DECLINE}, test_delta=0.1)
    assert declined.shrinkage is None
    assert "shrinkage" not in ResultRow.model_fields


def test_json_and_csv_import_neither_arrow_nor_rich() -> None:
    code = (
        "import sys; from hpcscientist.results import export;"
        "export.json([], sys.stdout); export.csv([], sys.stdout);"
        "sys.exit('pyarrow' in sys.modules or 'rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert done.returncode == 0


@pytest.mark.parametrize("form", ["json", "csv", "arrow"])
def test_no_words_of_strangers_command_whoever_reads_them(form: export.Format) -> None:
    raw = io.BytesIO()
    rows = [row(1, title=HOSTILE, reason=f"{HOSTILE}\n{HOSTILE}", metric=HOSTILE)]
    export.write(rows, form, raw)
    if form == "arrow":
        table = pa.ipc.open_stream(raw.getvalue()).read_all().to_pylist()
        text = " ".join(str(value) for value in table[0].values())
    else:
        text = raw.getvalue().decode()
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
        "import sys; sys.path.insert(0, sys.argv[1]); import result_rows as t;"
        "from hpcscientist.results import export;"
        "export.write([t.row(1, title=t.BEYOND)], sys.argv[2], sys.stdout.buffer)"
    )
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", code, str(Path(__file__).parents[1]), form]
    done = subprocess.run(command, check=False, capture_output=True, env=os.environ | ascii_only)
    assert done.returncode == 0, done.stderr
    assert BEYOND in done.stdout.decode("utf-8")
