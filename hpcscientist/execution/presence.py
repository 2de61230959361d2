"""worker.json: who runs a trial, so that it is neither doubled nor left behind."""

from __future__ import annotations

import os
import socket

import psutil
from pydantic import ValidationError

from hpcscientist.files.atomic import write_text
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.records.base import Record

_CLOCK_SLACK_S = 2.0  # the boot time start times are counted from moves when clocks are set


class Presence(Record):
    """A worker: its host, process id and start time (seconds since the epoch), and the run."""

    host: str
    pid: int
    started: float
    run: int


def announce(paths: TrialPaths, run: int) -> None:
    """Write worker.json for this process. Raises OSError."""
    me = psutil.Process()
    here = Presence(host=socket.gethostname(), pid=me.pid, started=me.create_time(), run=run)
    write_text(paths.worker, here.model_dump_json() + "\n")


def read(paths: TrialPaths) -> Presence | None:
    """Return the trial's last worker; None when there was none or the file is unreadable."""
    try:
        return Presence.model_validate_json(paths.worker.read_bytes())
    except (OSError, ValidationError):
        return None


def live_worker(paths: TrialPaths, run: int | None = None) -> psutil.Process | None:
    """Return the worker if it is alive on this host and on this run (None: on any)."""
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
