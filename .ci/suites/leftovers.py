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
_OWNER = "owner.json"
_END_S = 60


class Busy(Exception):
    """Another run lives, or what one left cannot be removed; one line."""


class Workplace:
    """The one run's folder below `base`, 0755; `remove` leaves nothing of it."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self._lock = lock
        self._owned = [identity(os.getpid())]
        self._save()

    @classmethod
    def claim(cls, base: Path, end_cluster: Callable[[], object]) -> Workplace:
        """Make the folder, after ending what earlier runs left. Raises Busy.

        `end_cluster` is called where an earlier run was: its cluster may be half there.
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
        if earlier:
            end_cluster()
        for folder in earlier:
            remove_folder(folder)
        folder = base / str(os.getpid())
        folder.mkdir()
        folder.chmod(0o755)
        return cls(folder, lock)

    def owns(self, pid: int) -> None:
        """Note a process that must end with this run."""
        self._owned.append(identity(pid))
        self._save()

    def remove(self) -> None:
        """Remove the folder, and the one above where it is empty. Raises Busy."""
        try:
            remove_folder(self.folder)
            with contextlib.suppress(OSError):
                self.folder.parent.rmdir()
        finally:
            os.close(self._lock)

    def _save(self) -> None:
        new = self.folder / f"{_OWNER}.new"
        new.write_text(json.dumps(self._owned))
        new.rename(self.folder / _OWNER)


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
    try:
        owned = json.loads((folder / _OWNER).read_text())
    except (OSError, ValueError):
        return
    for pid, start in owned:
        if pid == os.getpid() or not start or identity(pid) != (pid, start):
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + _END_S
        while identity(pid) == (pid, start):
            if time.monotonic() > deadline:
                raise Busy(f"process {pid} of an earlier .ci/full cannot be ended")
            time.sleep(0.05)


def _mounts(folder: Path) -> list[Path]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    places = [Path(line.split()[4].encode().decode("unicode_escape")) for line in lines]
    return [place for place in places if place == folder or folder in place.parents]
