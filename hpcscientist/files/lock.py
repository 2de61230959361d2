"""A lock on a folder, without file locks.

A process that takes the lock creates the next numbered file (1.json, 2.json, …) in the lock folder
with O_EXCL, which is atomic on NFS and Lustre too. The process with the highest number holds the
lock. The highest file is never removed, and a process looks again after it has created its own: of
two that try at once, only the one with the highest number succeeds. A holder on this host is dead
if its process is. A holder elsewhere is dead if its heartbeat (the file's modification time, by the
file server's own clock) is older than `STALE_S`. A holder that was suspended that long and replaced
finds out before it writes again: see `Lock.replaced`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpcscientist.errors import HpcsciError
from hpcscientist.files.atomic import write_json
from hpcscientist.files.handed import read_regular

BEAT_S = 10.0
_FILLED_S = 1.0  # the time a process has to fill the file that it created
STALE_S = 60.0


class FolderLocked(HpcsciError):
    """Another live process holds the folder; the message names it."""


class Lock:
    """The right to write into a folder; held from construction to `release`."""

    def __init__(self, folder: Path) -> None:
        """Take the lock. Raises Held, and OSError if the lock folder cannot be written."""
        self._folder = folder
        folder.mkdir(exist_ok=True)
        self.generation = self._take()
        for old in _generations(folder):
            if old < self.generation:
                _file(folder, old).unlink(missing_ok=True)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True, name="lock-heartbeat")
        # A signal that arrives while the whole process is stopped may go to any thread that does
        # not block it. Python handles it in the main thread, which then nothing wakes from a wait.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def replaced(self) -> bool:
        """Return whether another process has taken the lock meanwhile."""
        return max(_generations(self._folder), default=self.generation) > self.generation

    def release(self) -> None:
        """Release the lock. On a full disk it is released when this process ends."""
        self._stop.set()
        self._thread.join()
        with contextlib.suppress(OSError):
            write_json(_file(self._folder, self.generation), {**_me(), "released": True})

    def _take(self) -> int:
        while True:
            highest = max(_generations(self._folder), default=0)
            holder = read_holder(self._folder)
            if holder is not None and holder["alive"]:
                raise FolderLocked(named(holder))
            target = _file(self._folder, highest + 1)
            try:
                descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            except FileExistsError:
                continue  # another process was faster: look again
            try:
                with os.fdopen(descriptor, "w") as file:
                    json.dump(_me(), file)
            except OSError:
                target.unlink()
                raise
            if max(_generations(self._folder)) == highest + 1:
                return highest + 1
            target.unlink(missing_ok=True)  # another process passed us between our two looks

    def _beat(self) -> None:
        while not self._stop.wait(BEAT_S):
            try:
                os.utime(_file(self._folder, self.generation))
            except OSError:
                continue  # the next write will report what is wrong with the disk


def read_holder(folder: Path) -> dict[str, Any] | None:
    """Return the holder's host, pid, `alive` and `local`; None if the folder is not locked."""
    highest = max(_generations(folder), default=0)
    if highest == 0:
        return None
    path, until = _file(folder, highest), time.monotonic() + _FILLED_S
    while True:
        try:
            content, modified = read_regular(path), path.stat().st_mtime
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EISDIR, errno.EFBIG):
                raise
            content, modified = b"", path.lstat().st_mtime  # not a file that a holder wrote
        if (holder := _record(content)) is not None:
            break
        # Created but not filled yet, or its writer died in between: a young file counts as alive.
        young = _server_time(folder) - modified < BEAT_S
        if not young or time.monotonic() > until:
            return {"host": "", "pid": 0, "alive": young, "local": False}
        time.sleep(_FILLED_S / 20)
    if holder.get("released"):
        return None
    me = _me()
    holder["local"] = (holder["host"], holder["boot"]) == (me["host"], me["boot"])
    if holder["local"]:
        holder["alive"] = started_at(holder["pid"]) == holder["started"]
    elif holder["host"] == me["host"]:
        holder["alive"] = False  # this host has rebooted since
    else:
        holder["alive"] = _server_time(folder) - modified < STALE_S
    return holder


def named(holder: Mapping[str, Any]) -> str:
    """Return a holder's process and host in words, or "another process" if unknown."""
    return f"process {holder['pid']} on {holder['host']}" if holder["pid"] else "another process"


def _record(content: bytes) -> dict[str, Any] | None:
    """Return the record that a holder wrote; None for other content."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    known = found if isinstance(found, dict) else {}
    kinds = [type(known.get(name)) for name in ("host", "boot", "pid", "started")]
    return known if kinds[:3] == [str, str, int] and kinds[3] in (int, type(None)) else None


def started_at(pid: int) -> int | None:
    """Return a process's start time in clock ticks since boot; None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def _server_time(folder: Path) -> float:
    """Return the file server's time, which may differ from ours; ours if we may not write there."""
    probe = folder / f".clock.{socket.gethostname()}.{os.getpid()}"
    try:
        probe.touch()
        now = probe.stat().st_mtime
        probe.unlink()
    except OSError:
        return time.time()
    return now


def _me() -> dict[str, Any]:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    pid = os.getpid()
    return {"host": socket.gethostname(), "boot": boot, "pid": pid, "started": started_at(pid)}


def _generations(folder: Path) -> list[int]:
    try:
        files = list(folder.iterdir())
    except FileNotFoundError:
        return []
    return [int(f.stem) for f in files if f.suffix == ".json" and f.stem.isdigit()]


def _file(folder: Path, generation: int) -> Path:
    return folder / f"{generation}.json"
