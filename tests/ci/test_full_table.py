"""The table at the end, the verdict, and what is kept as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

from suites.records import FAILED, NO_GPU, NOT_RUN, PASSED, SKIPPED, Result, Try
from suites.table import Report, progress


def report(folder: Path, *results: Result) -> Report:
    return Report(folder, "abc1234567", list(results))


GOOD = Result("slurm", "t.py::a", (Try(PASSED, 2.0, log="/l/a"),))
FIXED = Result(
    "slurm", "t.py::b", (Try(FAILED, 1.5, "assert 1 == 2 (call)", "/l/b1"), Try(PASSED, 1.0))
)


def test_green_where_the_last_try_of_each_is_good(tmp_path: Path) -> None:
    gpu = Result("serving", "t.py::g", (Try(NO_GPU, 0.1, "no GPU here"),))
    made = report(tmp_path, GOOD, FIXED, gpu)
    assert not made.red
    text = made.table(whole=False)
    assert "t.py::a" not in text  # folded
    assert re.search(r"^slurm: 2 .*\b1 .*\bfirst\b.* 1 .*\bsecond\b.* 4 s$", text, re.MULTILINE)
    assert re.search(r"^serving: 1 .*\b0 .*\bfirst\b.* 1 .*\bGPU\b.* 0 s$", text, re.MULTILINE)
    (row,) = (line for line in text.splitlines() if "t.py::b" in line)
    assert row.split() == ["slurm", "t.py::b", "failed", "passed", "2.5", "/l/b1"]
    assert "    assert 1 == 2 (call)" in text
    assert text.splitlines()[-1].startswith("green: commit abc1234567")
    assert "t.py::a" in made.table(whole=True)


def test_red_where_a_case_failed_twice_could_not_run_or_was_not_reached(tmp_path: Path) -> None:
    for outcomes in ((FAILED, FAILED), (SKIPPED, SKIPPED), (NOT_RUN,), (SKIPPED,)):
        made = report(tmp_path, GOOD, Result("s", "t.py::x", tuple(Try(o) for o in outcomes)))
        assert made.red, outcomes
        assert made.table(whole=False).splitlines()[-1].startswith("RED")


def test_red_where_something_outside_the_cases_went_wrong(tmp_path: Path) -> None:
    made = report(tmp_path, GOOD)
    made.problems.append("gate: .ci/run ended 1 after 12 s")
    assert made.red
    assert "PROBLEM: gate: .ci/run ended 1 after 12 s" in made.table(whole=False)


def test_a_note_is_no_fault(tmp_path: Path) -> None:
    made = report(tmp_path, GOOD)
    made.notes.append("smoke: holds no test yet")
    assert not made.red
    assert "note: smoke" in made.table(whole=False)


def test_results_are_kept_as_they_come(tmp_path: Path) -> None:
    made = report(tmp_path, GOOD)
    made.save()
    made.results.append(FIXED)
    made.save()
    kept = json.loads((tmp_path / "results.json").read_text())
    assert kept["red"] is False
    assert kept["cases"][1]["tries"][0] == {
        "outcome": FAILED,
        "seconds": 1.5,
        "reason": "assert 1 == 2 (call)",
        "log": "/l/b1",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_progress_is_a_line_a_case() -> None:
    assert progress(3, 41, 12, GOOD) == "[ 12 min] slurm 3/41  passed  2.0 s  t.py::a"
    line = progress(4, 41, 12, FIXED)
    assert "FAILED, THEN PASSED  2.5 s  t.py::b: assert 1 == 2 (call)" in line
