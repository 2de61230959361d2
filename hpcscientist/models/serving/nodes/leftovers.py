"""What the processes of a plane leave on a node: a folder, shared memory, logs worth keeping."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
import socket
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path

import psutil

from hpcscientist.models.serving.order import Endpoint, Order
from hpcscientist.models.serving.paths import ServingPaths

_SHARED = Path("/dev/shm")
_OF_PYTHON = "psm_"  # what multiprocessing calls shared memory; vLLM's queues are of that kind
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


def shared_memory(pids: Iterable[int], before: Collection[str] = ()) -> set[Path]:
    """Return the shared memory that processes have mapped: killed, they leave it behind.

    Only segments made since `before` was listed, and this user's: people keep weights and whole
    environments in /dev/shm too.
    """
    found: set[Path] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                path = line.split(maxsplit=5)[-1]
                name = path.removeprefix(f"{_SHARED}/")
                if name == path or "/" in name or name in before:
                    continue
                with contextlib.suppress(OSError):  # "(deleted)" too
                    if (_SHARED / name).lstat().st_uid == os.geteuid():
                        found.add(_SHARED / name)
    return found


def unname(pids: Iterable[int], before: Collection[str]) -> None:
    """Take the names from the shared memory through which an engine's processes speak.

    To be called once they all have it: it is then gone with them, however they end.
    """
    for segment in shared_memory(pids, before):
        if segment.name.startswith(_OF_PYTHON):
            remove([segment])


def remove(segments: Iterable[Path]) -> None:
    """Remove shared memory that can be removed; another's link may pass for a segment."""
    for segment in segments:
        with contextlib.suppress(OSError):
            segment.unlink()


def segments() -> frozenset[str]:
    """Return what is in shared memory now."""
    with contextlib.suppress(OSError):
        return frozenset(path.name for path in _SHARED.iterdir())
    return frozenset()


def orphaned_semaphores() -> set[Path]:
    """Return joblib's semaphores of this user whose processes, named in them, are gone."""
    found = set()
    for path in _SHARED.glob("sem.loky-*"):
        pid = path.name.split("-")[1]
        with contextlib.suppress(OSError):
            mine = path.lstat().st_uid == os.geteuid()
            if mine and pid.isdigit() and not psutil.pid_exists(int(pid)):
                found.add(path)
    return found


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
