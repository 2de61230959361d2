"""What the processes of a plane leave on a node: a folder, shared memory, logs worth keeping."""

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
_OF_PYTHON = "psm_"  # what multiprocessing calls shared memory; vLLM's queues are of that kind
_LIST = "shared-memory"
_LOOK_AGAIN_S, _LOOKS = 2.0, 5  # at segments that none of the processes had mapped
_LOG_TAIL = 64 * 1024
# The longest of the paths that Ray gives to sockets, below its own folder; such may have 107 bytes.
_SOCKET = "session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store"
_LONGEST_PATH = 107
# What an engine says of its end is in its worker's output.
_LOGS_KEPT = ("serve/*.log", "gcs_server*", "raylet*", "worker-*.out", "*.err")


def temporary_folder(order: Order) -> Path:
    """Make a short private folder on this node's own disk; sweep what a killed one left."""
    base = Path(os.path.expandvars(order.scratch)) if order.scratch else Path(tempfile.gettempdir())
    # The host is in the name because such a folder may be a shared one after all.
    host = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]
    prefix = f"hpcsci-{host}-"
    longest = of_ray(base / f"{prefix}{os.getpid()}-9") / _SOCKET
    if len(os.fsencode(longest)) > _LONGEST_PATH or not base.is_dir():
        base = Path("/tmp")
    for left in base.glob(f"{prefix}*"):
        pid = left.name.removeprefix(prefix).partition("-")[0]
        # Its own node may remove it meanwhile; and others put there what they like, links too.
        with contextlib.suppress(OSError):
            mine = left.lstat().st_uid == os.geteuid()
            if mine and pid.isdigit() and not psutil.pid_exists(int(pid)):
                _remove_listed(left)
                shutil.rmtree(left, ignore_errors=True)
    for number in itertools.count():  # no random name: there is no room for one
        folder = base / f"{prefix}{os.getpid()}{f'-{number}' if number else ''}"
        with contextlib.suppress(FileExistsError):  # somebody's, or left by one of this number
            folder.mkdir(mode=0o700)
            return folder
    raise AssertionError


def of_ray(folder: Path) -> Path:
    """Return Ray's part of a node's folder.

    Ray opens its own folder to everybody, and whoever reaches the sockets in it has all that is
    said there: only what is around it keeps others out.
    """
    return folder / "r"


class SharedMemory:
    """The shared memory that a node's processes make. Killed, they leave it behind.

    It is looked for while they live: whoever ends a job may end engine and node at once, and of a
    process that is gone nobody can tell what it had. The list is kept in the node's folder, so that
    the next node of this machine removes what one that was killed outright could not.

    Only segments made since this was, and this user's: people keep weights and whole environments
    in /dev/shm too.
    """

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        """`pids` returns the processes that are alive."""
        self._pids = pids
        self._before = segments()
        self._made: dict[str, int] = {}
        self._seen: frozenset[str] = frozenset()
        self._due, self._looks = 0.0, 0
        self._folder: Path | None = None

    def keep_list(self, folder: Path) -> None:
        """Keep the list in this folder from now on."""
        self._folder = folder

    def look(self) -> None:
        """Look whether something was made. It is cheap where there is nothing new."""
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
        """Take the names from the shared memory through which an engine's processes speak.

        To be called once they all have it: it is then gone with them, however they end.
        """
        self.look()
        _remove({n: inode for n, inode in self._made.items() if n.startswith(_OF_PYTHON)})

    def remove(self) -> None:
        """Remove what was made, once the processes are gone."""
        _remove(self._made)
        new = segments() - self._before
        _remove_unheld({name: _inode(name) for name in new if _is_an_engine_s(name)})


def shared_memory(pids: Iterable[int]) -> set[Path]:
    """Return the shared memory of this user's that processes have mapped."""
    found: set[Path] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                path = line.split(maxsplit=5)[-1]
                name = path.removeprefix(f"{_SHARED}/")  # or "... (deleted)", which nothing is
                if name != path and "/" not in name and _inode(name) is not None:
                    found.add(_SHARED / name)
    return found


def remove(segments: Iterable[Path]) -> None:
    """Remove shared memory that can be removed; another's link may pass for a segment."""
    for segment in segments:
        with contextlib.suppress(OSError):
            segment.unlink()


def _inode(name: str) -> int | None:
    """Return the inode of a segment of this user's; None where it is gone, or another's."""
    with contextlib.suppress(OSError):
        status = (_SHARED / name).lstat()
        return status.st_ino if status.st_uid == os.geteuid() else None
    return None


def _is_an_engine_s(name: str) -> bool:
    """Whether a name is what Python gives to shared memory, or has the number of a process that
    is gone, as those of PyTorch and joblib do."""
    made = re.match(r"(?:torch_|sem\.loky-)(\d+)[_-]", name)
    return name.startswith(_OF_PYTHON) or (made is not None and not psutil.pid_exists(int(made[1])))


def _remove(segments: Mapping[str, int | None]) -> None:
    """Remove segments, by name and inode: a name may have become another's."""
    still = (name for name, inode in segments.items() if inode and _inode(name) == inode)
    remove(_SHARED / name for name in still)


def _remove_unheld(segments: Mapping[str, int | None]) -> None:
    """Remove the segments that no process has mapped."""
    if segments:
        held = {path.name for path in shared_memory(psutil.pids())}
        _remove({name: inode for name, inode in segments.items() if name not in held})


def segments() -> frozenset[str]:
    """Return what is in shared memory now."""
    with contextlib.suppress(OSError):
        return frozenset(path.name for path in _SHARED.iterdir())
    return frozenset()


def remove_orphans() -> None:
    """Remove PyTorch's and joblib's shared memory of this user whose processes are gone."""
    names = [n for n in segments() if not n.startswith(_OF_PYTHON) and _is_an_engine_s(n)]
    _remove_unheld({name: _inode(name) for name in names})


def _remove_listed(folder: Path) -> None:
    """Remove the shared memory that a node listed before it was killed."""
    with contextlib.suppress(OSError, ValueError):
        rows = [line.rsplit(maxsplit=1) for line in (folder / _LIST).read_text().splitlines()]
        _remove_unheld({name: int(inode) for name, inode in rows})


def keep_logs(order: Order, folder: Path) -> None:
    """Copy the ends of Ray's logs to the plane's folder: with the folder they would be gone."""
    paths = ServingPaths(order.folder)
    target = paths.logs / socket.gethostname()
    with contextlib.suppress(OSError):
        if not paths.root.is_dir():
            return  # removed by whoever ordered the plane: it stays so
        logs = of_ray(folder) / "session_latest" / "logs"
        for pattern in _LOGS_KEPT:
            for log in logs.glob(pattern):
                text = log.read_bytes()[-_LOG_TAIL:]
                if text:
                    target.mkdir(parents=True, exist_ok=True)
                    (target / log.name).write_bytes(text)


def withdraw(order: Order) -> None:
    """Publish no longer what this start of the plane did: whoever ordered it may be gone."""
    paths = ServingPaths(order.folder)
    with contextlib.suppress(OSError, ValueError):
        if Endpoint.model_validate_json(paths.endpoint.read_bytes()).nonce == order.nonce:
            paths.endpoint.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        paths.lease(order.nonce).unlink(missing_ok=True)
