"""The folder of a run, and the end of what an earlier run left.

A run's folder says whose it is by process id and start time, so that neither a run that lives is
disturbed nor a process that got the number of one that died. Its rooms end with it (see `rooms`);
what can be left of one that was killed with -9 is a folder, and what its cluster made outside.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

BASE = Path("/srv/hpcsci-full")  # short, readable to all, and on every node
_OWNERS = "owner*.json"  # one for each of a run's own processes
_END_S = 60


class Busy(Exception):
    """Another run lives, or what one left cannot be removed; one line."""


class Workplace:
    """The one run's folder below `base`, 0755; `remove` leaves nothing of it."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self._lock = lock
        self._owned: list[tuple[int, int]] = []
        self.owns(os.getpid())

    @classmethod
    def claim(cls, base: Path, end_clusters: Callable[[Path], object]) -> Workplace:
        """Make the folder, after ending what earlier runs left. Raises Busy.

        `end_clusters` is called with an earlier run's folder: its clusters may be half there.
        """
        base.mkdir(parents=True, exist_ok=True)
        base.chmod(0o755)
        lock = os.open(base, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise Busy(f"another .ci/full is at work in {base}: wait for its end") from None
        earlier = [entry for entry in base.iterdir() if entry.is_dir()]
        for folder in earlier:
            print(f"ending what an earlier .ci/full left in {folder}", flush=True)
            _end_processes(folder)
        for folder in earlier:
            end_clusters(folder)
            remove_folder(folder)
        folder = base / str(os.getpid())
        folder.mkdir()
        folder.chmod(0o755)
        return cls(folder, lock)

    def owns(self, pid: int) -> None:
        """Note a process that must end with this run. Each of the run's processes notes its own."""
        me = identity(os.getpid())
        if me not in self._owned:
            self._owned = [me]
        self._owned += [identity(pid)] if pid != me[0] else []
        new = self.folder / f"owner-{me[0]}.json.new"
        new.write_text(json.dumps(self._owned))
        new.rename(new.with_suffix(""))

    def remove(self) -> None:
        """Remove the folder, and the one above where it is empty. Raises Busy."""
        try:
            remove_folder(self.folder)
            with contextlib.suppress(OSError):
                self.folder.parent.rmdir()
        finally:
            os.close(self._lock)


def identity(pid: int) -> tuple[int, int]:
    """Return a process's number and when it started, in ticks since the machine did; 0: gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return pid, 0
    return pid, 0 if fields[0] in "ZX" else int(fields[19])


def remove_folder(folder: Path) -> None:
    """Unmount what is mounted below a folder, and remove it. Raises Busy."""
    for mounted in reversed(_mounts(folder)):
        subprocess.run(["umount", "--lazy", str(mounted)], check=False, capture_output=True)
    # Again where something was still being written as its process ended.
    for _ in range(5):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.2)
    raise Busy(f"{folder} cannot be removed: see what holds it, and remove it")


def _end_processes(folder: Path) -> None:
    """End the processes that a run's folder names, those of that start time alone."""
    for record in sorted(folder.glob(_OWNERS)):
        with contextlib.suppress(OSError, ValueError):
            for pid, start in json.loads(record.read_text()):
                if pid != os.getpid() and start:
                    _end_process(pid, start)


def _end_process(pid: int, start: int) -> None:
    deadline = time.monotonic() + _END_S
    while identity(pid) == (pid, start):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise Busy(f"process {pid} of an earlier .ci/full cannot be ended")
        time.sleep(0.05)


def _mounts(folder: Path) -> list[Path]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    places = [Path(line.split()[4].encode().decode("unicode_escape")) for line in lines]
    return [place for place in places if place == folder or folder in place.parents]
