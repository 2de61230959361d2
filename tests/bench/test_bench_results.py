"""The benchmark of reading results runs and says what it compares; no time is asserted."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
from benchmarks.results import figures, read_bare

from hpcscientist.bench.figure import Figure, TimedCall, as_json, measure


@pytest.mark.full
def test_each_figure_stands_beside_what_it_is_compared_with(tmp_path: Path) -> None:
    found = {figure.name: figure for figure in figures(3, 2, runs=1, folder=tmp_path)}
    loose, compacted = found["results, loose files"], found["results, compacted"]
    assert (loose.target, compacted.target) == (1.3, 0.1)
    assert loose.ratio == pytest.approx(loose.value / found["bare read, loose files"].value)
    assert compacted.ratio == pytest.approx(compacted.value / loose.value)
    assert list(tmp_path.iterdir()) == []


def waits_and_holds(seconds: float, mb: int) -> None:
    held = b"x" * (mb << 20)
    time.sleep(seconds)
    assert held


def test_a_measurement_has_in_it_what_the_call_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds from below alone: a slow machine takes longer."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))  # the child imports this file
    calls = {
        "long": TimedCall(waits_and_holds, (0.2, 64)),
        "short": TimedCall(waits_and_holds, (0.0, 1)),
    }
    found = measure(calls, runs=2)
    assert min(found["long"].seconds) >= 0.2
    assert found["long"].median >= 0.2
    assert min(found["long"].peak_mb) >= max(found["short"].peak_mb) + 32


def test_json_is_the_contract_s_array() -> None:
    figure = Figure("a", 1.5, "s", None, None, None, 0.0, 3)
    (only,) = json.loads(as_json([figure]))
    assert list(only) == [
        *("name", "value", "unit", "compared_with", "ratio", "target", "spread", "runs")
    ]


def test_a_call_that_fails_is_no_figure(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        measure({"bare": TimedCall(read_bare, (str(tmp_path / "absent"),))}, 1)


def test_counts_are_positive() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        figures(0)
