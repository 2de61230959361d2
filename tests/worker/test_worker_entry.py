from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from trialkit import FILL, Bench, assert_ended, assert_nothing_runs, small_disk

from hpcscientist import __version__
from hpcscientist.execution import presence
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.records.trial import (
    IdeaFailed,
    IdeaFailure,
    Scored,
    TrialReport,
    TrialSpec,
    Usage,
)
from hpcscientist.results.store import read_result, read_table, write_result
from hpcscientist.worker import entry


def worker(trial_dir: Path) -> subprocess.Popen[bytes]:
    code = "import sys; from hpcscientist.worker.entry import run_trial; run_trial(sys.argv[1])"
    return subprocess.Popen([sys.executable, "-c", code, str(trial_dir)])


def test_runs_the_trial_and_writes_its_result(bench: Bench) -> None:
    spec = bench.trial("predict()")
    paths = bench.run.trial(spec.trial_id)
    handlers = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]
    entry.run_trial(str(paths.root))
    report = read_result(paths)
    assert report is not None
    assert report.outcome == Scored(metrics={"accuracy": 0.75})
    known = presence.read(paths)
    assert known is not None
    assert (known.pid, known.run) == (os.getpid(), 1)
    assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)] == handlers
    assert {p.name for p in paths.root.iterdir()} == {
        *("spec.json", "worker.json", "log", "out", "result.arrow")
    }


def test_how_children_end_is_known_where_whoever_started_us_ignores_it(bench: Bench) -> None:
    spec = bench.trial("predict(); sys.exit(4)")
    paths = bench.run.trial(spec.trial_id)
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        entry.run_trial(str(paths.root))
        assert signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGCHLD, before)
    report = read_result(paths)
    assert report is not None
    assert isinstance(report.outcome, IdeaFailed)
    assert report.outcome.failure is IdeaFailure.ERROR


def stored(spec: TrialSpec) -> TrialReport:
    usage = Usage(started_at=1.0, ended_at=2.0, node="n")
    return TrialReport(
        trial_id=spec.trial_id, run=spec.run, outcome=Scored(metrics={"accuracy": 0.1}), usage=usage
    )


def test_a_result_of_this_run_is_left_alone(bench: Bench) -> None:
    spec = bench.trial("predict()")
    paths = bench.run.trial(spec.trial_id)
    write_result(paths, spec, stored(spec))
    entry.run_trial(str(paths.root))
    assert read_result(paths) == stored(spec)
    assert not paths.worker.exists()


@pytest.mark.parametrize("old", ["half-written", "another run"])
def test_any_other_result_is_replaced(bench: Bench, old: str) -> None:
    spec = bench.trial("predict()")
    paths = bench.run.trial(spec.trial_id)
    write_result(paths, spec, stored(spec))
    if old == "half-written":
        paths.result.write_bytes(paths.result.read_bytes()[:100])
    else:
        spec = spec.model_copy(update={"run": 2})
        paths.spec.write_text(spec.model_dump_json())
    entry.run_trial(str(paths.root))
    report = read_result(paths)
    assert report is not None
    assert report.run == spec.run
    assert report.outcome == Scored(metrics={"accuracy": 0.75})


@pytest.mark.parametrize("run", [1, 2])
def test_a_worker_that_stood_still_leaves_what_others_did_meanwhile(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, run: int
) -> None:
    spec = bench.trial("predict()")
    paths, announce = bench.run.trial(spec.trial_id), presence.announce
    later = spec.model_copy(update={"run": run})

    def late(paths: TrialPaths, of: int) -> presence.Presence:
        paths.spec.write_text(later.model_dump_json())
        write_result(paths, later, stored(later))
        return announce(paths, of)

    monkeypatch.setattr(presence, "announce", late)
    entry.run_trial(str(paths.root))
    assert read_result(paths) == stored(later)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_kills_the_tree_and_writes_nothing(bench: Bench, number: int) -> None:
    spec = bench.trial("daemon(linger); await_file(OUT / 'daemon'); linger('main')")
    paths = bench.run.trial(spec.trial_id)
    with worker(paths.root) as process:
        while not (paths.out / "main").exists():
            psutil.wait_procs([psutil.Process(process.pid)], timeout=0.02)
            assert process.poll() is None
        process.send_signal(number)
        assert process.wait(300) == 143
    assert_ended(paths, "daemon", "main")
    assert_nothing_runs()
    assert not paths.result.exists()


@pytest.mark.parametrize("how", ["another worker", "a later run"])
def test_a_worker_that_was_replaced_says_nothing(bench: Bench, how: str) -> None:
    spec = bench.trial("note('begun'); await_file(OUT / 'go on'); predict()")
    paths = bench.run.trial(spec.trial_id)
    with worker(paths.root) as process:
        while not (paths.out / "begun").exists():
            psutil.wait_procs([psutil.Process(process.pid)], timeout=0.02)
            assert process.poll() is None
        if how == "another worker":
            presence.announce(paths, spec.run)
        else:
            paths.spec.write_text(spec.model_copy(update={"run": 2}).model_dump_json())
        kept = {path: path.read_bytes() for path in (paths.spec, paths.worker)}
        (paths.out / "go on").touch()
        assert process.wait(300) == 0
    assert {path: path.read_bytes() for path in kept} == kept
    assert not paths.result.exists()


def test_a_worker_whose_trial_was_compacted_away_leaves_no_folder_behind(bench: Bench) -> None:
    spec = bench.trial(f"note('begun'); await_file({str(bench.root / 'go on')!r})")
    paths = bench.run.trial(spec.trial_id)
    with worker(paths.root) as process:
        while not (paths.out / "begun").exists():
            psutil.wait_procs([psutil.Process(process.pid)], timeout=0.02)
            assert process.poll() is None
        paths.root.rename(bench.root / "removed")
        (bench.root / "go on").touch()
        assert process.wait(300) == 0
    assert list(bench.run.trials.iterdir()) == []


def test_a_trial_that_was_taken_away_before_it_began_stays_away(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = bench.trial("predict()")
    paths, run = bench.run.trial(spec.trial_id), entry.trial.run

    def late(*given: Any) -> TrialReport:
        paths.root.rename(bench.root / "removed")
        return run(*given)

    monkeypatch.setattr(entry.trial, "run", late)
    entry.run_trial(str(paths.root))
    assert list(bench.run.trials.iterdir()) == []


def test_replaced_between_its_report_and_its_result(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = bench.trial("predict()")
    paths = bench.run.trial(spec.trial_id)

    def late(*_: object) -> TrialReport:
        presence.announce(paths, spec.run)
        return stored(spec)

    monkeypatch.setattr(entry.trial, "run", late)
    entry.run_trial(str(paths.root))
    assert not paths.result.exists()


def test_a_result_says_which_slurm_job_it_is_from(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    said = []
    for run in (1, 2):
        spec = bench.trial("predict()", f"trial-{run}")
        entry.run_trial(str(bench.run.trial(spec.trial_id).root))
        report = read_result(bench.run.trial(spec.trial_id))
        assert report is not None
        said.append(report.usage.slurm_job)
        monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "10")
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    assert said == ["12", "10_3"]


@pytest.mark.parametrize(
    ("queued", "kept"), [("0", None), (__version__, "of the driver")], ids=["older", "same"]
)
def test_a_result_says_which_version_ran_it(bench: Bench, queued: str, kept: str | None) -> None:
    spec = bench.trial("predict()")
    driver = {"package_version": queued, "package_hash": "of the driver"}
    changed = spec.model_copy(update={"provenance": spec.provenance.model_copy(update=driver)})
    paths = bench.run.trial(spec.trial_id)
    paths.spec.write_text(changed.model_dump_json())
    entry.run_trial(str(paths.root))
    table = read_table(paths.result)
    assert table is not None
    assert table["package_version"].to_pylist() == [__version__]
    assert table["package_hash"].to_pylist() == [kept]
    assert paths.spec.read_text() == changed.model_dump_json()


def test_a_result_names_its_node_as_slurm_does(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for node in ("n7", ""):
        monkeypatch.setenv("SLURMD_NODENAME", node)
        paths = bench.run.trial(bench.trial("predict()", f"trial-{node}").trial_id)
        entry.run_trial(str(paths.root))
        report, known = read_result(paths), presence.read(paths)
        assert report is not None
        assert known is not None
        assert report.usage.node == (node or socket.gethostname())
        assert known.host == socket.gethostname()


def test_no_space_for_the_result(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(entry, "write_result", refuse)
    paths = bench.run.trial(bench.trial("predict()").trial_id)
    with pytest.raises(SystemExit, match="no space"):
        entry.run_trial(str(paths.root))
    assert not paths.result.exists()


@pytest.mark.root
def test_a_disk_without_room_for_the_result(bench: Bench) -> None:
    with small_disk(bench.run.root, 4):
        paths = bench.run.trial(bench.trial(FILL).trial_id)
        with worker(paths.root) as process:
            assert process.wait(60) == 1
        assert {p.name for p in paths.root.iterdir()} == {"spec.json", "worker.json", "log", "out"}


def test_the_worker_imports_no_model_code() -> None:
    code = (
        "import sys, hpcscientist.worker.entry\n"
        "heavy = ('hpcscientist.models', 'hpcscientist.ideation', 'hpcscientist.campaign',"
        " 'sklearn', 'scipy', 'optuna', 'submitit', 'rich', 'httpx')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert said.stdout.strip() == "[]"
