"""`hpcsci bench papers`: recall and false alarms of the walls, printed."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from hpcscientist.bench.papers.statements import statements
from hpcscientist.cli.main import run


def test_recall_and_false_alarms_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "papers", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    values = {figure["name"].partition(":")[0]: figure["value"] for figure in figures}
    assert values["false statements refused"] == 1.0
    assert values["true statements refused"] == 0.0
    kinds = {s.kind.replace("_", " ") for s in statements("false_statements")}
    told = {figure["name"] for figure in figures if figure["name"].startswith("refused: ")}
    assert {name.split(": ")[1] for name in told} == kinds


def test_there_are_enough_statements_of_each_kind() -> None:
    false = Counter(s.kind for s in statements("false_statements"))
    true = Counter(s.kind for s in statements("true_statements"))
    assert (len(false), false.keys()) == (12, true.keys())
    assert (false.total() >= 120, min(false.values()) >= 10) == (True, True)
    assert (true.total() >= 60, min(true.values()) >= 5) == (True, True)
    texts = [s.text for name in ("false", "true") for s in statements(f"{name}_statements")]
    assert len(set(texts)) == len(texts)
