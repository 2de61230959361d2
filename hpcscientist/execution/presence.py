"""worker.json: which worker runs a trial, so that no trial is run twice or abandoned.

A node that lost its network may come back with its worker still running, long after another worker
got the trial. So each worker writes its own token, and checks that the token is still there before
it changes anything that others read.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import psutil
from pydantic import ValidationError

from hpcscientist.errors import Interrupted
from hpcscientist.files.atomic import write_text
from hpcscientist.files.handed import read_regular
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.records.base import Record
from hpcscientist.records.trial import Isolation

_CLOCK_SLACK_S = 2.0  # start times are relative to the boot time, which moves when clocks are set


class Replaced(Interrupted):
    """The trial was given to another worker, or it ended: this worker must not report."""


class Presence(Record):
    """A worker: its host, process id and start time (seconds since the epoch), and the run.

    The host is named by the system, not by Slurm: a driver outside of jobs must know the name too.
    The token distinguishes two executions of the same run.
    """

    host: str
    pid: int
    started: float
    run: int
    token: str = ""
    gpus: tuple[str, ...] = ()  # as CUDA_VISIBLE_DEVICES names them; earlier versions lack it


def announce(paths: TrialPaths, run: int) -> Presence:
    """Write worker.json for this process and return its content. Raises OSError."""
    me = psutil.Process()
    here = Presence(
        host=socket.gethostname(),
        pid=me.pid,
        started=me.create_time(),
        run=run,
        token=os.urandom(8).hex(),
        gpus=tuple(filter(None, os.environ.get("CUDA_VISIBLE_DEVICES", "").split(","))),
    )
    write_text(paths.worker, here.model_dump_json() + "\n")
    return here


def is_current(paths: TrialPaths, mine: Presence) -> bool:
    """Return whether worker.json is still this worker's and spec.json still asks for its run."""
    return read(paths) == mine and _wanted_run(paths) == mine.run


def is_replaced(paths: TrialPaths, mine: Presence) -> bool:
    """Return whether another worker announced itself, or spec.json asks for a later run.

    Missing or invalid files do not count as a replacement; see `is_taken_away`.
    """
    other, wanted = read(paths), _wanted_run(paths)
    return (other is not None and other != mine) or (wanted is not None and wanted > mine.run)


def is_taken_away(paths: TrialPaths, isolation: Isolation) -> bool:
    """Return whether the trial ended without this worker and its folder was compacted away.

    A candidate without a sandbox could remove our files, so then the whole folder must be gone.
    """
    if isolation is Isolation.NONE:
        return _is_gone(paths.root)
    return _is_gone(paths.spec) and _is_gone(paths.worker)


def _is_gone(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # a failing file system proves nothing
        return False
    return False


def _wanted_run(paths: TrialPaths) -> int | None:
    try:
        return int(json.loads(read_regular(paths.spec))["run"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def read(paths: TrialPaths) -> Presence | None:
    """Return the trial's last worker; None when there was none or the file is unreadable."""
    try:
        return Presence.model_validate_json(read_regular(paths.worker))
    except (OSError, ValidationError):
        return None


def began(paths: TrialPaths, run: int) -> float | None:
    """Return when a worker announced itself for a run (seconds since the epoch), or None."""
    known = read(paths)
    if known is None or known.run != run:
        return None
    try:
        return paths.worker.stat().st_mtime
    except OSError:
        return None


def died(paths: TrialPaths, run: int) -> bool:
    """Return whether a run's worker on this host is gone although the host was not rebooted.

    A worker that was stopped on purpose does not count: see `withdraw`.
    """
    known = read(paths)
    if known is None or known.host != socket.gethostname() or known.run != run:
        return False
    if known.pid == os.getpid() or live_worker(paths, run) is not None:
        return False
    return bool(known.started > psutil.boot_time() - _CLOCK_SLACK_S)


def withdraw(paths: TrialPaths) -> None:
    """Remove worker.json of a worker stopped on purpose, if it left no result. Raises OSError."""
    if not paths.result.exists():
        paths.worker.unlink(missing_ok=True)


def live_worker(paths: TrialPaths, run: int | None = None) -> psutil.Process | None:
    """Return the worker's process if it is alive on this host, with this run (None: any run)."""
    known = read(paths)
    if known is None or known.host != socket.gethostname() or known.pid == os.getpid():
        return None
    if run is not None and known.run != run:
        return None
    try:
        process = psutil.Process(known.pid)
        if abs(process.create_time() - known.started) > _CLOCK_SLACK_S:
            return None
        return None if process.status() == psutil.STATUS_ZOMBIE else process
    except psutil.Error:
        return None
