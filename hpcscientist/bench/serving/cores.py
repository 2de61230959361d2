"""The processor cores available to this process and its children."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psutil


def own() -> list[int]:
    """Return the cores that this process may use."""
    return sorted(os.sched_getaffinity(0))


@contextmanager
def only(cores: Sequence[int]) -> Iterator[None]:
    """Restrict this thread, and what it starts meanwhile, to some of its cores."""
    before = own()
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def taken(seconds: float) -> float:
    """Return the number of cores that all descendants use, measured for this many seconds."""
    begin, before = time.perf_counter(), _spent()
    time.sleep(seconds)
    after, elapsed = _spent(), time.perf_counter() - begin
    return sum(after[pid] - before.get(pid, 0.0) for pid in after) / elapsed


def _spent() -> dict[int, float]:
    found = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            found[process.pid] = times.user + times.system
    return found
