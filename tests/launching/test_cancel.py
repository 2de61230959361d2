from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench_campaign import CampaignBench
from queue_stand_in import install

from hpcscientist.errors import CampaignBusy
from hpcscientist.execution.backends.slurm import backend, sweep
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.launching.jobs import cancel

# What a driver on Slurm may take: for its trials, and for what is left of its arrays.
STOPPING_S = backend._STOP_PATIENCE_S + sweep.PATIENCE_S


class Elsewhere:
    """A driver on another host that lets go some time after it was asked, by a clock of its own."""

    def __init__(self, paths: RunPaths, takes_s: float) -> None:
        paths.lock.mkdir()
        self._file = paths.lock / "1.json"
        self._holder = {"host": "elsewhere", "boot": "b", "pid": 1, "started": 1}
        self._takes_s = takes_s
        self.now = 0.0
        self._beat()

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self._beat(released=self.now >= self._takes_s)

    def _beat(self, *, released: bool = False) -> None:
        self._file.write_text(json.dumps(self._holder | {"released": released}))


def paths_on(backend_name: str, folder: Path) -> RunPaths:
    bench = CampaignBench(folder, ideas=1)
    frozen.write(bench.paths, bench.config.model_copy(update={"backend": backend_name}))
    return bench.paths


def test_a_driver_that_waits_for_slow_ends_of_jobs_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = install(tmp_path, monkeypatch)
    paths = paths_on("slurm", tmp_path)
    driver = Elsewhere(paths, takes_s=STOPPING_S + 60.0)
    assert cancel.cancel(paths, driver.wait, lambda: driver.now)
    assert driver.now >= STOPPING_S
    assert queue.submitted() == 0
    assert not paths.cancel_request.exists()


@pytest.mark.parametrize("backend_name", ["local", "slurm"])
def test_a_driver_that_never_lets_go_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend_name: str
) -> None:
    install(tmp_path, monkeypatch)
    paths = paths_on(backend_name, tmp_path)
    driver = Elsewhere(paths, takes_s=1e9)
    with pytest.raises(CampaignBusy, match="elsewhere"):
        cancel.cancel(paths, driver.wait, lambda: driver.now)
    assert driver.now >= cancel.patience_s(frozen.read(paths))
    assert paths.cancel_request.exists()


# Holds a campaign until it is asked to end; `stubborn`: and stops itself whenever it may go on.
DRIVER = """
import os, signal, sys, time
from pathlib import Path
from hpcscientist.history.status import DriverLock
lock = DriverLock(Path(sys.argv[1]))

def ended(number, frame):
    lock.release()
    os._exit(0)

if sys.argv[2] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("held", flush=True)
    while True:
        os.kill(os.getpid(), signal.SIGSTOP)
signal.signal(signal.SIGTERM, ended)
print("held", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
while True:
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("kind", "code", "told"),
    [("docile", 0, "continues"), ("stubborn", -signal.SIGKILL, "killing it")],
)
def test_a_driver_that_was_stopped_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, code: int, told: str
) -> None:
    # By the real clock: another one would run ahead of a driver that gets no processor.
    monkeypatch.setattr(cancel, "WAIT_S", 240.0)
    if kind == "stubborn":
        monkeypatch.setattr(cancel, "AWAKE_S", 0.0)
    paths = paths_on("local", tmp_path)
    command = [sys.executable, "-c", DRIVER, str(paths.lock), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"held\n"
        os.waitid(os.P_PID, driver.pid, os.WSTOPPED | os.WNOWAIT)
        said: list[str] = []

        def wait(seconds: float) -> None:
            time.sleep(seconds)
            driver.poll()

        try:
            assert cancel.cancel(paths, wait, time.monotonic, said.append)
            assert driver.wait(60) == code
        finally:
            driver.kill()
    assert any(told in line for line in said), said
    assert "continues" in said[0]
    assert str(driver.pid) in said[0]
    assert not paths.cancel_request.exists()


def test_folders_of_jobs_that_killed_drivers_left_are_removed(tmp_path: Path) -> None:
    paths = paths_on("local", tmp_path)
    (paths.submission / "idea-0001-a1-pilot-0-1").mkdir(parents=True)
    (paths.submission / "idea-0001-a1-pilot-0-1" / "4711_submitted.pkl").touch()
    assert not cancel.cancel(paths)
    assert list(paths.submission.iterdir()) == []
