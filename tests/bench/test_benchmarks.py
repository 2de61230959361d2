"""The benchmarks run and print the contract's fields; what they measure is never asserted."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpcscientist.bench import makespan, startup
from hpcscientist.bench.figure import Figure, as_json
from hpcscientist.bench.makespan import Script
from hpcscientist.cli.main import run
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal
from hpcscientist.records.events import TrialQueued
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import Stage

FIELDS = ["name", "value", "unit", "compared_with", "ratio", "target", "spread", "runs"]


def check(figures: list[Figure], count: int) -> None:
    rows: list[dict[str, Any]] = json.loads(as_json(figures))
    assert len(rows) == count
    for row in rows:
        assert list(row) == FIELDS
        assert math.isfinite(row["value"])


def test_makespan_runs_the_real_loop() -> None:
    """What the model and the trials take is slept, so no campaign is faster than its bound."""
    script = Script(latency_s=0.01, pilot_s=0.01, full_s=0.02, slots=4)
    figures = makespan.figures({3: 1, 4: 2}, script)
    check(figures, 2)
    for figure, ideas in zip(figures, (3, 4), strict=True):
        assert f"{ideas} ideas" in figure.name
        assert figure.ratio is not None
        assert figure.ratio >= 1
        assert figure.value >= 2 * script.latency_s + script.pilot_s + script.full_s


def test_makespan_bound_is_path_or_work() -> None:
    script = Script(latency_s=1.0, pilot_s=1.0, full_s=2.0, slots=4)
    assert script.bound(ideas=0, seeds=1, concurrency=1) == 2 * 1.0 + 1.0 + 2.0
    many = 100 * (2 * 2.0 + 1.0) / 4  # of which none begins before it was thought of
    assert script.bound(ideas=100, seeds=2, concurrency=99) == 2 * 1.0 + many
    assert (
        script.bound(ideas=100, seeds=2, concurrency=99, reruns=6) == 2 * 1.0 + many + 6 * 2.0 / 4
    )
    # With eight seeds the reference alone fills more slots than there are until then; and no trial
    # is cut so that all slots end together.
    assert script.bound(ideas=1, seeds=8, concurrency=99) == math.ceil(2 * (8 * 2.0 + 1.0) / 4)
    alike = Script(latency_s=0.25, pilot_s=2.0, full_s=2.0, slots=4)
    assert alike.bound(ideas=3, seeds=2, concurrency=99) == 2 * 0.25 + 3 * 2.0  # 9 trials: 3 waves
    assert script.bound(ideas=100, seeds=1, concurrency=1) == 200.0


@pytest.mark.parametrize(("pilot_s", "full_s"), [(0.0, 0.0), (0.0004, 0.5), (0.25, 0.2501)])
def test_makespan_refuses_lengths_that_its_bound_cannot_reckon_with(
    pilot_s: float, full_s: float
) -> None:
    with pytest.raises(ValueError, match="whole milliseconds"):
        Script(pilot_s=pilot_s, full_s=full_s)


@pytest.mark.parametrize("ideas", [3, 24])
async def test_makespan_bound_counts_every_trial(ideas: int, tmp_path: Path) -> None:
    """With one slot, and nothing that takes time but full trials, it is what they take."""
    script = Script(latency_s=0.0, pilot_s=0.0, full_s=0.01, slots=1)
    _, bound = await makespan.campaign(tmp_path, ideas, script)
    events = journal.events(RunPaths(tmp_path / "run").journal)
    queued = [e for e in events if isinstance(e, TrialQueued) and e.stage is not Stage.PILOT]
    assert any(e.idea_id == BASELINE_ID and e.attempt > BASELINE_ATTEMPT for e in queued) == (
        ideas >= 10
    )
    assert bound == pytest.approx(script.full_s * len(queued))


def test_startup_measures_the_installed_command(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[list[str]] = []
    seconds = iter([9.0, 9.0, 2.0, 3.0])  # the first of each only fills caches

    def taken(line: list[str]) -> float:
        lines.append(line)
        assert measured(line) > 0  # the command is there and ends well
        return next(seconds)

    measured = startup._seconds
    monkeypatch.setattr(startup, "_seconds", taken)
    (figure,) = startup.figures(runs=1)
    assert (figure.value, figure.ratio, figure.spread) == (3.0, 1.5, 0.0)
    assert [Path(line[0]).name for line in lines[2:]] == [Path(sys.executable).name, "hpcsci"]


def test_seconds_are_those_of_the_whole_process() -> None:
    assert startup._seconds([sys.executable, "-c", "import time; time.sleep(0.2)"]) >= 0.2
    with pytest.raises(subprocess.CalledProcessError):
        startup._seconds([sys.executable, "-c", "raise SystemExit(1)"])


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
