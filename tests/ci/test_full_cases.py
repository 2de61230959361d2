"""Cases in real pytest processes: told as they end, and nothing lost where a process dies."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from suites import plan, suite_run
from suites.records import FAILED, HUNG, NO_GPU, PASSED, SKIPPED, Result
from suites.retrying import run_cases
from suites.suite_run import SuiteRun

ROOT = Path(__file__).resolve().parents[2]
CASES = """
import os, pathlib, signal, time
import pytest

here = pathlib.Path(__file__).parent
log = here / "log" / "daemon.log"

@pytest.fixture(scope="module")
def breaks_later():
    yield
    raise RuntimeError("left something behind")

def test_passes():
    with log.open("a") as file:
        file.write("said during it\\n")
    print("told by the test")

def test_fails_once():
    mark = here / "tried"
    if not mark.exists():
        mark.touch()
        raise ValueError("not yet")

def test_has_no_gpu():
    pytest.skip("no GPU on this machine")

def test_is_skipped():
    pytest.skip("NOT TESTED: no engine")

def test_dies(capfd):
    with capfd.disabled():
        print("last words", flush=True)
    os._exit(3)

def test_hangs():
    time.sleep(3600)

def test_passes_too():
    pass

def test_breaks_later(breaks_later):
    pass

@pytest.mark.slurm
def test_marked():
    pass
"""


class HereRoom:
    """A room that is none: commands run here."""

    def start(
        self, argv: Sequence[str | Path], cwd: Path, env: Mapping[str, str], output: Path
    ) -> subprocess.Popen[bytes]:
        with output.open("ab") as file:
            return subprocess.Popen(
                [*map(str, argv)],
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


class HereServices:
    """A project with the cases above, run by this interpreter; `fresh` is counted."""

    def __init__(self, clone: Path) -> None:
        self.clone, self.python = clone, Path(sys.executable)
        # Only the plugin that is asked for: each process starts in a third of the time.
        self.env = {"PATH": "/usr/bin:/bin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        self.log_folders = [str(clone / "tests" / "log")]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SuiteRun:
    clone = tmp_path / "clone"
    (clone / "tests" / "log").mkdir(parents=True)
    (clone / ".ci").symlink_to(ROOT / ".ci")
    (clone / "tests" / "log" / "daemon.log").write_text("said before\n")
    (clone / "tests" / "test_it.py").write_text(CASES)
    options = 'def pytest_addoption(parser):\n    parser.addoption("--full", action="store_true")\n'
    (clone / "tests" / "conftest.py").write_text(options)
    (clone / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\naddopts = "-p pytest_timeout"\ntimeout = 600\n'
        'markers = ["slurm: x"]\n'
    )
    logs = tmp_path / "logs"
    (logs / "slurm").mkdir(parents=True)
    (suite,) = plan.chosen(["slurm"])

    class Work:
        folder = tmp_path / "work"

    made = SuiteRun(suite, Work(), tmp_path, logs)  # type: ignore[arg-type]
    made.folder.mkdir(parents=True)
    made.services = HereServices(clone)  # type: ignore[assignment]
    made._room = HereRoom()  # type: ignore[assignment]
    monkeypatch.setattr(SuiteRun, "fresh", lambda self: None)
    monkeypatch.setattr(suite_run, "_POLL_S", 0.01)
    return made


def named(*names: str) -> list[str]:
    return [f"tests/test_it.py::test_{name}" for name in names]


def tried(run: SuiteRun, *names: str) -> list[Result]:
    return list(run_cases("slurm", named(*names), run))


def outcomes(results: list[Result]) -> list[list[str]]:
    return [[each.outcome for each in result.tries] for result in results]


def test_what_comes_of_each_and_its_logs(run: SuiteRun) -> None:
    results = tried(run, "passes", "fails_once", "has_no_gpu", "is_skipped")
    assert outcomes(results) == [[PASSED], [FAILED, PASSED], [NO_GPU], [SKIPPED, SKIPPED]]
    first, again = results[0].tries[0], results[1].tries
    assert Path(first.log) == run.logs / "test_it.test_passes" / "first"
    assert (Path(first.log) / "daemon.log").read_text() == "said during it\n"
    assert "told by the test" in (Path(first.log) / "pytest.txt").read_text()
    assert again[0].reason == "ValueError: not yet (call)"
    assert "raise ValueError" in (Path(again[0].log) / "pytest.txt").read_text()
    assert Path(again[1].log) == run.logs / "test_it.test_fails_once" / "second"
    assert results[3].tries[0].reason == "NOT TESTED: no engine"


def test_a_process_that_dies_costs_its_case_alone(run: SuiteRun) -> None:
    results = tried(run, "passes", "dies", "passes_too")
    assert outcomes(results) == [[PASSED], [FAILED, FAILED], [PASSED]], results
    assert results[1].tries[0].reason == "pytest ended (3) in the middle of it"
    assert "last words" in (Path(results[1].tries[0].log) / "pytest.txt").read_text()


def test_a_case_that_hangs_is_ended_and_the_next_runs(
    run: SuiteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[dict[str, Any]] = []

    def over(event: dict[str, Any], suite: plan.Suite) -> float:
        """The limit of the case that hangs has passed as soon as it has begun."""
        begun.append(event)
        return 0.0 if "hangs" in event["case"] else 600.0

    monkeypatch.setattr(suite_run, "_limit_of", over)
    results = tried(run, "hangs", "passes_too")
    assert outcomes(results) == [[HUNG, HUNG], [PASSED]]
    assert {event["limit_s"] for event in begun} == {float(run.suite.limit_s)}


def test_what_breaks_after_the_last_case_is_not_good(run: SuiteRun) -> None:
    results = tried(run, "passes", "breaks_later")
    assert outcomes(results) == [[PASSED], [FAILED, FAILED]]
    assert "left something behind" in results[1].tries[0].reason


def test_a_case_that_is_not_there_is_no_endless_loop(run: SuiteRun) -> None:
    results = tried(run, "passes", "nowhere")
    assert outcomes(results) == [[PASSED], [FAILED, FAILED]]


def test_marked_tests_are_collected_and_what_cannot_be_read_is_told(run: SuiteRun) -> None:
    (run.services.clone / "tests" / "test_broken.py").write_text("import nothing_of_that_name\n")
    cases, unread = run.collect()
    assert [(case.name, case.file, case.markers) for case in cases] == [
        ("tests/test_it.py::test_marked", "tests/test_it.py", ("slurm",))
    ]
    (line,) = unread
    assert "tests/test_broken.py cannot be read" in line


def test_own_limit_of_a_case_counts_from_its_begin(run: SuiteRun) -> None:
    own = suite_run._limit_of({"limit_s": 1800.0}, run.suite)
    usual = suite_run._limit_of({"limit_s": 0.0}, replace(run.suite, limit_s=900))
    assert own - usual == 900.0
