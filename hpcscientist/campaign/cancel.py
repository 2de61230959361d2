"""Stopping a campaign from outside, and leaving nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

from hpcscientist.campaign.lock import STALE_S, DriverLock, read_holder
from hpcscientist.campaign.status import read_state
from hpcscientist.errors import CampaignBusy
from hpcscientist.execution.backends.stopping import sweep
from hpcscientist.files.rundir import RunPaths

WAIT_S = STALE_S + 30.0
POLL_S = 0.1


def cancel(paths: RunPaths, wait: Callable[[float], object] = time.sleep) -> bool:
    """Stop the driver, wherever it runs, and whatever trials are left; True if one was alive.

    A driver on this host gets SIGTERM; one elsewhere reads the request file. Returns when
    nothing of the campaign runs on this host any more. Raises RunDirectoryError for a
    folder that is no run directory, CampaignBusy when the driver does not let go.
    """
    if not paths.campaign.is_file():
        read_state(paths)  # which says what is missing
    holder = read_holder(paths.lock)
    alive = holder is not None and bool(holder["alive"])
    if holder is not None and alive:
        paths.cancel_request.touch()
        if holder["local"]:
            with contextlib.suppress(ProcessLookupError):  # it ended just now
                os.kill(holder["pid"], signal.SIGTERM)
        _await_release(paths, wait)
    # Nobody drives: hold the campaign while sweeping, so that nobody takes it up meanwhile.
    lock = DriverLock(paths.lock)
    try:
        paths.cancel_request.unlink(missing_ok=True)
        sweep(paths)
    finally:
        lock.release()
    return alive


def _await_release(paths: RunPaths, wait: Callable[[float], object]) -> None:
    deadline = time.monotonic() + WAIT_S
    while (holder := read_holder(paths.lock)) is not None and holder["alive"]:
        if time.monotonic() > deadline:
            raise CampaignBusy(
                f"{paths.root}: the driver on {holder['host']} (process {holder['pid']}) does "
                "not stop; end that process and try again"
            )
        wait(POLL_S)
