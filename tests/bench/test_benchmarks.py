"""The benchmarks run and print the contract's fields; what they measure is never asserted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hpcscientist.bench import makespan, startup
from hpcscientist.bench.figure import Figure, as_json
from hpcscientist.bench.makespan import Script
from hpcscientist.cli.main import run

FIELDS = ["name", "value", "unit", "compared_with", "ratio", "target", "spread", "runs"]


def check(figures: list[Figure], count: int) -> None:
    rows: list[dict[str, Any]] = json.loads(as_json(figures))
    assert len(rows) == count
    for row in rows:
        assert list(row) == FIELDS
        assert row["value"] > 0
        assert row["ratio"] is None or row["ratio"] > 0


def test_makespan_runs_the_real_loop() -> None:
    script = Script(latency_s=0.01, pilot_s=0.01, full_s=0.02, slots=4)
    check(makespan.figures({3: 1, 4: 2}, script), 2)


def test_makespan_bound_is_path_or_work() -> None:
    script = Script(latency_s=1.0, pilot_s=1.0, full_s=2.0, slots=4)
    assert script.bound(ideas=0, seeds=1, concurrency=1) == 2 * 1.0 + 1.0 + 2.0
    assert script.bound(ideas=100, seeds=2, concurrency=99) == (202 * 2.0 + 100 * 1.0) / 4
    assert script.bound(ideas=100, seeds=1, concurrency=1) == 200.0


def test_startup_measures_the_installed_command() -> None:
    check(startup.figures(runs=1), 1)


def test_json_on_stdout_and_progress_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = Figure("f", 1.0, "s", "g", 0.5, 0.6, 0.0, 1)
    monkeypatch.setattr(startup, "figures", lambda: [figure])
    assert run(["bench", "startup", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)[0]["ratio"] == 0.5
    assert "measuring" in err
    assert run(["bench", "startup"]) == 0
    assert "target at most 0.6: met" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "ratio", "target", "at_least", "is_met"),
    [
        (9.0, 0.6, 0.6, False, True),
        (9.0, 0.7, 0.6, False, False),
        (9.0, 0.6, 0.6, True, True),
        (9.0, 0.5, 0.6, True, False),
        (9.0, None, 9.5, True, False),
        (9.0, 0.1, None, True, True),
    ],
)
def test_a_target_is_a_least_or_a_most(
    value: float, ratio: float | None, target: float | None, at_least: bool, is_met: bool
) -> None:
    assert Figure("f", value, "s", "g", ratio, target, 0.0, 1, at_least).is_met is is_met


def test_a_least_is_said_as_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = Figure("f", 1.0, "tokens/s", "g", 0.5, 0.6, 0.0, 1, at_least=True)
    monkeypatch.setattr(startup, "figures", lambda: [figure])
    assert run(["bench", "startup"]) == 0
    assert "target at least 0.6: NOT met" in capsys.readouterr().out
