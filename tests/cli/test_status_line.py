"""The line that `launch` draws anew: what it says, and that it fits."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn_campaigns import draw
from rich.cells import cell_len

from hpcscientist.cli.shared.progress import (
    ProgressPrinter,
    StatusLine,
    clock,
    fitted,
    parts,
    status_line,
)
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal
from hpcscientist.history.state import CampaignState
from hpcscientist.models.serving.order import ServingPaths
from hpcscientist.recipe.load import load
from hpcscientist.views import campaign


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    return draw(tmp_path_factory.mktemp("drawn"), 12)


def followed(paths: RunPaths, serving: Path) -> tuple[StatusLine, CampaignState]:
    metric = load(paths.recipe).spec.primary
    line, state = StatusLine(12, metric, ServingPaths(serving)), CampaignState()
    progress = ProgressPrinter(line)
    for event in journal.events(paths.journal):
        state.apply(event)
        progress(event, state)
    return line, state


def test_it_counts_what_the_campaign_counts_and_names_the_best_mean(
    paths: RunPaths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line, state = followed(paths, tmp_path)
    capsys.readouterr()
    line.above("x")
    drawn = capsys.readouterr().err.rpartition("\x1b[K")[2]
    view = campaign.read(paths)
    counts = view.status["ideas"]
    assert "12/12 ideas (" in drawn or len(drawn) > 70
    said = parts(12, state, line._best)
    assert f"{counts['scored']} scored" in said[0]
    assert f"{counts['failed']} failed" in said[0] or not counts["failed"]
    assert said[3] == f"{view.spending.tokens:,} tokens"
    rows = [row for row in view.rows if row.status == "scored" and row.delta is not None]
    best = max(rows, key=lambda row: row.mean or 0)
    assert line._best is not None
    assert line._best[1] == best.idea_id
    assert line._best[0] == pytest.approx((best.mean or 0) - (best.baseline_mean or 0))


@pytest.mark.parametrize("columns", [10, 40, 79, 119])
def test_it_fits_and_what_matters_comes_first(columns: int) -> None:
    said = (
        "2:14",
        "9/16 ideas (4 open, 3 scored)",
        "2 running",
        "best idea-0005 +0.031",
        "大" * 90,
    )
    line = fitted(said, columns)
    assert cell_len(line) <= columns
    assert line.startswith("2:14")
    assert ("best" in line) == (columns > 60)


def test_while_models_load_it_says_what_the_engine_does(
    paths: RunPaths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line, _ = followed(paths, tmp_path)
    serving = ServingPaths(tmp_path)
    serving.state.write_text("model-x reads weights; its log is /a/log\n")
    capsys.readouterr()
    line.above("x")
    assert "model-x reads weights, 0:00 | " in capsys.readouterr().err
    serving.state.write_text("ready\n")
    line.above("x")
    assert "model-x" not in capsys.readouterr().err


def test_only_a_terminal_has_one(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert status_line(paths) is None
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    assert status_line(paths) is None
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(status_line(paths), StatusLine)
    assert status_line(RunPaths(tmp_path)) is None


def test_once_it_is_taken_away_nothing_is_drawn(
    paths: RunPaths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line, _ = followed(paths, tmp_path)
    with ProgressPrinter(line):
        pass
    capsys.readouterr()
    line._draw()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("seconds", "said"), [(0, "0:00"), (134.9, "2:14"), (3734, "1:02:14")])
def test_the_clock(seconds: float, said: str) -> None:
    assert clock(seconds) == said
