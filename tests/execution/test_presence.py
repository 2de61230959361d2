from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import psutil
import pytest

from hpcscientist.execution import presence
from hpcscientist.execution.presence import Presence
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.records.trial import Isolation


def write(paths: TrialPaths, **fields: object) -> None:
    paths.worker.write_text(Presence.model_validate(fields).model_dump_json())


def test_announce_says_who_runs_which_run(tmp_path: Path) -> None:
    paths, me = TrialPaths(tmp_path), psutil.Process()
    mine = presence.announce(paths, 2)
    assert presence.read(paths) == mine
    assert (mine.host, mine.pid) == (socket.gethostname(), me.pid)
    assert (mine.started, mine.run) == (me.create_time(), 2)


def test_two_executions_of_one_run_are_told_apart(tmp_path: Path) -> None:
    paths = TrialPaths(tmp_path)
    paths.spec.write_text('{"run": 1}')
    first = presence.announce(paths, 1)
    assert presence.is_current(paths, first)
    assert not presence.is_replaced(paths, first)
    second = presence.announce(paths, 1)
    assert presence.is_current(paths, second)
    assert not presence.is_current(paths, first)
    assert presence.is_replaced(paths, first)


def test_a_later_run_replaces_the_worker_of_an_earlier_one(tmp_path: Path) -> None:
    paths = TrialPaths(tmp_path)
    paths.spec.write_text('{"run": 2}')
    mine = presence.announce(paths, 1)
    assert presence.is_replaced(paths, mine)
    assert not presence.is_current(paths, mine)


@pytest.mark.parametrize("broken", ["spec", "worker"])
def test_garbage_does_not_replace_a_worker_but_leaves_it_nothing_to_write(
    tmp_path: Path, broken: str
) -> None:
    paths = TrialPaths(tmp_path)
    paths.spec.write_text('{"run": 1}')
    mine = presence.announce(paths, 1)
    (paths.spec if broken == "spec" else paths.worker).write_text("{")
    assert not presence.is_replaced(paths, mine)
    assert not presence.is_current(paths, mine)


@pytest.mark.parametrize("isolation", Isolation)
def test_a_folder_that_was_compacted_away(tmp_path: Path, isolation: Isolation) -> None:
    paths = TrialPaths(tmp_path / "trial-1")
    paths.root.mkdir()
    paths.spec.write_text('{"run": 1}')
    presence.announce(paths, 1)
    assert not presence.is_taken_away(paths, isolation)
    paths.spec.unlink()
    assert not presence.is_taken_away(paths, isolation)
    paths.worker.unlink()
    # Without a sandbox the candidate may have removed both.
    assert presence.is_taken_away(paths, isolation) == (isolation is Isolation.APPTAINER)
    paths.root.rmdir()
    assert presence.is_taken_away(paths, isolation)


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
