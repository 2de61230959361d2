"""A room ends all that is in it, also what nobody knows of, and also where its holder is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from suites.leftovers import Workplace, identity
from suites.rooms import Room
from suites.session import Session
from suites.table import Report

pytestmark = pytest.mark.root

ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
LIMIT_S = 120
# A daemon as they are: in a session of its own, its parent gone, writing to /tmp and mounting.
DAEMON = """
mkdir -p /tmp/disk && mount -t tmpfs tmpfs /tmp/disk && touch /tmp/disk/on
setsid sh -c 'echo up > /tmp/daemon; exec sleep 3600' >/dev/null 2>&1 &
while ! [ -s /tmp/daemon ]; do sleep 0.1; done  # before it, it ends with the shell's group
"""
LISTEN = """
import socket
server = socket.create_server(("127.0.0.1", 22))
socket.create_connection(server.getsockname())
"""
# As Slurm's clients look for "127.0.0.1".
RESOLVE = """
import socket
print(socket.getaddrinfo("127.0.0.1", 1, socket.AF_INET, flags=socket.AI_ADDRCONFIG)[0][4][0])
"""
HOLDER = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from suites.rooms import Room
room = Room(Path(sys.argv[2]))
print(room.first, flush=True)
time.sleep(3600)
"""
# Orphans below a subreaper are its own, and nobody else can reap them.
SUBREAPER = """
import ctypes, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from suites.rooms import Room
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
folder = Path(sys.argv[2])
room = Room(folder)
assert room.run(["sleep", "3600"], Path("/"), dict(os.environ), folder / "out", 0.1) == 124
room.close()
"""


@pytest.fixture(autouse=True)
def namespaces() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to make namespaces: rooms were NOT tested")
    if subprocess.run(["unshare", "--pid", "--fork", "--mount", "true"], check=False).returncode:
        pytest.skip("this machine makes no namespaces: rooms were NOT tested")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "room"
    made.mkdir()
    yield made


def until_gone(pid: int, start: int) -> None:
    end = time.monotonic() + LIMIT_S
    while identity(pid) == (pid, start):
        assert time.monotonic() < end, f"{pid} still lives"
        time.sleep(0.01)


def test_closing_ends_daemons_and_mounts_and_tmp_was_its_own(folder: Path) -> None:
    room = Room(folder)
    first = identity(room.first)
    output = folder / "out"
    try:
        assert room.run(["sh", "-c", DAEMON], Path("/"), ENV, output, LIMIT_S) == 0
        assert room.run(["ls", "/tmp/disk"], Path("/"), ENV, output, LIMIT_S) == 0
        assert output.read_text() == "on\n"
    finally:
        room.close()
    until_gone(*first)
    assert (folder / "tmp" / "daemon").exists()
    assert not (folder / "tmp" / "disk" / "on").exists()
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()


def test_kill_of_its_holder_ends_it(folder: Path) -> None:
    ci = str(Path(__file__).resolve().parents[2] / ".ci")
    line = [sys.executable, "-c", HOLDER, ci, str(folder)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        first = identity(int(holder.stdout.readline()))
        assert first[1] > 0
        holder.kill()
    until_gone(*first)


def test_exit_status_output_limit_and_a_network_of_its_own(folder: Path) -> None:
    room = Room(folder, network=False)
    output = folder / "out"
    try:
        words = ["sh", "-c", "echo $HOME; pwd; tty; exit 7"]
        assert room.run(words, Path("/srv"), ENV | {"HOME": "/h"}, output, LIMIT_S) == 7
        assert output.read_text().splitlines() == ["/h", "/srv", "not a tty"]
        own = ["python3", "-c", "import socket; print(socket.if_nameindex())"]
        assert room.run(own, Path("/"), ENV, folder / "net", LIMIT_S) == 0
        assert (folder / "net").read_text() == "[(1, 'lo')]\n"
        assert room.run(["python3", "-c", LISTEN], Path("/"), ENV, output, LIMIT_S) == 0
        assert room.run(["python3", "-c", RESOLVE], Path("/"), ENV, folder / "name", LIMIT_S) == 0
        assert (folder / "name").read_text() == "127.0.0.1\n"
        assert room.run(["sleep", "3600"], Path("/"), ENV, output, 0.1) == 124
    finally:
        room.close()


def test_what_became_an_orphan_of_its_holder_does_not_keep_it(folder: Path) -> None:
    ci = str(Path(__file__).resolve().parents[2] / ".ci")
    line = [sys.executable, "-c", SUBREAPER, ci, str(folder)]
    ended = subprocess.run(line, check=False, capture_output=True, text=True, timeout=2 * LIMIT_S)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("status", [0, 3])
def test_gate_runs_as_it_is_and_tells_how_it_ended(tmp_path: Path, status: int) -> None:
    gate = tmp_path / "clone" / ".ci" / "run"
    gate.parent.mkdir(parents=True)
    tells = "pwd; tty; echo lowest: $HPCTEST_LOWEST"
    gate.write_text(f"{tells}; sleep 3600 & echo $! >left; exit {status}\n")
    (tmp_path / "report").mkdir()
    report = Report(tmp_path / "report", "abc")
    work = Workplace.claim(tmp_path / "base", lambda folder: None)
    Session(tmp_path / "clone", work, report).gate()
    work.remove()
    said = (tmp_path / "report" / "logs" / "gate.txt").read_text()
    assert said.splitlines() == [str(tmp_path / "clone"), "not a tty", "lowest: all"]
    assert report.red is bool(status)
    (told,) = report.problems or report.notes
    assert told.startswith(f"gate: .ci/run ended {status} after ")
