"""`benchmarks sweep`: what is made of samples, and a small sweep for real."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))
from benchmarks.sweep import figures as sweep
from benchmarks.sweep import samples
from benchmarks.sweep.samples import Sample
from campaigns import benchmark

from hpcscientist.recipe.checks.check import check

CONTRACT = ["name", "value", "unit", "compared_with", "ratio", "target", "spread", "runs"]


def sample(driver: int, ideas: int, cpu_s: float, fsyncs: int, timed: bool = True) -> Sample:
    return Sample(
        driver=driver,
        ideas=ideas,
        cpu_s=cpu_s,
        fsyncs=fsyncs,
        peak_mb=100.0 + ideas,
        status_s=0.5 if timed else None,
        results_s=1.0 if timed else None,
    )


TAKEN = [
    sample(1, 1, 2.0, 100, timed=False),
    sample(1, 10, 2.9, 370),
    sample(2, 20, 2.0, 50, timed=False),  # another driver: what it began with is no idea's
    sample(2, 30, 4.0, 350),
]


def test_rates_are_of_one_driver_and_beside_the_first_mark() -> None:
    shown = {figure.name: figure for figure in sweep.figures(TAKEN, (10, 30))}
    cpu = shown["driver's CPU time an idea, 30 ideas"]
    assert shown["driver's CPU time an idea, 10 ideas"].value == pytest.approx(0.1)
    assert (cpu.value, cpu.ratio) == (pytest.approx(0.2), pytest.approx(2.0))
    assert not cpu.is_met
    fsyncs = shown["driver's fsyncs an idea, 30 ideas"]
    assert (fsyncs.value, fsyncs.ratio, fsyncs.is_met) == (30, 1.0, True)
    memory = shown["driver's peak memory, 30 ideas"]
    assert (memory.value, memory.target, memory.is_met) == (130.0, 200.0, True)
    status = shown["CPU time of `hpcsci status`, 30 ideas"]
    assert (status.ratio, status.is_met) == (pytest.approx(1 / 3), True)
    table = sweep.table(list(shown.values())).splitlines()
    assert table[0].split() == ["ideas", "10", "30"]
    assert len(table) == 6


def test_a_torn_last_sample_is_none(tmp_path: Path) -> None:
    assert samples.read(tmp_path) == []
    whole = TAKEN[0].model_dump_json()
    (tmp_path / samples.SAMPLES).write_text(f"{whole}\n{whole[:20]}")
    assert samples.read(tmp_path) == TAKEN[:1]


def test_its_recipe_is_sound() -> None:
    assert check(sweep.RECIPE) == []
    assert all(list(asdict(f))[:8] == CONTRACT for f in sweep.figures(TAKEN, (10, 30)))


@pytest.mark.e2e
@pytest.mark.full
def test_a_small_sweep(tmp_path: Path) -> None:
    command = ["sweep", "--at", "3", "--at", "8", "--allow-unsandboxed", "--json"]
    done = benchmark(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert all(list(row) == CONTRACT for row in rows)
    found = {row["name"]: row for row in rows}
    assert len(found) == 5 * 2
    assert found["driver's fsyncs an idea, 8 ideas"]["value"] > 0
    again = benchmark(*command, cwd=tmp_path)  # it has ended: nothing runs, the same is said
    assert json.loads(again.stdout) == rows
