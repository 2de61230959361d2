"""What every benchmark prints, and the time of `hpcsci --help`; no time is asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hpcscientist.bench import startup
from hpcscientist.bench.figure import Figure
from hpcscientist.cli.main import run


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
    assert "at most 0.6: met" in capsys.readouterr().out


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
    assert "at least 0.6: NOT met" in capsys.readouterr().out
