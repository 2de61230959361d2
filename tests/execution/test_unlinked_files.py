"""Bounds that a candidate might get around: files without a name, and many processes."""

from __future__ import annotations

import io
import os
import sys
import threading
from pathlib import Path

import pytest
from pid_namespace_kit import supervised_alone

from hpcscientist.execution.bounds.supervise import (
    BoundedLog,
    Bounds,
    CommandEnd,
    Reason,
    RunPlace,
    supervise,
)
from hpcscientist.execution.bounds.watch import tasks_of_all

MADE = "import mmap, os, sys, threading, time\nhere = os.getcwd()\nMB = b'x' * (1 << 20)\n"


# It takes the machine from whatever runs beside it.
STORM = pytest.mark.full


def run(folder: Path, code: str, **bounds: int) -> CommandEnd:
    limits = {"memory_mb": 512, "output_mb": 8} | bounds
    return supervise(
        [sys.executable, "-c", MADE + code],
        RunPlace(folder, {"PATH": os.environ["PATH"]}),
        Bounds(deadline_s=600, watched=(folder,), **limits),
        threading.Event(),
        BoundedLog(io.BytesIO()),
    )


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            "held = []\nfor n in range(20):\n    held.append(open('f', 'wb', buffering=0))\n"
            "    os.unlink('f')\n    held[-1].write(MB)\ntime.sleep(600)",
            Reason.OUTPUT,
        ),
        (
            "held = []\nfor n in range(20):\n    with open('f', 'w+b', buffering=0) as file:\n"
            "        file.write(MB)\n        held.append(mmap.mmap(file.fileno(), 1 << 20))\n"
            "    os.unlink('f')\ntime.sleep(600)",
            Reason.OUTPUT,
        ),
        (
            "os.mkdir('d')\nheld = [open(f'd/{n}', 'wb', buffering=0) for n in range(20)]\n"
            "os.chmod('d', 0)\nfor file in held: file.write(MB)\ntime.sleep(600)",
            Reason.OUTPUT,
        ),
        (
            "held = [os.memfd_create('x') for _ in range(200)]\n"
            "for fd in held: os.write(fd, MB)\ntime.sleep(600)",
            Reason.MEMORY,
        ),
    ],
    ids=["open", "mapped", "closed folder", "memory only"],
)
def test_what_has_no_name_counts(tmp_path: Path, code: str, reason: Reason) -> None:
    assert run(tmp_path, code, memory_mb=128).reason is reason


@pytest.mark.full
def test_shared_memory_is_no_output_and_counts_once(tmp_path: Path) -> None:
    code = (
        "held = mmap.mmap(-1, 40 << 20)\nheld.write(MB * 40)\nfd = os.memfd_create('x')\n"
        "os.truncate(fd, 40 << 20)\nmore = mmap.mmap(fd, 40 << 20)\nmore.write(MB * 40)\n"
        "time.sleep(1.2)"
    )
    ended = run(tmp_path, code, memory_mb=160, output_mb=64)
    assert (ended.reason, ended.exit_code) == (Reason.EXITED, 0)
    assert 80 < ended.peak_mb < 160


@pytest.mark.parametrize(
    "code",
    [
        "for n in range(200):\n    if os.fork() == 0: time.sleep(600)\ntime.sleep(600)",
        "for n in range(200): threading.Thread(target=time.sleep, args=[600]).start()",
        pytest.param("while True:\n    try: os.fork()\n    except OSError: pass", marks=STORM),
    ],
    ids=["processes", "threads", "without end"],
)
def test_too_many_processes(tmp_path: Path, code: str) -> None:
    ended = supervised_alone(tmp_path, MADE + code, processes=64, memory_mb=8192)
    assert ended.reason is Reason.PROCESSES
    assert (ended.survivors, ended.left) == ([], [])


def test_as_many_as_are_allowed(tmp_path: Path) -> None:
    code = "for n in range(40):\n    if os.fork() == 0: time.sleep(0.3); os._exit(0)\n"
    assert run(tmp_path, code, processes=64).reason is Reason.EXITED


def test_nested_user_namespaces(tmp_path: Path) -> None:
    code = "import ctypes\nif ctypes.CDLL(None).unshare(0x10000000): sys.exit(9)\n"
    ended = run(tmp_path, code + "time.sleep(600)", namespaces=0)
    if ended.exit_code == 9:
        pytest.skip("NOT TESTED: user namespaces, for the kernel forbids them")
    assert ended.reason is Reason.NAMESPACE
    assert run(tmp_path, code + "time.sleep(0.3)", namespaces=1).reason is Reason.EXITED


def test_limits_that_the_kernel_keeps(tmp_path: Path) -> None:
    code = (
        "import resource as r\nfor name in ('NOFILE', 'NPROC', 'FSIZE', 'CORE'):\n"
        "    print(r.getrlimit(getattr(r, 'RLIMIT_' + name)))\n"
        "print(open('/proc/self/oom_score_adj').read())"
    )
    log = io.BytesIO()
    bounds = Bounds(deadline_s=600, memory_mb=512, output_mb=8, processes=100, open_files=256)
    place = RunPlace(tmp_path, {})
    supervise([sys.executable, "-c", code], place, bounds, threading.Event(), BoundedLog(log))
    said = log.getvalue().decode().split("\n")
    assert said[0] == "(256, 256)"
    assert said[2:4] == [f"({8 << 20}, {8 << 20})", "(0, 0)"]
    # Other jobs of the same user leave the candidate its own.
    assert int(said[1].strip("()").split(",")[0]) >= 100 + threading.active_count()
    assert int(said[4]) >= 100


def test_tasks_of_all() -> None:
    before = len([path for path in Path("/proc").iterdir() if path.name.isdigit()])
    assert tasks_of_all() >= before // 2  # others come and go
