from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterable
from pathlib import Path

import pytest

from hpcscientist.system import processes


@pytest.mark.parametrize("kernel_lists", [True, False])
def test_children(kernel_lists: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not kernel_lists:
        monkeypatch.setattr(processes, "_kernel_lists_children", lambda: False)
    with subprocess.Popen(["sleep", "60"]) as child:
        assert child.pid in processes.children(os.getpid())
        assert processes.children(child.pid) == []
        child.kill()
    assert child.pid not in processes.children(os.getpid())
    assert processes.children(child.pid) == []


def test_orphans_are_ours_only_while_there_is_a_brood() -> None:
    assert not processes.adopts_orphans(), "an earlier test left this process a subreaper"
    brood = processes.ProcessTree()
    assert processes.adopts_orphans()
    daemon = subprocess.run(
        ["sh", "-c", "sleep 3600 >/dev/null 2>&1 & echo $!"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert brood.pids() == [int(daemon.stdout)]
    assert brood.end() == ()
    assert not processes.adopts_orphans()


SESSION = """
import subprocess
child = subprocess.Popen(["sleep", "3600"], start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""


def test_a_whole_group_is_ended_by_one_call_before_anything_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To stop a thousand processes one by one, while they fork, would take minutes."""
    calls: list[object] = []
    killpg, halt = os.killpg, processes.halt

    def told_killpg(group: int, number: int) -> None:
        calls.append((group, number))
        killpg(group, number)

    def told_halt(roots: Iterable[int]) -> list[int]:
        calls.append("halt")
        return halt(roots)

    monkeypatch.setattr(os, "killpg", told_killpg)
    monkeypatch.setattr(processes, "halt", told_halt)
    brood = processes.ProcessTree()
    with subprocess.Popen([sys.executable, "-c", SESSION], stdout=subprocess.PIPE) as command:
        brood.watch(command)
        assert command.stdout is not None
        group = int(command.stdout.readline())
        assert brood.end() == ()
    assert calls[:2] == [(group, signal.SIGKILL), "halt"]


def test_nobody_counts_further_than_is_asked_for() -> None:
    brood = processes.ProcessTree()
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(4):
                stack.callback(stack.enter_context(subprocess.Popen(["sleep", "3600"])).kill)
            assert brood.census()[1] == 4
            assert brood.census(enough=2)[1] == 3
            assert brood.census(give_up=lambda: True) == ([], 0)
    finally:
        assert brood.end() == ()


def test_ahead_of_others_is_this_thread_alone_and_no_longer_than_said() -> None:
    before = os.sched_getscheduler(0)
    with processes.ahead_of_others():
        inside = os.sched_getscheduler(0)
        code = "import os; print(os.sched_getscheduler(0))"
        child = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE)
    assert os.sched_getscheduler(0) == before
    assert int(child.stdout) == os.SCHED_OTHER
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        assert inside == before
    else:
        os.sched_setscheduler(0, before, os.sched_param(0))
        assert inside == os.SCHED_RR | os.SCHED_RESET_ON_FORK


def test_marked_tells_campaigns_and_trials_apart() -> None:
    own = f"c1-{uuid.uuid4()}"  # the whole machine is looked through
    mark = {"HPCSCI_CAMPAIGN": own, "HPCSCI_TRIAL": "t1"}
    with subprocess.Popen(["/bin/sleep", "60"], env=mark) as child:
        while not processes.marked(own):  # between fork and exec it still has our environment
            assert child.poll() is None
        assert processes.marked(own) == processes.marked(own, "t1") == [child.pid]
        assert processes.marked(own, "t2") == processes.marked(f"{own}-2", "t1") == []
        assert processes.end_marked(own, "t1") == {child.pid}
    assert child.returncode == -9
    assert processes.marked(own) == []


def test_naming_finds_by_folder(tmp_path: Path) -> None:
    folder = tmp_path / "jobs" / "one"
    command = [sys.executable, "-c", "input()", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        while not processes.naming(folder):
            assert child.poll() is None
        assert processes.naming(folder) == [child.pid]
        assert processes.naming(tmp_path / "jobs") == []
        assert processes.naming(tmp_path / "jobs", below=True) == [child.pid]
        assert processes.naming(tmp_path / "job", below=True) == []
        assert processes.kill_trees([child.pid]) == 1
    assert not processes.is_alive(child.pid)


def test_naming_finds_by_the_file_that_stdout_is(tmp_path: Path) -> None:
    folder = tmp_path / "jobs" / "one"
    folder.mkdir(parents=True)
    command = [sys.executable, "-c", "input()"]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log) as child,
    ):
        assert processes.naming(folder) == [child.pid]
        assert processes.naming(tmp_path / "jobs") == []
        assert processes.naming(tmp_path / "jobs", below=True) == [child.pid]
        (folder / "log").unlink()
        assert processes.naming(folder) == [child.pid]
        child.kill()
