from __future__ import annotations

import io
import itertools
import math
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil
import pytest
from pid_namespace_kit import Alone, supervised_alone
from trialkit import assert_gone, count_from, tell_of_memory

from hpcscientist.execution.bounds import watch
from hpcscientist.execution.bounds.supervise import (
    BoundedLog,
    Bounds,
    CommandEnd,
    Reason,
    RunPlace,
    supervise,
)
from hpcscientist.execution.bounds.watch import Watch
from hpcscientist.system.processes import ProcessTree, ahead_of_others, children

DAEMON = """
import os, signal, sys, time
def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            with open("pid.tmp", "w") as file:
                file.write(str(os.getpid()))
            os.rename("pid.tmp", "pid")
            while True:
                time.sleep(60)
        os._exit(0)
    os.wait()
    while not os.path.exists("pid"):
        time.sleep(0.01)
"""


def run(
    folder: Path,
    code: str,
    bounds: Bounds | None = None,
    stop: threading.Event | None = None,
) -> tuple[CommandEnd, str]:
    log = io.BytesIO()
    ended = supervise(
        [sys.executable, "-c", code],
        RunPlace(folder, {"PATH": os.environ["PATH"]}),
        bounds or Bounds(deadline_s=600, memory_mb=512, output_mb=8, watched=(folder,)),
        stop or threading.Event(),
        BoundedLog(log),
    )
    return ended, log.getvalue().decode()


def test_exit_code_output_and_usage(tmp_path: Path) -> None:
    ended, said = run(tmp_path, "import sys; print('a'); print('b', file=sys.stderr); sys.exit(5)")
    assert (ended.exit_code, ended.signal, ended.reason) == (5, None, Reason.EXITED)
    assert sorted(said.split()) == ["a", "b"]
    assert ended.cpu_s > 0
    assert ended.survivors == ()


def test_memory_is_measured_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tell_of_memory(monkeypatch, tmp_path / "measured")
    code = "import os, time\nwhile not os.path.exists('measured'): time.sleep(0.01)"
    ended, _ = run(tmp_path, code)
    assert ended.reason is Reason.EXITED
    assert 0 < ended.peak_mb < 512


def test_signal_is_told_apart_from_exit(tmp_path: Path) -> None:
    ended, _ = run(tmp_path, "import os; os.kill(os.getpid(), 15)")
    assert (ended.exit_code, ended.signal, ended.reason) == (None, 15, Reason.EXITED)


def test_a_daemon_does_not_outlive_a_normal_exit(tmp_path: Path) -> None:
    ended, _ = run(tmp_path, DAEMON + "daemon()")
    assert ended.reason is Reason.EXITED
    assert_gone(int((tmp_path / "pid").read_text()))


def test_a_daemon_does_not_outlive_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_from(monkeypatch, tmp_path / "pid")
    bounds = Bounds(deadline_s=1, memory_mb=512, output_mb=8)
    ended, _ = run(tmp_path, DAEMON + "daemon()\nwhile True: time.sleep(60)", bounds)
    assert ended.reason is Reason.DEADLINE
    assert ended.signal == 9
    assert_gone(int((tmp_path / "pid").read_text()))


def test_a_chain_of_forks_that_changes_sessions_is_caught(tmp_path: Path) -> None:
    # Each process lives only until it has forked the next: no list of process ids is ever
    # up to date.
    chain = "import os\nwhile True:\n    if os.fork(): os._exit(0)\n    os.setsid()\n"
    ended = supervised_alone(tmp_path, chain)
    assert (ended.survivors, ended.left) == ([], [])


@pytest.mark.full
def test_processes_that_fork_while_they_are_killed_are_caught(tmp_path: Path) -> None:
    code = (
        "import os, signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "for _ in range(3): os.fork()\n"
        "while True:\n    if os.fork() == 0: os.setsid(); os._exit(0)\n"
    )
    ended = supervised_alone(tmp_path, code, deadline_s=1)
    assert (ended.reason, ended.left) == (Reason.DEADLINE, [])


# All want to run at once, each in a session of its own, so that no process group leads to them, and
# the scheduler may count each for a whole group. There is an end to it, should nobody end it.
SPINNING = """
import os, time
for _ in range({doublings}):
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        continue
until = time.monotonic() + 60
while time.monotonic() < until:
    pass
"""


@pytest.mark.parametrize("apart", [True, False])
def test_too_many_sessions_leave_nothing(tmp_path: Path, apart: bool) -> None:
    ended = supervised_alone(tmp_path, SPINNING.format(doublings=7), processes=48, apart=apart)
    assert ended == Alone(Reason.PROCESSES, survivors=[], left=[])


@pytest.mark.parametrize("apart", [True, False])
def test_many_sessions_past_the_deadline_leave_nothing(tmp_path: Path, apart: bool) -> None:
    code = SPINNING.format(doublings=5)
    ended = supervised_alone(tmp_path, code, deadline_s=1, apart=apart)
    assert ended == Alone(Reason.DEADLINE, survivors=[], left=[])


def test_a_look_that_outlasts_the_deadline_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As among a thousand processes that all want to run, where one look takes minutes."""
    censuses = []

    class Slow(ProcessTree):
        def census(
            self, enough: float = math.inf, give_up: Callable[[], bool] = lambda: False
        ) -> tuple[list[int], int]:
            until = time.monotonic() + 5
            while not give_up() and time.monotonic() < until:
                time.sleep(0.01)
            censuses.append(give_up())
            return super().census()

    monkeypatch.setattr("hpcscientist.execution.bounds.supervise.ProcessTree", Slow)
    # With more memory in use than is allowed: the deadline is what ends it all the same.
    ended, _ = run(tmp_path, "import time; time.sleep(600)", Bounds(1, 1, 8))
    assert ended.reason is Reason.DEADLINE
    assert censuses == [True]


def test_a_look_among_ever_more_processes_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are counted again first: there may be too many to look at each."""
    grown, look, held = itertools.count(0, 10_000), watch.memory_mb, list[float | None]()

    def memory_mb(pids: Iterable[int], limit: float, give_up: Callable[[], bool]) -> float | None:
        held.append(look(pids, limit, give_up))
        if held[-1] != 0:
            (tmp_path / "looked").touch()
        return held[-1]

    monkeypatch.setattr(watch, "tasks_of_all", lambda: next(grown))
    monkeypatch.setattr(watch, "memory_mb", memory_mb)
    code = "import os, time\nwhile not os.path.exists('looked'): time.sleep(0.01)"
    ended, _ = run(tmp_path, code)
    assert ended.reason is Reason.EXITED
    assert set(held) <= {0.0, None}
    assert None in held


def test_whoever_watches_runs_ahead_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, looked, seen = os.sched_getscheduler(0), Watch.reason, set[int]()
    with ahead_of_others():
        ahead = os.sched_getscheduler(0)  # as before where that is not allowed

    def reason(self: Watch) -> Reason | None:
        seen.add(os.sched_getscheduler(0))
        return looked(self)

    monkeypatch.setattr(Watch, "reason", reason)
    ended, _ = run(tmp_path, "pass")
    assert ended.reason is Reason.EXITED
    assert seen == {ahead}
    assert os.sched_getscheduler(0) == before


def test_what_was_killed_with_its_namespace_has_its_processor_time_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "hpcscientist.execution.bounds.watch.cpu_s", lambda pids: sum(0 for _ in pids)
    )
    count_from(monkeypatch, tmp_path / "used")
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    while time.process_time() < 0.5: pass\n"
        "    open('used', 'w').close()\n"
        "time.sleep(600)"
    )
    ended, _ = run(tmp_path, code, Bounds(0.1, 512, 8, apart=True))
    assert ended.reason is Reason.DEADLINE
    assert ended.cpu_s > 0.5


AS_USER = """
import io, os, shutil, sys, tempfile, threading
from pathlib import Path
from hpcscientist.execution.bounds import pid_namespace
from hpcscientist.execution.bounds.supervise import BoundedLog
from hpcscientist.execution.bounds.supervise import Bounds, RunPlace, supervise
from hpcscientist.system.processes import prctl
if int(sys.argv[1]):
    os.setgroups([])
    os.setresgid(*[int(sys.argv[1])] * 3)
    os.setresuid(*[int(sys.argv[1])] * 3)
    prctl(4, 1)  # PR_SET_DUMPABLE: as after exec, what /proc has of this process is its own
log, bounds = io.BytesIO(), Bounds(600, 512, 8, processes=320, apart=True)
def said(show, folder, environment):
    place = RunPlace(folder, environment)
    supervise(["sh", "-c", show], place, bounds, threading.Event(), BoundedLog(log))
    return log.getvalue().decode()
print(int(pid_namespace.is_possible()))
"""


def told_in_namespace(uid: int, code: str) -> list[str]:
    """Return what this code prints as a user, by word, if it can make namespaces."""
    who = str(uid if os.geteuid() == 0 else 0)  # 0: whoever we are
    possible, *words = subprocess.run(
        [sys.executable, "-c", AS_USER + code, who], check=True, capture_output=True, text=True
    ).stdout.split()
    if possible == "0":
        pytest.skip("NOT TESTED: there are no namespaces of process ids here")
    return words


LIMITS = """
show = "ulimit -u 2>/dev/null || ulimit -p; cat /proc/sys/kernel/pid_max"
print(int(pid_namespace.counts_own_processes()), said(show, Path("/"), dict(os.environ)))
"""


@pytest.mark.parametrize("uid", [0, 65534])
def test_processes_are_bounded_in_a_namespace_of_their_own(uid: int) -> None:
    """By the kernel, and no others count: those of the user's other trials and programs."""
    counts_own, limit, numbers = map(int, told_in_namespace(uid, LIMITS))
    release = tuple(map(int, os.uname().release.split(".")[:2]))
    if uid or os.geteuid() != 0:
        assert counts_own == (release >= (5, 14))
        assert (limit == 360) == counts_own
    elif release >= (6, 14):
        assert numbers == 300 + 360


IN_SHARED_MEMORY = """
mine, other = (Path(tempfile.mkdtemp(dir="/dev/shm")) for _ in range(2))
elsewhere = Path(tempfile.mkdtemp())
named = elsewhere / "link" if {linked} else mine
if {linked}:
    named.symlink_to(mine)
try:
    (mine / "given").write_text("7")
    show = f"cat given > {{named}}/made; touch /dev/shm/left; ls /dev/shm"
    environment = {{"PATH": os.environ["PATH"], "HOME": str(named), "ELSE": "/dev/shm/nothing"}}
    seen = {{"left": "left", mine.name: "mine", other.name: "other"}}
    print(*sorted(seen.get(name, name) for name in said(show, named, environment).split()))
    print((mine / "made").read_text(), Path("/dev/shm/left").exists())
finally:
    for folder in (mine, other, elsewhere):
        shutil.rmtree(folder)
"""


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no shared memory here")
@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("uid", [0, 65534])
def test_a_folder_in_shared_memory_is_there_and_no_other(uid: int, linked: bool) -> None:
    """A site's TMPDIR may be /dev/shm, or a link to it, and with it a trial's folder."""
    told = told_in_namespace(uid, IN_SHARED_MEMORY.format(linked=linked))
    assert told == ["left", "mine", "7", "False"]


def test_memory_is_watched_over_the_whole_tree(tmp_path: Path) -> None:
    code = (
        "import os, time\nfor _ in range(2):\n"
        "    if os.fork() == 0: break\nheld = b'x' * (100 << 20)\ntime.sleep(600)\n"
    )
    ended, _ = run(tmp_path, code, Bounds(deadline_s=600, memory_mb=200, output_mb=8))
    assert ended.reason is Reason.MEMORY
    assert ended.peak_mb > 200


def test_shared_memory_is_counted_once(tmp_path: Path) -> None:
    code = (
        "import os, time\nheld = b'x' * (80 << 20)\nchildren = [os.fork() for _ in range(1)]\n"
        "if not all(children): time.sleep(1); os._exit(0)\nos.wait()\n"
    )
    ended, _ = run(tmp_path, code, Bounds(deadline_s=600, memory_mb=150, output_mb=8))
    assert (ended.reason, ended.exit_code) == (Reason.EXITED, 0)


def test_many_small_files_past_the_bound(tmp_path: Path) -> None:
    code = (
        "import time\nfor n in range(40): open(f'f{n}', 'wb').write(bytes(1 << 16))\n"
        "time.sleep(600)\n"
    )
    bounds = Bounds(deadline_s=600, memory_mb=512, output_mb=1, watched=(tmp_path,))
    ended, _ = run(tmp_path, code, bounds)
    assert ended.reason is Reason.OUTPUT


def test_one_large_file_is_refused_by_the_kernel(tmp_path: Path) -> None:
    bounds = Bounds(deadline_s=600, memory_mb=512, output_mb=1, watched=(tmp_path,))
    ended, said = run(tmp_path, "open('f', 'wb').truncate(1 << 40)", bounds)
    assert ended.exit_code == 1
    assert "File too large" in said


def test_stop_ends_it(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    ended, _ = run(tmp_path, "import time; time.sleep(600)", stop=stop)
    assert ended.reason is Reason.STOPPED


WORKER = """
import io, sys, threading
from pathlib import Path
from hpcscientist.execution.bounds.supervise import BoundedLog
from hpcscientist.execution.bounds.supervise import Bounds, RunPlace, supervise
log, stop, bounds = BoundedLog(io.BytesIO()), threading.Event(), Bounds(float(sys.argv[3]), 512, 8)
command = [sys.executable, "-c", sys.argv[2]]
print(supervise(command, RunPlace(Path(sys.argv[1]), {}), bounds, stop, log).reason)
"""


def test_nothing_outlives_a_worker_that_is_killed(tmp_path: Path) -> None:
    code = DAEMON + "daemon()\nopen('main', 'w').write(str(os.getpid()))\ntime.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path), code, "600"]) as worker:
        while not (tmp_path / "main").exists() or not (tmp_path / "main").read_text():
            assert worker.poll() is None
            psutil.wait_procs([psutil.Process(worker.pid)], timeout=0.02)
        below = psutil.Process(worker.pid).children(recursive=True)
        assert {int((tmp_path / name).read_text()) for name in ("main", "pid")} < {
            process.pid for process in below
        }
        worker.kill()
    assert psutil.wait_procs(below, timeout=300)[1] == []


GUARDING = """
import os, signal, sys
from hpcscientist.execution.bounds import guard

def note(word):
    with open(sys.argv[1], "a") as file:
        print(word, file=file)

def first(word, call):
    return lambda *given: (note(word), call(*given))

os.killpg = first("group", os.killpg)
guard._end_all = first("search", guard._end_all)
(life, alive), (ready, begun), (told, _) = os.pipe(), os.pipe(), os.pipe()
candidate = os.fork()
if candidate == 0:
    os.close(alive)
    os.setsid()
    os.write(begun, b".")
    signal.pause()
os.read(ready, 1)
os.close(alive)
note(guard._wait(candidate, life, told))
"""


def test_a_guard_ends_the_group_by_one_call_before_it_searches(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", GUARDING, str(tmp_path / "done")], check=True)
    assert (tmp_path / "done").read_text().split() == ["group", "search", "9"]


def test_a_guard_that_is_killed_takes_the_command_with_it(tmp_path: Path) -> None:
    ended, _ = run(tmp_path, DAEMON + "daemon()\nos.kill(os.getppid(), 9)\ntime.sleep(600)")
    assert (ended.reason, ended.signal) == (Reason.EXITED, 9)
    assert_gone(int((tmp_path / "pid").read_text()))


@pytest.mark.full
def test_time_in_which_its_worker_was_suspended_is_not_the_commands(tmp_path: Path) -> None:
    code = (
        "import os, signal, time\nworker = int(open('/proc/%d/stat' % os.getppid()).read().split()"
        "[3])\nos.kill(worker, signal.SIGSTOP)\ntime.sleep(7)\n"
        "os.kill(worker, signal.SIGCONT)\ntime.sleep(0.5)"
    )
    worker = [sys.executable, "-c", WORKER, str(tmp_path), code, "6"]
    assert subprocess.run(worker, check=True, capture_output=True).stdout == b"exited\n"


def test_closing_its_output_hides_nothing(tmp_path: Path) -> None:
    code = "import os, time\nos.close(1); os.close(2)\ntime.sleep(60)"
    ended, _ = run(tmp_path, code, Bounds(deadline_s=1, memory_mb=512, output_mb=8))
    assert ended.reason is Reason.DEADLINE


def test_a_flood_of_output_neither_blocks_nor_fills_the_disk(tmp_path: Path) -> None:
    code = "import os\nfor _ in range(800): os.write(1, b'x' * 65536)\nos.write(1, b'the end')"
    ended, said = run(tmp_path, code)
    assert ended.exit_code == 0
    assert said.endswith("the end")
    (dropped,) = re.findall(r"^\[\.\.\. (\d+) bytes", said, re.MULTILINE)
    assert int(dropped) > 800 * 65536 - 600_000
    assert len(said) < 600_000


def test_children_of_before_are_left_alone(tmp_path: Path) -> None:
    own = os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
    try:
        run(tmp_path, "pass")
        assert own in children(os.getpid())
    finally:
        os.kill(own, 9)
        os.waitpid(own, 0)


def test_limits_inside(tmp_path: Path) -> None:
    code = (
        "import os, resource as r\nprint(r.getrlimit(r.RLIMIT_CORE), r.getrlimit(r.RLIMIT_FSIZE),"
        "r.getrlimit(r.RLIMIT_NOFILE)[0] <= 4096, os.getsid(0) == os.getpid())"
    )
    _, said = run(tmp_path, code)
    assert said.strip() == f"(0, 0) ({8 << 20}, {8 << 20}) True True"


def test_what_cannot_be_started_is_an_os_error(tmp_path: Path) -> None:
    place, bounds = RunPlace(tmp_path, {}), Bounds(1, 64, 1)
    with pytest.raises(FileNotFoundError):
        supervise(["/no/such"], place, bounds, threading.Event(), BoundedLog(io.BytesIO()))
