"""Cases in real pytest processes: told as they end, and nothing lost where a process dies."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from suites import catalogue, suite_run
from suites.records import FAILED, HUNG, NO_GPU, PASSED, SKIPPED, Result
from suites.retrying import run_cases
from suites.suite_run import SuiteRun

ROOT = Path(__file__).resolve().parents[2]
CASES = """
import pathlib
import pytest

here = pathlib.Path(__file__).parent

def test_fails_once():
    mark = here / "tried"
    if not mark.exists():
        mark.touch()
        raise ValueError("not yet")

def test_passes():
    with (here / "log" / "daemon.log").open("a") as file:
        file.write("said during it\\n")
    print("told by the test")

def test_has_no_gpu():
    pytest.skip("no GPU on this machine")

@pytest.mark.timeout(1800)
def test_is_skipped():
    pytest.skip("NOT TESTED: no engine")

@pytest.mark.slurm
def test_marked():
    pass
"""
CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--full", action="store_true")
"""
# Stands in for the recorder with its pytest, which takes a hundred times as long: each case does
# what its name says.
STAND_IN = """
import json, os, sys, time

request = json.load(open(sys.argv[1]))
usual = float(sys.argv[sys.argv.index("-o") + 1].removeprefix("timeout="))
code = 0

def tell(**event):
    with open(request["events"], "a") as file:
        file.write(json.dumps(event) + "\\n")

for case in request["cases"]:
    act = case.partition("::test_")[2]
    if act == "is_nowhere":
        continue
    said = os.fstat(1).st_size
    tell(event="begin", case=case, at=time.monotonic(), limit_s=usual, logs={}, said=said)
    if act == "dies":
        print("last words", flush=True)
        os._exit(3)
    if act == "hangs":
        time.sleep(3600)
    if act == "breaks_later":
        code = 7
    tell(event="end", case=case, outcome="passed", reason="", seconds=0.1, text="", logs={})
sys.exit(code)
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


def suite_run_in(folder: Path, ci: Path) -> SuiteRun:
    """A run of the suite "slurm" in a project of the cases above."""
    clone, logs, work = folder / "clone", folder / "logs", folder / "work"
    (clone / "tests" / "log").mkdir(parents=True)
    (clone / ".ci").symlink_to(ci)
    (clone / "tests" / "log" / "daemon.log").write_text("said before\n")
    (clone / "tests" / "test_it.py").write_text(CASES)
    (clone / "tests" / "conftest.py").write_text(CONFTEST)
    (clone / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\naddopts = "-p pytest_timeout"\ntimeout = 600\n'
        'markers = ["slurm: x"]\n'
    )
    (suite,) = catalogue.chosen(["slurm"])
    made = SuiteRun(suite, SimpleNamespace(folder=work), folder, logs)  # type: ignore[arg-type]
    made.folder.mkdir(parents=True)
    made.logs.mkdir(parents=True)
    made.services = HereServices(clone)  # type: ignore[assignment]
    made._room = HereRoom()  # type: ignore[assignment]
    return made


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SuiteRun, "fresh", lambda self: None)
    monkeypatch.setattr(suite_run, "_POLL_S", 0.01)


@pytest.fixture
def real(tmp_path: Path) -> SuiteRun:
    return suite_run_in(tmp_path, ROOT / ".ci")


@pytest.fixture
def run(tmp_path: Path) -> SuiteRun:
    stand_in = tmp_path / "stand-in" / "suites" / "recorder.py"
    stand_in.parent.mkdir(parents=True)
    stand_in.write_text(STAND_IN)
    return suite_run_in(tmp_path, stand_in.parents[1])


def named(*names: str) -> list[str]:
    return [f"tests/test_it.py::test_{name}" for name in names]


def tried(run: SuiteRun, *names: str) -> list[Result]:
    return list(run_cases("slurm", named(*names), run))


def outcomes(results: list[Result]) -> list[list[str]]:
    return [[each.outcome for each in result.tries] for result in results]


def test_what_comes_of_each_and_its_logs(real: SuiteRun) -> None:
    results = tried(real, "fails_once", "passes", "has_no_gpu", "is_skipped")
    assert outcomes(results) == [[FAILED, PASSED], [PASSED], [NO_GPU], [SKIPPED, SKIPPED]]
    again, passed = results[0].tries, results[1].tries[0]
    assert again[0].reason == "ValueError: not yet (call)"
    assert "raise ValueError" in (Path(again[0].log) / "pytest.txt").read_text()
    assert Path(again[0].log) == real.logs / "test_it.test_fails_once" / "first"
    assert Path(again[1].log) == real.logs / "test_it.test_fails_once" / "second"
    # Once: nothing runs in a process, or on a cluster, in which a case has failed.
    assert (Path(passed.log) / "daemon.log").read_text() == "said during it\n"
    daemon = real.services.clone / "tests" / "log" / "daemon.log"
    assert daemon.read_text() == "said before\nsaid during it\n"
    assert "told by the test" in (Path(passed.log) / "pytest.txt").read_text()
    assert results[3].tries[0].reason == "NOT TESTED: no engine"
    told = [json.loads(line) for line in (real.folder / "events-3").read_text().splitlines()]
    limits = {event["case"]: event["limit_s"] for event in told if event["event"] == "begin"}
    assert limits == dict.fromkeys(named("passes", "has_no_gpu"), 900) | {
        named("is_skipped")[0]: 1800
    }


def test_a_process_that_dies_costs_its_case_alone(run: SuiteRun) -> None:
    results = tried(run, "passes", "dies", "passes_too")
    assert outcomes(results) == [[PASSED], [FAILED, FAILED], [PASSED]], results
    assert results[1].tries[0].reason == "pytest ended (3) in the middle of it"
    assert "last words" in (Path(results[1].tries[0].log) / "pytest.txt").read_text()


def test_a_case_that_hangs_is_ended_and_the_next_runs(
    run: SuiteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[dict[str, Any]] = []

    def over(event: dict[str, Any], suite: catalogue.Suite) -> float:
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
    assert "last case" in results[1].tries[0].reason


def test_a_case_that_is_not_there_is_no_endless_loop(run: SuiteRun) -> None:
    results = tried(run, "passes", "is_nowhere")
    assert outcomes(results) == [[PASSED], [FAILED, FAILED]]


def test_marked_tests_are_collected_and_what_cannot_be_read_is_told(real: SuiteRun) -> None:
    (real.services.clone / "tests" / "test_broken.py").write_text("import nothing_of_that_name\n")
    cases, unread = real.collect()
    assert [(case.name, case.file, case.markers) for case in cases] == [
        ("tests/test_it.py::test_marked", "tests/test_it.py", ("slurm",))
    ]
    (line,) = unread
    assert "tests/test_broken.py" in line


def test_own_limit_of_a_case_counts_from_its_begin(run: SuiteRun) -> None:
    own = suite_run._limit_of({"limit_s": 1800.0}, run.suite)
    usual = suite_run._limit_of({"limit_s": 0.0}, replace(run.suite, limit_s=900))
    assert own - usual == 900.0
