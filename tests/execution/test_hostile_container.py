"""Hostile candidates in the real container, and a good one beside each."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from container_kit import image, image_processes, needs_container
from hostile_candidates import HOSTILE, write_trials
from hostile_kit import (
    GOOD,
    HONEST,
    HONEST_ACCURACY,
    Hostile,
    HostileBench,
    Surroundings,
    unscathed,
    verify,
    write_trial,
)
from hostile_listener import listening, own_addresses
from trialkit import assert_nothing_runs

from hpcscientist.files.rundir import TrialPaths
from hpcscientist.records.site import Host
from hpcscientist.records.trial import Scored, TrialReport, TrialSpec
from hpcscientist.results.store import read_result
from hpcscientist.worker import entry

pytestmark = needs_container

WORKER = "import sys; from hpcscientist.worker.entry import run_trial; run_trial(sys.argv[1])"


@pytest.fixture(scope="module")
def called() -> Iterator[tuple[tuple[str, int], list[object]]]:
    """An address at which somebody listens, and who called there."""
    with listening() as (port, calls):
        yield ("127.0.0.1", port), calls


@pytest.fixture
def bench(tmp_path: Path) -> HostileBench:
    return HostileBench(tmp_path / "bench").prepare()


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A node's scratch; nothing may be left in it, nor where temporary files lie."""
    elsewhere, folder = tmp_path / "tmp", tmp_path / "node"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    yield folder
    assert list(elsewhere.iterdir()) == []
    assert list(folder.iterdir()) == []


@pytest.fixture
def around(bench: HostileBench, called: tuple[tuple[str, int], list[object]]) -> Surroundings:
    """What the candidates may know, another trial included that is never run."""
    (_, port), _ = called
    other = bench.run.trial(bench.trial("pass", "another").trial_id)
    (other.out / "predictions.csv").write_text(HONEST)
    return Surroundings(
        other_trial=str(other.root),
        loopback=("127.0.0.1", port),
        node=(own_addresses()[0], port),
        controller=(socket.gethostname(), port),
    )


def scored(paths: TrialPaths) -> bool:
    report = read_result(paths)
    return report is not None and report.outcome == Scored(metrics={"accuracy": HONEST_ACCURACY})


@pytest.mark.parametrize("hostile", HOSTILE, ids=[hostile.name for hostile in HOSTILE])
def test_it_is_contained_and_a_good_one_beside_it_is_scored(
    hostile: Hostile,
    bench: HostileBench,
    scratch: Path,
    around: Surroundings,
    called: tuple[tuple[str, int], list[object]],
) -> None:
    host = Host(scratch=str(scratch))
    spec = write_trial(bench, hostile, image(), around, host)
    limits = {"deadline_s": 600.0}
    good = write_trial(bench, Hostile("good", GOOD, "scored", limits=limits), image(), around, host)
    paths, beside = (bench.run.trial(trial.trial_id) for trial in (spec, good))
    files = bench.files()
    with subprocess.Popen([sys.executable, "-c", WORKER, str(beside.root)]) as worker:
        while not (beside.out / "begun").exists():
            assert worker.poll() is None
            psutil.wait_procs([psutil.Process(worker.pid)], timeout=0.02)
        entry.run_trial(str(paths.root))
        assert worker.poll() is None
        (beside.out / "go on").touch()
    assert scored(beside)
    report = read_result(paths)
    assert report is not None
    verify(hostile, report, paths)
    unscathed(Path(around.other_trial))
    assert bench.files() == files
    assert called[1] == []
    assert_nothing_runs()
    assert psutil.wait_procs(image_processes(), timeout=300)[1] == []


def test_one_worker_runs_them_one_after_another(
    bench: HostileBench, scratch: Path, around: Surroundings
) -> None:
    """As an array task does that was given several short trials."""
    host = Host(scratch=str(scratch), copy_image=False)
    names = ("labels-by-path", "predictions-nan", "forks-without-end", "daemon-after-its-end")
    trials = [
        (hostile, spec)
        for hostile, spec in write_trials(bench, image(), around, host)
        if hostile.name in names
    ]
    for hostile, spec in trials:
        paths = bench.run.trial(spec.trial_id)
        entry.run_trial(str(paths.root))
        verify(hostile, reported(spec, paths), paths)
    assert len(trials) == len(names)


def reported(spec: TrialSpec, paths: TrialPaths) -> TrialReport:
    report = read_result(paths)
    assert report is not None
    assert report.usage.node == os.uname().nodename
    return report
