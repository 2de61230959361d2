from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import psutil
import pytest

from hpcscientist.execution import presence
from hpcscientist.execution.presence import Presence
from hpcscientist.files.rundir import TrialPaths


def write(paths: TrialPaths, **fields: object) -> None:
    paths.worker.write_text(Presence.model_validate(fields).model_dump_json())


def test_announce_says_who_runs_which_run(tmp_path: Path) -> None:
    paths, me = TrialPaths(tmp_path), psutil.Process()
    presence.announce(paths, 2)
    assert presence.read(paths) == Presence(
        host=socket.gethostname(), pid=me.pid, started=me.create_time(), run=2
    )


@pytest.mark.parametrize("content", ["", "{", '{"host": 1}'])
def test_an_unreadable_file_is_nobody(tmp_path: Path, content: str) -> None:
    paths = TrialPaths(tmp_path)
    assert presence.read(paths) is None
    paths.worker.write_text(content)
    assert presence.read(paths) is None
    assert presence.live_worker(paths) is None


def test_live_worker_is_exactly_that_process(tmp_path: Path) -> None:
    paths, host = TrialPaths(tmp_path), socket.gethostname()
    with subprocess.Popen(["sleep", "60"]) as child:
        started = psutil.Process(child.pid).create_time()
        known = {"host": host, "pid": child.pid, "started": started, "run": 1}
        write(paths, **known)
        live = presence.live_worker(paths, 1)
        assert live is not None
        assert live.pid == child.pid
        assert presence.live_worker(paths) is not None
        assert presence.live_worker(paths, 2) is None
        write(paths, **known | {"host": "elsewhere"})
        assert presence.live_worker(paths, 1) is None
        write(paths, **known | {"started": started - 1000})  # the process id was reused
        assert presence.live_worker(paths, 1) is None
        write(paths, **known)
        child.kill()
        child.wait()
        assert presence.live_worker(paths, 1) is None
