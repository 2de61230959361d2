"""How a run ends: its exit status, its table, and nothing of its folder left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from suites import leftovers, main
from suites.catalogue import Suite
from suites.records import FAILED, PASSED, Result, Try
from suites.session import Session
from suites.side_by_side import SIGNALS

ROOT = Path(__file__).resolve().parents[2]
Script = Callable[[Session], None]
Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run `.ci/full long` with a session that does what is given; logs go to `logs`."""
    kept = {number: signal.getsignal(number) for number in SIGNALS}
    mask = os.umask(0o022)
    monkeypatch.setattr(leftovers, "BASE", tmp_path / "base")
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def scripted(script: Script, *more: str) -> int:
        def work(session: Session, suites: Sequence[Suite], with_gate: bool) -> None:
            assert [suite.name for suite in suites] == ["long"]
            assert not with_gate
            assert session.work.folder.is_dir()
            script(session)

        monkeypatch.setattr(Session, "run", work)
        return main.main(["long", "--logs", str(tmp_path / "logs"), *more], ROOT)

    yield scripted
    for number, handler in kept.items():
        signal.signal(number, handler)
    os.umask(mask)
    assert not (tmp_path / "base").exists()


def came(*outcomes: str) -> Script:
    result = Result("long", "t.py::a", tuple(Try(outcome, 1.0) for outcome in outcomes))
    return lambda session: session.report.results.append(result)


@pytest.mark.parametrize(
    ("outcomes", "status"), [((PASSED,), 0), ((FAILED, PASSED), 0), ((FAILED, FAILED), 1)]
)
def test_red_where_a_case_failed_twice(
    run: Run, tmp_path: Path, outcomes: tuple[str, ...], status: int
) -> None:
    assert run(came(*outcomes)) == status
    kept = json.loads((tmp_path / "logs" / "results.json").read_text())
    assert kept["red"] is bool(status)
    last = (tmp_path / "logs" / "table.txt").read_text().splitlines()[-1]
    assert last.startswith("RED" if status else "green")


@pytest.mark.parametrize("number", SIGNALS)
def test_stopped_by_a_signal(run: Run, tmp_path: Path, number: signal.Signals) -> None:
    def stopped(session: Session) -> None:
        came(PASSED)(session)
        signal.raise_signal(number)

    assert run(stopped) == 128 + number
    table = (tmp_path / "logs" / "table.txt").read_text()
    assert f"PROBLEM: stopped by {number.name}" in table
    assert "t.py::a" in table


def test_clusters_of_an_earlier_run_are_taken_down_each_in_its_folder(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("slurm/cluster", "cluster/cluster-test", "cluster/clone", "long/home"):
        (tmp_path / "base" / "4711" / place).mkdir(parents=True)
    downs: list[str] = []

    def noted(line: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        if line[0].endswith("devcluster"):
            assert line[1:] == ["down"]
            downs.append(options["env"]["HPCSCI_DEVCLUSTER_DIR"])
        return subprocess.CompletedProcess(line, 0, "", "")

    monkeypatch.setattr(main.subprocess, "run", noted)
    assert run(came(PASSED)) == 0
    earlier = tmp_path / "base" / "4711"
    assert downs == [str(earlier / "cluster/cluster-test"), str(earlier / "slurm/cluster")]


def test_how_many_side_by_side(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    given: list[int] = []
    assert run(lambda session: given.append(session.at_once), "--side-by-side", "3") == 0
    assert given == [3]
    with pytest.raises(SystemExit) as refused:
        run(came(PASSED), "--side-by-side", "0")
    assert refused.value.code == 2
    assert "give a number from 1" in capsys.readouterr().err


def test_a_living_run_is_not_disturbed(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = leftovers.Workplace.claim(tmp_path / "base", lambda folder: None)
    assert run(came(PASSED)) == 2
    assert f" {tmp_path / 'base'}: " in capsys.readouterr().err
    assert work.folder.is_dir()
    work.remove()
