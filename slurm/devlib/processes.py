"""The cluster's processes: started to outlive their shell, found again by a mark, ended.

A daemon carries a mark in its environment, so no process is lost when a record of it is, and
none is taken for another. A node's processes are those of its network namespace.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from devlib.base import MARK, Failed, Places, clean_environment


def start(
    places: Places,
    name: str,
    argv: Sequence[str | Path],
    variables: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a daemon in a session of its own, its output appended to log/NAME.out."""
    env = clean_environment(places, name) | dict(variables or {})
    with (places.log / f"{name}.out").open("ab") as log:
        return subprocess.Popen(
            [str(word) for word in argv],
            env=env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def find(places: Places, name: str = "") -> list[int]:
    """Return the live processes of a daemon; without a name, of all daemons and commands."""
    wanted = f"{MARK}={places.folder}:{name}".encode()
    found = []
    for pid in _all():
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(v == wanted if name else v.startswith(wanted) for v in variables):
            found.append(pid)
    return [pid for pid in found if _lives(pid)]


def end_all(find_them: Callable[[], list[int]]) -> None:
    """SIGKILL what is found until nothing is. Raises Failed."""
    clear = 0
    while clear < 2:  # twice: a process shows no environment while it becomes another program
        pids = find_them()
        clear = 0 if pids else clear + 1
        end(pids)
        time.sleep(0.05)


def of_user(uid: int) -> list[int]:
    """Return the live processes of a user."""
    found = []
    for pid in _all():
        try:
            if Path(f"/proc/{pid}").stat().st_uid == uid and _lives(pid):
                found.append(pid)
        except OSError:
            continue
    return found


def end(pids: Iterable[int], gently_s: float = 0) -> None:
    """End processes: SIGTERM and up to `gently_s` seconds, then SIGKILL. Raises Failed."""
    left = list(pids)
    for number, patience in ((signal.SIGTERM, gently_s), (signal.SIGKILL, 15.0)):
        if not patience:
            continue
        for pid in left:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        deadline = time.monotonic() + patience
        while (left := [pid for pid in left if _lives(pid)]) and time.monotonic() < deadline:
            time.sleep(0.05)
    if left:
        raise Failed(f"processes {left} cannot be killed: see /proc/{left[0]}/stack")


def last_words(places: Places, name: str) -> str:
    """Return the last two lines that a daemon said, for an error message."""
    try:
        lines = (places.log / f"{name}.out").read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return " / ".join(line.strip() for line in lines[-2:]) or "nothing"


def _all() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
