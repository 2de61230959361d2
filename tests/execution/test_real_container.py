"""Trials in real containers; see `container_kit` for what they need."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from container_kit import image, image_processes, needs_container
from trialkit import CAMPAIGN, Bench, assert_nothing_runs, contained

from hpcscientist.errors import Interrupted
from hpcscientist.execution import trial
from hpcscientist.execution.sandbox.container import of_candidates
from hpcscientist.records.trial import (
    IdeaFailed,
    Isolation,
    MachineFailed,
    Outcome,
    Scored,
    TrialReport,
    TrialSpec,
)
from hpcscientist.system import processes

pytestmark = needs_container

WORKER = """
import pathlib, sys
from hpcscientist.execution import trial
from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.trial import TrialSpec
paths = RunPaths(pathlib.Path(sys.argv[1])).trial(sys.argv[2])
trial.run(TrialSpec.model_validate_json(sys.argv[3]), paths)
"""


def made(bench: Bench, body: str, **changes: Any) -> TrialSpec:
    return contained(bench.trial(body, **changes), image())


def run(bench: Bench, body: str, **changes: Any) -> TrialReport:
    spec = made(bench, body, **changes)
    return trial.run(spec, bench.run.trial(spec.trial_id))


def failure(outcome: Outcome) -> tuple[str, str]:
    assert isinstance(outcome, IdeaFailed | MachineFailed)
    return outcome.failure.value, outcome.detail


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No process, Apptainer's neither, and no private folder outlives a trial."""
    private = tmp_path / "tmp"
    private.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    yield
    assert list(private.iterdir()) == []
    assert_nothing_runs()
    # Apptainer's parent process ends by itself, a moment after the last one in the container.
    assert psutil.wait_procs(image_processes(), timeout=300)[1] == []


def test_scored_with_numpy_processes_and_locks(bench: Bench) -> None:
    body = """
    import multiprocessing, subprocess
    import numpy
    with multiprocessing.Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
    assert subprocess.run(["sh", "-c", "echo $HOME"], capture_output=True).stdout == b"/work\\n"
    assert numpy.ones(3).sum() == 3
    predict()
    """
    assert run(bench, body).outcome == Scored(metrics={"accuracy": 0.75})


def test_what_it_sees(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    hidden = [bench.root, bench.labels, bench.scorer, Path.home() / ".ssh", Path(__file__)]
    body = f"""
    import socket
    for path in {list(map(str, hidden))!r}:
        assert not os.path.exists(path), path
    assert [name for _, name in socket.if_nameindex()] == ["lo"]
    assert not os.listdir("/sys")
    assert "secret" not in str(os.environ)
    assert os.environ["HOME"] == os.getcwd() == "/work"
    assert os.listdir("/data") == ["train"]
    assert os.listdir("/code") == ["experiment.py"]
    others = [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != os.getpid()]
    shown = [open(f"/proc/{{pid}}/cmdline").read() for pid in others]
    assert len(shown) <= 2 and not any("pytest" in line for line in shown), shown
    predict()
    """
    assert run(bench, body).outcome == Scored(metrics={"accuracy": 0.75})


def test_the_image_carries_no_data(bench: Bench) -> None:
    body = """
    import importlib.util
    assert importlib.util.find_spec("sklearn") is None
    for folder, folders, files in os.walk("/"):
        if folder in ("/proc", "/sys"):
            folders[:] = []
        found = [name for name in files if "digits" in name.lower()]
        assert not found, (folder, found)
    predict()
    """
    assert run(bench, body).outcome == Scored(metrics={"accuracy": 0.75})


def test_what_it_may_write(bench: Bench) -> None:
    body = """
    assert os.getuid() != 0
    wanted = {"/work", "/tmp", "/var/tmp", "/dev/shm", "/out"}
    small = {"/dev", "/dev/mqueue"}  # an ordinary user's; of 64 MiB by default
    writable = set()
    for folder, folders, files in os.walk("/"):
        if folder in ("/proc", *wanted):
            folders[:] = []
        if os.access(folder, os.W_OK) and folder != "/proc":
            writable.add(folder)
    writable = {w for w in writable if not w.startswith("/proc/")}
    assert wanted <= writable <= wanted | small, writable
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/data/x",
                 "/code/experiment.py", "/usr/x", "/x"):
        try:
            open(path, "r+" if os.path.exists(path) else "w")
        except OSError:
            continue
        raise SystemExit(f"{path} can be written")
    for part in (1, 2, 3, 4):
        pathlib.Path(f"/work/{part}").write_text("")
    predict()
    """
    assert run(bench, body).outcome == Scored(metrics={"accuracy": 0.75})


@pytest.mark.parametrize("place", ["/out", "/work", "/tmp", "/var/tmp", "/dev/shm"])
def test_whatever_it_writes_is_bounded(bench: Bench, place: str) -> None:
    body = f"""
    for number in range(5):
        pathlib.Path({place!r}, str(number)).write_bytes(b"x" * (2 << 20))
    linger()
    """
    kind, said = failure(run(bench, body, output_mb=8, deadline_s=120.0).outcome)
    assert kind == "error"
    assert "8 MiB" in said


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ("raise RuntimeError('of mine')", "error", "RuntimeError: of mine"),
        ("print('FATAL:   no image'); os._exit(255)", "error", "exit code 255"),
        ("print('FATAL:   no image', flush=True); os._exit(255)", "error", "FATAL:   no image"),
        ("sys.exit(3)", "error", "exit code 3"),
        ("os.kill(os.getpid(), 11)", "error", "signal 11"),
        # With less memory in use a kill is taken for somebody else's doing.
        ("x = b'x' * (300 << 20); os.kill(os.getpid(), 9)", "error", "signal 9"),
        ("os.kill(os.getpid(), 9)", "lost", " of 512 MiB"),
        ("pass", "bad_predictions", "no predictions.csv"),
    ],
)
def test_failures_of_the_candidate(bench: Bench, body: str, kind: str, said: str) -> None:
    found = failure(run(bench, body).outcome)
    assert found[0] == kind
    assert said in found[1]


def test_past_the_deadline_daemons_end_too(bench: Bench) -> None:
    body = "daemon(linger); await_file(OUT / 'daemon'); linger('main')"
    assert failure(run(bench, body, deadline_s=4.0).outcome)[0] == "timeout"
    assert (bench.run.trial("trial-1").out / "main").exists()


def test_a_daemon_ends_with_the_candidate(bench: Bench) -> None:
    body = "predict(); daemon(linger); await_file(OUT / 'daemon')"
    assert run(bench, body).outcome == Scored(metrics={"accuracy": 0.75})


def test_memory_of_the_whole_tree_and_its_processor_time(bench: Bench) -> None:
    body = """
    while time.process_time() < 0.5:
        pass
    def hold():
        held = b"x" * (160 << 20)
        linger(str(os.getpid()))
    daemon(hold)
    daemon(hold)
    linger("main")
    """
    report = run(bench, body, memory_mb=256, deadline_s=120.0)
    assert failure(report.outcome) == (
        "out_of_memory",
        "it used more than the 256 MiB of memory allowed",
    )
    assert report.usage.peak_mb > 256
    assert report.usage.cpu_s >= 0.5


def test_apptainer_itself_leaves_the_candidate_its_memory(bench: Bench) -> None:
    body = "held = b'x' * (100 << 20); time.sleep(0.5); predict()"
    assert run(bench, body, memory_mb=128).outcome == Scored(metrics={"accuracy": 0.75})


def test_stop(bench: Bench) -> None:
    spec, stop = made(bench, "daemon(linger); linger('main')", deadline_s=120.0), threading.Event()
    out = bench.run.trial(spec.trial_id).out

    def stop_it() -> None:
        while not ((out / "main").exists() and (out / "daemon").exists()):
            stop.wait(0.02)
        stop.set()

    watcher = threading.Thread(target=stop_it)
    watcher.start()
    with pytest.raises(Interrupted):
        trial.run(spec, bench.run.trial(spec.trial_id), stop)
    watcher.join()


def test_what_a_killed_worker_leaves_can_be_found_and_ended(bench: Bench) -> None:
    spec = made(bench, "daemon(linger); await_file(OUT / 'daemon'); linger('main')")
    paths = bench.run.trial(spec.trial_id)
    command = [sys.executable, "-c", WORKER, str(bench.run.root), spec.trial_id]
    command.append(spec.model_dump_json())
    environment = {**os.environ, "TMPDIR": str(bench.root)}
    with subprocess.Popen(command, env=environment) as worker:
        while not (paths.out / "main").exists():
            assert worker.poll() is None
            psutil.wait_procs([psutil.Process(worker.pid)], timeout=0.02)
        worker.send_signal(signal.SIGKILL)
    processes.end_marked(CAMPAIGN)


def test_an_image_that_is_none(bench: Bench, tmp_path: Path) -> None:
    junk = tmp_path / "junk.sif"
    junk.write_text("junk")
    spec = contained(bench.trial("predict()"), str(junk))
    kind, said = failure(trial.run(spec, bench.run.trial(spec.trial_id)).outcome)
    assert kind == "setup"
    assert ": FATAL" in said and f"apptainer exec {junk} true" in said


def test_root_says_which_data_its_candidates_cannot_read(bench: Bench) -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: data that only root may read, for this is not root")
    (bench.root / "data" / "train").chmod(0o700)
    kind, said = failure(run(bench, "predict()").outcome)
    assert kind == "setup"
    assert "chmod -R a+rX" in said


def test_the_python_of_an_image_says_what_it_compiles() -> None:
    inside = of_candidates(Isolation.APPTAINER, image(), sys.executable)
    assert inside.version is not None
    assert list(inside.faults({"a.py": "x = 1", "b.py": "x = = 1"})) == ["b.py"]
    # Not by a guess: it says so itself.
    newer = inside.faults({"c.py": "def f[T](x: T) -> T: return x"})
    assert bool(newer) == (inside.version < (3, 12))
