"""Looks at the bounds of a command while it runs, each as often as it is worth."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from hpcscientist.execution import folders
from hpcscientist.execution.bounds import unlinked_files
from hpcscientist.execution.bounds.namespaces import deepest
from hpcscientist.execution.bounds.usage import (
    anonymous_shared_mb,
    cpu_s,
    memory_mb,
    tasks_of_all,
)
from hpcscientist.system.processes import ProcessTree

_TICK_S = 0.05
_FOLDERS_EVERY_S = 0.5

_SUSPENDED_S = 1.0


class Reason(StrEnum):
    """Why a command ended."""

    EXITED = "exited"
    DEADLINE = "deadline"
    MEMORY = "memory"
    OUTPUT = "output"
    PROCESSES = "processes"
    NAMESPACE = "namespace"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a command may use. Seconds, MiB, counts.

    `output_mb` holds for the sum of `watched`, `processes` counts threads, `open_files` is for
    each process. `namespaces` is how deep in user namespaces it may be (None: no matter).
    `apart`: it is to see no process but its own, where the machine can (see `pid_namespace`).
    """

    deadline_s: float
    memory_mb: int
    output_mb: int
    watched: tuple[Path, ...] = ()
    processes: int = 1024
    open_files: int = 4096
    namespaces: int | None = None
    apart: bool = False


class Watch:
    """Knows when a command has to end, how much memory it held at most (MiB), and what processor
    time its processes were last seen to have used (`cpu_s`, seconds).

    Set `resumed` when this process was let go on after somebody suspended it, as schedulers do
    with whole jobs: the time in between is not the command's.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        tree: ProcessTree,
        bounds: Bounds,
        stop: threading.Event,
        begun: float,
    ) -> None:
        self._process, self._brood, self._bounds, self._stop = process, tree, bounds, stop
        self._deadline = begun + bounds.deadline_s
        self._next_tick = self._next_folders = self._seen = begun
        self._anonymous_mb = 0.0
        self.peak_mb = self.cpu_s = 0.0
        self.resumed = False

    def reason(self) -> Reason | None:
        """Return why the command has ended or has to, or None."""
        now = time.monotonic()
        if self.resumed:
            self.resumed, now = False, time.monotonic()  # it may be from before the suspension
            if now - self._seen > _SUSPENDED_S:
                self._deadline += now - self._seen
        self._seen = now
        if self._stop.is_set():
            return Reason.STOPPED
        if self._process.poll() is not None:
            # Files it left behind are measured too: a quick writer is still a writer.
            return Reason.OUTPUT if self._is_output_too_large([], lambda: False) else Reason.EXITED
        if now >= self._deadline:
            return Reason.DEADLINE
        if now < self._next_tick:
            return None
        # Counted from the end of a look: one that takes long must not become all we do.
        reason = self._look(now)
        self._next_tick = time.monotonic() + _TICK_S
        return reason

    def timeout(self) -> float:
        """Return the seconds until the next look is due."""
        return max(0.0, min(self._next_tick, self._deadline) - time.monotonic())

    def _look(self, now: float) -> Reason | None:
        limit = self._bounds.processes
        found, threads = self._brood.census(limit, self._is_over)
        if threads > limit:
            return Reason.PROCESSES
        # These are no part of the command: they are this process, forked.
        ours = self._brood.ours()
        pids = [pid for pid in found if pid not in ours]
        if self._bounds.namespaces is not None and deepest(pids) > self._bounds.namespaces:
            return Reason.NAMESPACE
        # Some of what follows waits for each process, and so may take long: long enough for those
        # that fork without end to become too many to be looked at.
        crowd = tasks_of_all() + limit // 4

        def in_hurry() -> bool:
            return self._is_over() or tasks_of_all() > crowd

        self.cpu_s = max(self.cpu_s, cpu_s(itertools.takewhile(lambda _: not in_hurry(), found)))

        if now >= self._next_folders:
            if self._is_output_too_large(pids, in_hurry):
                return Reason.OUTPUT
            self._next_folders = time.monotonic() + _FOLDERS_EVERY_S
        held = memory_mb(pids, self._bounds.memory_mb, in_hurry)
        if held is None:
            return None  # they are counted again first
        held += self._anonymous_mb
        self.peak_mb = max(self.peak_mb, held)
        return Reason.MEMORY if held > self._bounds.memory_mb else None

    def _is_over(self) -> bool:
        """Whether the command has to end now, whatever a look finds that is not finished yet.

        Where thousands of processes want to run, a look takes minutes.
        """
        return self._stop.is_set() or time.monotonic() >= self._deadline

    def _is_output_too_large(self, pids: list[int], in_hurry: Callable[[], bool]) -> bool:
        limit = self._bounds.output_mb * 2**20
        without_name = unlinked_files.held(
            itertools.takewhile(lambda _: not in_hurry(), pids), self._devices()
        )
        self._anonymous_mb = 0.0
        if without_name.in_memory:  # what is mapped is part of somebody's resident size already
            anonymous = without_name.in_memory / 2**20
            self._anonymous_mb = max(0.0, anonymous - anonymous_shared_mb(pids))
        size, entries = folders.measure(self._bounds.watched, limit)
        return size + without_name.on_disk > limit or entries > folders.MAX_ENTRIES

    def _devices(self) -> frozenset[int]:
        found = set()
        for folder in self._bounds.watched:
            with contextlib.suppress(OSError):
                found.add(os.stat(folder).st_dev)  # noqa: PTH116
        return frozenset(found)
