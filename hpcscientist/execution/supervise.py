"""Runs one command within bounds and leaves nothing of it behind.

The bounds are kept from outside: a deadline on wall-clock time, memory of the whole tree,
bytes in watched folders, size of the output. Whatever the reason it ended for, every
descendant is stopped and killed before `supervise` returns, daemons included.

Call it from the main thread: the kernel ties the child's life to the thread that made it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from hpcscientist.execution import folders
from hpcscientist.execution.bounded import BoundedLog
from hpcscientist.execution.processes import (
    PR_SET_PDEATHSIG,
    Brood,
    cpu_s,
    memory_mb,
    prctl,
)

_TICK_S = 0.05
_FOLDERS_EVERY_S = 0.5
_CHUNK = 1 << 16
_MAX_OPEN_FILES = 4096


class Reason(StrEnum):
    """Why a command ended."""

    EXITED = "exited"
    DEADLINE = "deadline"
    MEMORY = "memory"
    OUTPUT = "output"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a command may use. Seconds, MiB. `output_mb` holds for the sum of `watched`."""

    deadline_s: float
    memory_mb: int
    output_mb: int
    watched: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command runs: working directory and whole environment."""

    folder: Path
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. Seconds, MiB. `survivors` could not be killed: none, normally."""

    exit_code: int | None
    signal: int | None
    reason: Reason
    wall: float
    cpu_s: float
    peak_mb: float
    survivors: tuple[int, ...] = ()


def supervise(
    command: Sequence[str],
    place: Place,
    bounds: Bounds,
    stop: threading.Event,
    stdout: BoundedLog,
    stderr: BoundedLog | None = None,
) -> Ended:
    """Run a command; `stderr` None joins stdout. Setting `stop` ends it within a tick.

    Raises OSError when the command cannot be started.
    """
    brood, before, begun = Brood(), _children_usage(), time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=place.folder,
        env=dict(place.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if stderr is None else subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_in_child(os.getpid(), bounds.output_mb),  # noqa: PLW1509 (a worker runs no threads)
    )
    brood.watch(process)
    watch = _Watch(process, brood, bounds, stop, begun)
    pipes = [(process.stdout, stdout), (process.stderr, stderr)]
    with selectors.DefaultSelector() as selector:
        for pipe, sink in pipes:
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, sink)
        try:
            reason = _loop(process, watch, selector)
        finally:
            spent = cpu_s(brood.pids()) + _cpu_s(before)
            survivors = brood.end()
            for key in list(selector.get_map().values()):
                _drain(key.fd, key.data)
            for pipe, sink in pipes:
                if pipe is not None and sink is not None:
                    pipe.close()
                    sink.finish()
    code = process.poll()
    after = _children_usage()
    return Ended(
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        reason=reason,
        wall=time.monotonic() - begun,
        # A container's first process does not pass on what those killed with it had used.
        cpu_s=max(spent, _cpu_s(before)),
        peak_mb=max(watch.peak_mb, _known_peak_mb(before, after)),
        survivors=survivors,
    )


def _in_child(parent: int, file_mb: int) -> Callable[[], None]:
    """Prepare the child between fork and exec: die with the parent, limits, no mask."""

    def prepare() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the line above
            os._exit(127)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for kind, wanted in (
            (resource.RLIMIT_FSIZE, file_mb * 2**20),
            (resource.RLIMIT_NOFILE, _MAX_OPEN_FILES),
        ):
            hard = resource.getrlimit(kind)[1]
            limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(kind, (limit, limit))

    return prepare


class _Watch:
    """Looks at the bounds, each as often as it is worth."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        brood: Brood,
        bounds: Bounds,
        stop: threading.Event,
        begun: float,
    ) -> None:
        self._process, self._brood, self._bounds, self._stop = process, brood, bounds, stop
        self._deadline = begun + bounds.deadline_s
        self._next_tick = self._next_folders = begun
        self.peak_mb = 0.0

    def reason(self) -> Reason | None:
        """Return why the command has ended or has to, or None."""
        now = time.monotonic()
        if self._stop.is_set():
            return Reason.STOPPED
        if self._process.poll() is not None:
            # Files it left behind are measured too: a quick writer is still a writer.
            return Reason.OUTPUT if self._is_output_too_large() else Reason.EXITED
        if now >= self._deadline:
            return Reason.DEADLINE
        if now >= self._next_tick:
            self._next_tick = now + _TICK_S
            held = memory_mb(self._brood.pids(), self._bounds.memory_mb)
            self.peak_mb = max(self.peak_mb, held)
            if held > self._bounds.memory_mb:
                return Reason.MEMORY
        if now >= self._next_folders:
            self._next_folders = now + _FOLDERS_EVERY_S
            if self._is_output_too_large():
                return Reason.OUTPUT
        return None

    def timeout(self) -> float:
        """Return the seconds until the next look is due."""
        return max(0.0, min(self._next_tick, self._deadline) - time.monotonic())

    def _is_output_too_large(self) -> bool:
        limit = self._bounds.output_mb * 2**20
        size, entries = folders.measure(self._bounds.watched, limit)
        return size > limit or entries > folders.MAX_ENTRIES


def _loop(
    process: subprocess.Popen[bytes], watch: _Watch, selector: selectors.BaseSelector
) -> Reason:
    while (reason := watch.reason()) is None:
        if not selector.get_map():  # it closed its output and goes on
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(watch.timeout())
            continue
        for key, _ in selector.select(watch.timeout()):
            data = os.read(key.fd, _CHUNK)
            if data:
                key.data.write(data)
            else:
                selector.unregister(key.fileobj)
    return reason


def _drain(descriptor: int, sink: BoundedLog) -> None:
    """Take what is left in a pipe; all writers are gone, so this ends."""
    with contextlib.suppress(BlockingIOError):
        while data := os.read(descriptor, _CHUNK):
            sink.write(data)


def _children_usage() -> resource.struct_rusage:
    return resource.getrusage(resource.RUSAGE_CHILDREN)


def _cpu_s(before: resource.struct_rusage) -> float:
    """Return the processor time of the children that were reaped since, seconds."""
    now = _children_usage()
    return now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime


def _known_peak_mb(before: resource.struct_rusage, after: resource.struct_rusage) -> float:
    """Return the kernel's peak of a single process, where it can only be the command's.

    The figure is the largest of all children so far, and a forked child starts with its
    parent's peak; below either it says nothing.
    """
    floor = max(before.ru_maxrss, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return after.ru_maxrss / 1024 if after.ru_maxrss > floor else 0.0
