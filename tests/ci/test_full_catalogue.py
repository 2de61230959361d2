"""Every test that the gate leaves out belongs to exactly one suite of .ci/full."""

from __future__ import annotations

import subprocess
import sys
from fnmatch import fnmatchcase
from itertools import chain, combinations
from pathlib import Path

import pytest
from suites import catalogue

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
SETS = list(
    chain.from_iterable(
        combinations(catalogue.MARKERS, n) for n in range(1, len(catalogue.MARKERS) + 1)
    )
)
NAMES = {suite.name for suite in catalogue.SUITES}


def test_whatever_is_marked_belongs_to_a_suite() -> None:
    for file in FILES:
        for markers in SETS:
            assert catalogue.suite_of(file, markers) in NAMES, (file, markers)
        assert catalogue.suite_of(file, ()) is None


def test_the_gate_leaves_out_what_the_suites_run() -> None:
    # In words, not by importing: a second conftest module would be another one.
    text = (ROOT / "tests" / "conftest.py").read_text()
    assert 'PLACES = ("slurm", "apptainer", "serving", "browser", "tex")' in text
    assert 'LEFT_OUT = (*PLACES, "full")' in text
    assert set(catalogue.MARKERS) == {"slurm", "apptainer", "serving", "browser", "tex", "full"}


def test_claims_name_suites_and_files_that_are_there() -> None:
    claimed = {name for name, _, _ in catalogue.CLAIMS}
    assert claimed == NAMES
    for name, _, globs in catalogue.CLAIMS:
        for glob in globs:
            assert any(fnmatchcase(file, glob) for file in FILES), (name, glob)


@pytest.mark.parametrize(
    ("file", "markers", "suite"),
    [
        ("tests/slurm/test_smoke.py", ["slurm", "apptainer", "e2e"], "smoke"),
        ("tests/slurm/test_devcluster_up.py", ["slurm"], "cluster"),
        ("tests/slurm/test_faults_nodes.py", ["slurm"], "slurm"),
        ("tests/slurm/test_digits_on_slurm.py", ["slurm", "apptainer", "e2e"], "slurm"),
        ("tests/slurm/test_faults_driver.py", ["slurm"], "once"),
        ("tests/slurm/test_hostile_on_slurm.py", ["slurm", "apptainer"], "sandbox"),
        ("tests/execution/test_hostile_container.py", ["apptainer"], "sandbox"),
        ("tests/execution/test_real_container.py", ["apptainer"], "containers"),
        ("tests/doctor/test_walls.py", ["apptainer"], "containers"),
        ("tests/doctor/test_doctor_on_slurm.py", ["slurm"], "doctor"),
        ("tests/e2e/test_controller.py", ["slurm"], "controller"),
        ("tests/e2e/test_served.py", ["slurm", "serving"], "serving"),
        ("tests/recipe/test_recipes_run.py", ["serving"], "recipes"),
        ("tests/bench/test_bench_slurm.py", ["slurm"], "benchmarks"),
        ("tests/papers/test_tex_engine.py", ["tex"], "papers"),
        ("tests/e2e/test_papers_by_tex.py", ["e2e", "tex"], "papers"),
        ("tests/report/test_in_browser.py", ["browser"], "browser"),
        ("tests/e2e/test_kill.py", ["full"], "long"),
        ("tests/e2e/test_long_sweep.py", ["full", "e2e"], "soak"),
    ],
)
def test_suite_of(file: str, markers: list[str], suite: str) -> None:
    assert catalogue.suite_of(file, markers) == suite


def test_chosen_keeps_the_order_and_refuses_unknown_names() -> None:
    assert [suite.name for suite in catalogue.chosen(["long", "cluster"])] == ["cluster", "long"]
    assert catalogue.chosen([]) == catalogue.SUITES
    with pytest.raises(catalogue.UnknownSuite, match=r"'faults'.* smoke, cluster,"):
        catalogue.chosen(["slurm", "faults"])


def test_what_takes_longest_begins_first() -> None:
    long, short = catalogue.Suite("a", "", minutes=9), catalogue.Suite("b", "", minutes=1)
    assert catalogue.longest_first([short, long, short]) == [long, short, short]


def test_command_line_lists_and_refuses() -> None:
    def full(*arguments: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, ROOT / ".ci" / "full", *arguments]
        return subprocess.run(line, capture_output=True, text=True, check=False)

    listed = full("--list")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [
        suite.name for suite in catalogue.SUITES
    ]
    refused = full("slurm", "nosuch")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.count("\n") == 1
    assert "'nosuch'" in refused.stderr
    assert ", ".join(suite.name for suite in catalogue.SUITES) in refused.stderr


def test_readme_tells_what_each_suite_holds() -> None:
    text = (ROOT / "tests" / "README.md").read_text()
    assert [suite.name for suite in catalogue.SUITES if f"| {suite.name} |" not in text] == []
