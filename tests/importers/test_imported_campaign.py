"""A search on an imported script, through the command line: what it finds is never a claim."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from import_kit import RIDGE, hpcsci, write

from hpcscientist.history import journal
from hpcscientist.records.events import SplitSpent
from hpcscientist.results.store import read_table


@pytest.mark.full
def test_a_search_on_an_imported_script(tmp_path: Path) -> None:
    script = write(tmp_path, {"ridge.py": RIDGE}) / "ridge.py"
    assert hpcsci(tmp_path, "recipe", "import", "script", script, "--out", "ridge").returncode == 0
    how = ("--model", "search", "--ideas", "4", "--seed", "3", "--run-dir", "run")
    here = ("--allow-unsandboxed", "--backend", "local")
    done = hpcsci(tmp_path, "launch", "--recipe", "./ridge", *how, *here)
    assert done.returncode == 0, done.stderr
    rows = json.loads(hpcsci(tmp_path, "results", "run", "--format", "json").stdout)
    assert len(rows) == 5
    assert {row["metric"] for row in rows} == {"self-reported validation loss"}
    assert "improvement" in {row["finding"] for row in rows}  # twice the learning rate is better
    assert {row["confirmed"] for row in rows} == {None}
    run = tmp_path / "run"
    assert list(run.glob("ideas/*/claim.json")) == []
    assert not any(isinstance(event, SplitSpent) for event in journal.read(run / "journal.jsonl"))
    tables = [read_table(path) for path in run.glob("trials/*/result.arrow")]
    marks = {mark for table in tables for mark in table["self_reported"].to_pylist()}
    assert marks == {True}
    for words in (["report", "run"], ["results", "run"]):
        assert hpcsci(tmp_path, *words).returncode == 0
    assert "self-reported validation loss" in (run / "report.html").read_text()
    assert hpcsci(tmp_path, "paper", "run").returncode == 2
    assert hpcsci(tmp_path, "reproduce", "run", "--idea", rows[1]["idea_id"]).returncode == 2
