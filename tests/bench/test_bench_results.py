"""The benchmark of reading results runs and says what it compares; no time is asserted."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hpcscientist.bench.figure import Call, Figure, as_json, measure
from hpcscientist.bench.results import figures, read_bare


def test_each_figure_stands_beside_what_it_is_compared_with(tmp_path: Path) -> None:
    found = {figure.name: figure for figure in figures(3, 2, runs=1, folder=tmp_path)}
    loose, compacted = found["results, loose files"], found["results, compacted"]
    assert (loose.target, compacted.target) == (1.3, 0.1)
    assert loose.ratio == pytest.approx(loose.value / found["bare read, loose files"].value)
    assert compacted.ratio == pytest.approx(compacted.value / loose.value)
    assert all(figure.value > 0 for figure in found.values())
    assert list(tmp_path.iterdir()) == []


def test_json_is_the_contract_s_array() -> None:
    figure = Figure("a", 1.5, "s", None, None, None, 0.0, 3)
    (only,) = json.loads(as_json([figure]))
    assert list(only) == [
        *("name", "value", "unit", "compared_with", "ratio", "target", "spread", "runs")
    ]


def test_a_call_that_fails_is_no_figure(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        measure({"bare": Call(read_bare, (str(tmp_path / "absent"),))}, 1)


def test_counts_are_positive() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        figures(0)
