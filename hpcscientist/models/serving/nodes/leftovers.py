"""Handles what a plane's processes leave on a node: a folder, shared memory, logs to keep."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import psutil

from hpcscientist.models.serving.order import Endpoint, Order, ServingPaths

_SHARED = Path("/dev/shm")
_OF_PYTHON = "psm_"  # multiprocessing's prefix for shared memory, which vLLM's queues use
_LIST = "shared-memory"
_LOOK_AGAIN_S, _LOOKS = 2.0, 5  # for segments that none of the processes had mapped
_LOG_TAIL = 64 * 1024
# The longest path of Ray's sockets below its own folder; a socket's path may have 107 bytes.
_SOCKET = "session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store"
_LONGEST_PATH = 107
# An engine's last messages are in its worker's output.
_LOGS_KEPT = ("serve/*.log", "gcs_server*", "raylet*", "worker-*.out", "*.err")


def temporary_folder(order: Order) -> Path:
    """Create a short private folder on this node's own disk; sweep those of killed nodes."""
    base = Path(os.path.expandvars(order.scratch)) if order.scratch else Path(tempfile.gettempdir())
    # The name contains the host because such a folder may be on a shared file system after all.
    host = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]
    prefix = f"hpcsci-{host}-"
    longest = of_ray(base / f"{prefix}{os.getpid()}-9") / _SOCKET
    if len(os.fsencode(longest)) > _LONGEST_PATH or not base.is_dir():
        base = Path("/tmp")
    for left in base.glob(f"{prefix}*"):
        pid = left.name.removeprefix(prefix).partition("-")[0]
        # Its own node may remove it meanwhile, and others may put anything there, links too.
        with contextlib.suppress(OSError):
            mine = left.lstat().st_uid == os.geteuid()
            if mine and pid.isdigit() and not psutil.pid_exists(int(pid)):
                _remove_listed(left)
                shutil.rmtree(left, ignore_errors=True)
    for number in itertools.count():  # not a random name: it would make the path too long
        folder = base / f"{prefix}{os.getpid()}{f'-{number}' if number else ''}"
        with contextlib.suppress(FileExistsError):  # another user's, or left by an earlier process
            folder.mkdir(mode=0o700)
            return folder
    raise AssertionError


def of_ray(folder: Path) -> Path:
    """Return Ray's part of a node's folder.

    Ray opens its own folder to everybody, and any user who reaches its sockets can read all
    messages. Only the private folder around it keeps others out.
    """
    return folder / "r"


class SharedMemory:
    """The shared memory that a node's processes create, and leave behind when they are killed.

    Segments are looked for while the processes live: engine and node may be ended at once, and
    nobody can tell afterwards what a dead process had. The list is kept in the node's folder, so
    that the next node process on this machine can clean up after one that was killed.

    Only this user's segments, created since this object, count: people keep weights and whole
    environments in /dev/shm too.
    """

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        """Record the existing segments. `pids` returns the processes that are alive."""
        self._pids = pids
        self._before = segments()
        self._made: dict[str, int] = {}
        self._seen: frozenset[str] = frozenset()
        self._due, self._looks = 0.0, 0
        self._folder: Path | None = None

    def keep_list(self, folder: Path) -> None:
        """Write the list to this folder from now on."""
        self._folder = folder

    def look(self) -> None:
        """Look for new segments. It is cheap if there are none."""
        unknown = segments() - self._before - self._made.keys()
        if not unknown <= self._seen:
            self._looks = _LOOKS
        elif not unknown or not self._looks or time.monotonic() < self._due:
            return
        self._seen, self._due = unknown, time.monotonic() + _LOOK_AGAIN_S
        self._looks -= 1
        found = shared_memory(self._pids()) & {_SHARED / name for name in unknown}
        if not found:
            return
        self._made |= {path.name: inode for path in found if (inode := _inode(path.name))}
        if self._folder is not None:
            with contextlib.suppress(OSError):
                text = "".join(f"{name} {inode}\n" for name, inode in self._made.items())
                (self._folder / _LIST).write_text(text)

    def unname(self) -> None:
        """Unlink the shared memory through which an engine's processes communicate.

        To be called once all of them have opened it: it then disappears with them, however they
        end.
        """
        self.look()
        _remove({n: inode for n, inode in self._made.items() if n.startswith(_OF_PYTHON)})

    def remove(self) -> None:
        """Remove the segments, once the processes are gone."""
        _remove(self._made)
        new = segments() - self._before
        _remove_unheld({name: _inode(name) for name in new if _is_an_engine_s(name)})


def shared_memory(pids: Iterable[int]) -> set[Path]:
    """Return this user's shared memory that processes have mapped."""
    found: set[Path] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                path = line.split(maxsplit=5)[-1]
                name = path.removeprefix(f"{_SHARED}/")  # "... (deleted)" matches no file
                if name != path and "/" not in name and _inode(name) is not None:
                    found.add(_SHARED / name)
    return found


def remove(segments: Iterable[Path]) -> None:
    """Remove shared memory if possible; a segment may be another user's link."""
    for segment in segments:
        with contextlib.suppress(OSError):
            segment.unlink()


def _inode(name: str) -> int | None:
    """Return the inode of a segment of this user; None if it is gone, or another user's."""
    with contextlib.suppress(OSError):
        status = (_SHARED / name).lstat()
        return status.st_ino if status.st_uid == os.geteuid() else None
    return None


def _is_an_engine_s(name: str) -> bool:
    """Return whether a name is Python's for shared memory, or has a dead process's number.

    PyTorch and joblib put the number of the process into the name.
    """
    made = re.match(r"(?:torch_|sem\.loky-)(\d+)[_-]", name)
    return name.startswith(_OF_PYTHON) or (made is not None and not psutil.pid_exists(int(made[1])))


def _remove(segments: Mapping[str, int | None]) -> None:
    """Remove segments by name and inode, since a name may have been reused."""
    still = (name for name, inode in segments.items() if inode and _inode(name) == inode)
    remove(_SHARED / name for name in still)


def _remove_unheld(segments: Mapping[str, int | None]) -> None:
    """Remove the segments that no process has mapped."""
    if segments:
        held = {path.name for path in shared_memory(psutil.pids())}
        _remove({name: inode for name, inode in segments.items() if name not in held})


def segments() -> frozenset[str]:
    """Return the names of all shared memory."""
    with contextlib.suppress(OSError):
        return frozenset(path.name for path in _SHARED.iterdir())
    return frozenset()


def remove_orphans() -> None:
    """Remove this user's shared memory of PyTorch and joblib whose processes are gone."""
    names = [n for n in segments() if not n.startswith(_OF_PYTHON) and _is_an_engine_s(n)]
    _remove_unheld({name: _inode(name) for name in names})


def _remove_listed(folder: Path) -> None:
    """Remove the shared memory that a node listed before it was killed."""
    with contextlib.suppress(OSError, ValueError):
        rows = [line.rsplit(maxsplit=1) for line in (folder / _LIST).read_text().splitlines()]
        _remove_unheld({name: int(inode) for name, inode in rows})


def keep_logs(order: Order, folder: Path) -> None:
    """Copy the ends of Ray's logs to the plane's folder before the node's folder is deleted."""
    paths = ServingPaths(order.folder)
    target = paths.logs / socket.gethostname()
    with contextlib.suppress(OSError):
        if not paths.root.is_dir():
            return  # the driver removed the folder: do not create it again
        logs = of_ray(folder) / "session_latest" / "logs"
        for pattern in _LOGS_KEPT:
            for log in logs.glob(pattern):
                text = log.read_bytes()[-_LOG_TAIL:]
                if text:
                    target.mkdir(parents=True, exist_ok=True)
                    (target / log.name).write_bytes(text)


def withdraw(order: Order) -> None:
    """Remove the endpoint that this start published, since the driver may be gone."""
    paths = ServingPaths(order.folder)
    with contextlib.suppress(OSError, ValueError):
        if Endpoint.model_validate_json(paths.endpoint.read_bytes()).nonce == order.nonce:
            paths.endpoint.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        paths.lease(order.nonce).unlink(missing_ok=True)
