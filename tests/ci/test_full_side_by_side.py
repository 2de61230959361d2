"""Suites at once, each in a process of its own: what they tell, and that none outlives the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from suites import catalogue, session
from suites.leftovers import identity
from suites.session import Session
from suites.side_by_side import SIGNALS, Job, Tell, run_jobs
from suites.table import Report

CI = str(Path(__file__).resolve().parents[2] / ".ci")
LIMIT_S = 120
# A run with two endless jobs; each tells its process, and how it ended.
RUN = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
from suites.side_by_side import SIGNALS, Stopped, run_jobs

def stop(number, frame):
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise Stopped(number)

def endless(tell):
    try:
        tell("say", os.getpid())
        time.sleep(3600)
    finally:
        tell("say", "taken down")

for number in SIGNALS:
    signal.signal(number, stop)
try:
    run_jobs([(name, endless) for name in "abc"], 2, lambda *told: print(*told, flush=True))
except Stopped as stopped:
    print("stopped by", stopped, flush=True)
"""


def told_by(jobs: dict[str, Callable[[Tell], None]], at_once: int) -> list[tuple[str, Any]]:
    heard: list[tuple[str, Any]] = []
    run_jobs(list(jobs.items()), at_once, lambda *told: heard.append(told))
    return heard


def await_file(path: Path) -> None:
    end = time.monotonic() + LIMIT_S
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.01)


def meets(here: Path, there: Path) -> Callable[[Tell], None]:
    """A job that ends only once the other has begun, too."""

    def job(tell: Tell) -> None:
        here.touch()
        await_file(there)
        tell("say", {"met": there.name, "long": "x" * 200_000})

    return job


def test_as_many_at_once_as_may_be(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    heard = told_by({"a": meets(a, b), "b": meets(b, a)}, 2)
    assert sorted(value["met"] for _, value in heard) == ["a", "b"]


def test_no_more_than_may_be_and_in_order() -> None:
    def job(tell: Tell) -> None:
        tell("say", "begins")
        tell("say", "ends")

    heard = told_by(dict.fromkeys("abc", job), 1)
    assert [value for _, value in heard] == ["begins", "ends"] * 3


def test_what_ends_badly_is_a_problem_and_costs_no_other(capfd: pytest.CaptureFixture[str]) -> None:
    def broken(tell: Tell) -> None:
        tell("say", "so far")
        raise ValueError("no")

    def killed(tell: Tell) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    heard = told_by({"a": broken, "b": killed, "c": lambda tell: tell("say", "well")}, 1)
    assert heard == [
        ("say", "so far"),
        ("problem", "a: its process ended 1"),
        ("problem", "b: its process ended -9"),
        ("say", "well"),
    ]
    assert "ValueError: no" in capfd.readouterr().err


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    line = [sys.executable, "-c", RUN, CI]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as started:
        yield started
        started.kill()


def children(process: subprocess.Popen[str]) -> list[tuple[int, int]]:
    assert process.stdout is not None
    found = [identity(int(process.stdout.readline().split()[1])) for _ in range(2)]
    assert all(start for _, start in found)
    return found


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_takes_each_down_and_begins_none(
    process: subprocess.Popen[str], number: signal.Signals
) -> None:
    begun = children(process)
    process.send_signal(number)
    said, _ = process.communicate(timeout=LIMIT_S)
    assert said.splitlines() == ["say taken down"] * 2 + [f"stopped by {number.name}"]
    assert [identity(pid)[1] for pid, _ in begun] == [0, 0]


def test_none_outlives_a_run_that_is_killed(process: subprocess.Popen[str]) -> None:
    begun = children(process)
    process.kill()
    process.wait(LIMIT_S)
    end = time.monotonic() + LIMIT_S
    while any(identity(pid) == (pid, start) for pid, start in begun):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_must_be_alone_comes_last_and_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[list[str], int]] = []

    def noted(jobs: list[Job], at_once: int, hear: Tell) -> None:
        asked.append(([name for name, _ in jobs], at_once))

    monkeypatch.setattr(session, "run_jobs", noted)
    work: Any = SimpleNamespace(folder=tmp_path)
    made = Session(tmp_path, work, Report(tmp_path, "abc"), at_once=4)
    made.run(catalogue.SUITES, with_gate=False)
    alone = ("sandbox", "benchmarks")
    others = [s.name for s in catalogue.longest_first(catalogue.SUITES) if s.name not in alone]
    assert [(sorted(names), at_once) for names, at_once in asked[1:]] == [(sorted(alone), 1)]
    assert asked[0] == (others, 4)
