"""Run one command within limits, and leave none of its processes behind.

The limits are enforced from outside: a wall-clock deadline, memory and processes of the whole tree,
bytes in watched folders, size of the output. However the command ends, every descendant is stopped
and killed before `supervise` returns, daemons included.

Call it from the main thread: the kernel ties the child's life to the thread that created it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
import selectors
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from hpcscientist.execution.bounds import pid_namespace
from hpcscientist.execution.bounds.guard import leave_guard
from hpcscientist.execution.bounds.watch import Bounds, Reason, Watch, tasks_of_all
from hpcscientist.system.processes import ProcessTree, ahead_of_others

# Count the kernel's out-of-memory kills, in this process's control group and on the whole node.
#
# Slurm limits a job's memory by control groups. If a job exceeds its limit, the kernel kills
# one process, usually the largest: a candidate. Its worker survives and sees only signal 9.


# Beside the counts of kills: version 1 and version 2 of control groups.
_FILES = {"memory": "memory.oom_control", "": "memory.events"}


def memory_kills(proc: Path = Path("/proc/self")) -> int:
    """Return the number of kills in this process's control group so far; 0 if not counted."""
    with contextlib.suppress(OSError, ValueError):
        groups, mounts = (proc / "cgroup").read_text(), (proc / "mountinfo").read_text()
        for line in groups.splitlines():
            _, controllers, group = line.split(":", 2)
            name = "memory" if "memory" in controllers.split(",") else controllers
            if name in _FILES and (folder := _folder(mounts, name, group)) is not None:
                with contextlib.suppress(OSError):
                    found = re.search(r"(?m)^oom_kill (\d+)$", (folder / _FILES[name]).read_text())
                    if found:
                        return int(found[1])
    return 0


def memory_kills_of_node(vmstat: Path = Path("/proc/vmstat")) -> int | None:
    """Return the number of kills of any process on this node so far; None if not counted.

    The kernel does not count kills by daemons that free memory (earlyoom, systemd-oomd).
    """
    with contextlib.suppress(OSError):
        found = re.search(r"(?m)^oom_kill (\d+)$", vmstat.read_text())
        return int(found[1]) if found else None
    return None


def _folder(mounts: str, controller: str, group: str) -> Path | None:
    """Return a control group's folder, or None; a container or node may see only some groups."""
    for line in reversed(mounts.splitlines()):  # a later mount hides an earlier one
        mount, _, source = line.partition(" - ")
        kind, _, options = source.split(" ", 2)
        root, place = mount.split(" ")[3:5]
        wanted = "cgroup" if controller else "cgroup2"
        if kind == wanted and (not controller or controller in options.split(",")):
            below = group.removeprefix(root.rstrip("/"))
            if group == root or below.startswith("/"):
                return Path(place) / below.lstrip("/") if group != root else Path(place)
    return None


# Bounded logs: the first and the last part of a program's output.

HEAD = TAIL = 256 * 1024


class BoundedLog:
    """A log of the first `head` and last `tail` bytes, with the number of bytes dropped between.

    The head is written to the target at once, the tail at `finish`. If the target fails (a full
    disk), output is lost, but the trial goes on.
    """

    def __init__(self, target: BinaryIO, head: int = HEAD, tail: int = TAIL) -> None:
        self._target, self._room, self._keep = target, head, tail
        self._tail: deque[bytes] = deque()
        self._held = self.dropped = 0

    def write(self, data: bytes) -> None:
        """Add some output."""
        if self._room:
            first, data = data[: self._room], data[self._room :]
            self._room -= len(first)
            self._put(first)
        if not data:
            return
        self._tail.append(data)
        self._held += len(data)
        while self._tail and self._held - len(self._tail[0]) >= self._keep:
            self._drop(len(self._tail[0]))
            self._tail.popleft()

    def finish(self) -> None:
        """Write the tail. Call it once, at the end."""
        data = b"".join(self._tail)
        if len(data) > self._keep:
            self._drop(len(data) - self._keep)
            data = data[-self._keep :]
        if self.dropped:
            self._put(f"\n[... {self.dropped} bytes of output were dropped here ...]\n".encode())
        self._put(data)
        self._tail.clear()

    def _drop(self, count: int) -> None:
        self.dropped += count
        self._held -= count

    def _put(self, data: bytes) -> None:
        try:
            self._target.write(data)
            self._target.flush()
        except OSError:
            self._room = 0


# What a candidate's process does between fork and exec: it limits itself.
#
# The kernel enforces these limits. Processes and memory are counted from outside (`watch`); here
# they only have a backstop for what happens between two looks.

# If memory runs out, the kernel should kill the candidate and not its worker, which can then report
# what happened. The score adds a tenth of the memory: enough to prefer the candidate to its worker,
# too little to kill it instead of a process that really holds more.
_OOM_SCORE = "100"
_ROOM = 16


def preparation(bounds: Bounds, life: int, kept: Sequence[str]) -> Callable[[], None]:
    """Return the function to run in this process's child, between fork and exec.

    `life` is the reading end of a pipe that this process keeps open. `kept` are names in /dev/shm.
    """
    apart_mb = bounds.memory_mb if bounds.apart and pid_namespace.is_possible() else 0
    # Beyond the limit, so that a look from outside can see that it was exceeded.
    most = counted = bounds.processes + max(_ROOM, bounds.processes // 8)
    if not apart_mb or not pid_namespace.counts_own_processes():
        # All processes of the user on this machine count, other jobs' included. So allow for all
        # that exist, for the candidate's own, and for as many that others start meanwhile.
        counted = tasks_of_all() + 2 * bounds.processes
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: bounds.output_mb * 2**20,
        resource.RLIMIT_NOFILE: bounds.open_files,
        resource.RLIMIT_NPROC: counted,
    }

    def prepare() -> None:
        leave_guard(life, most, apart_mb, kept)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123 (no imports here)
            file.write(_OOM_SCORE)
        for kind, wanted in limits.items():
            hard = resource.getrlimit(kind)[1]
            limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(kind, (limit, limit))

    return prepare


__all__ = ["Bounds", "CommandEnd", "Reason", "RunPlace", "supervise"]

_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where a command runs: its working directory and complete environment."""

    folder: Path
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command ended. Seconds, MiB. `survivors`: processes that could not be killed.

    peak_mb: the highest value seen; 0 if the command ended before the first look.
    starved: the kernel killed a process of our control group for lack of memory meanwhile.
    node_starved: it killed some process of this node for that; None if unknown.
    """

    exit_code: int | None
    signal: int | None
    reason: Reason
    wall: float
    cpu_s: float
    peak_mb: float
    survivors: tuple[int, ...] = ()
    starved: bool = False
    node_starved: bool | None = None


def supervise(
    command: Sequence[str],
    place: RunPlace,
    bounds: Bounds,
    stop: threading.Event,
    stdout: BoundedLog,
    stderr: BoundedLog | None = None,
) -> CommandEnd:
    """Run a command; with `stderr` None, both of its streams go to `stdout`.

    Setting `stop` ends it within a tick. Raises OSError if the command cannot be started.
    """
    kills, kills_of_node = memory_kills(), memory_kills_of_node()
    tree, before, begun = ProcessTree(), _children_usage(), time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.callback(tree.end)  # also if nothing could be started
        process = stack.enter_context(_started(command, place, bounds, joined=stderr is None))
        tree.watch(process, bounds.apart and pid_namespace.is_possible())
        watch = Watch(process, tree, bounds, stop, begun)
        stack.enter_context(_told_of_resumption(watch))
        stack.enter_context(ahead_of_others())
        pipes = [(process.stdout, stdout), (process.stderr, stderr)]
        with selectors.DefaultSelector() as selector:
            for pipe, sink in pipes:
                if pipe is not None:
                    os.set_blocking(pipe.fileno(), False)
                    selector.register(pipe, selectors.EVENT_READ, sink)
            try:
                reason = _loop(process, watch, selector)
            finally:
                survivors = tree.end()
                for key in list(selector.get_map().values()):
                    _drain(key.fd, key.data)
                for pipe, sink in pipes:
                    if pipe is not None and sink is not None:
                        pipe.close()
                        sink.finish()
    code = process.poll()
    after = _children_usage()
    return CommandEnd(
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        reason=reason,
        wall=time.monotonic() - begun,
        # A container's first process does not report the time of processes killed with it.
        cpu_s=max(watch.cpu_s, _cpu_s(before)),
        peak_mb=max(watch.peak_mb, _known_peak_mb(before, after)),
        survivors=survivors,
        starved=memory_kills() > kills,
        node_starved=None if kills_of_node is None else memory_kills_of_node() != kills_of_node,
    )


@contextmanager
def _started(
    command: Sequence[str], place: RunPlace, bounds: Bounds, joined: bool
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command below a guard, which kills it if this process is gone (see `guard`).

    The process returned is the guard, which exits the way the command exits. Raises OSError.
    """
    life, alive = os.pipe()
    words = (*command, *place.environment.values(), str(place.folder))
    kept = pid_namespace.kept_in_shared(words)
    try:
        try:
            process = subprocess.Popen(
                command,
                cwd=place.folder,
                env=dict(place.environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if joined else subprocess.PIPE,
                start_new_session=True,
                preexec_fn=preparation(bounds, life, kept),  # noqa: PLW1509 (a worker runs no threads)
            )
        except subprocess.SubprocessError as error:  # our own code between fork and exec failed
            said = "a process could not be set up: see `ulimit -u` and `ulimit -n`"
            raise OSError(errno.EAGAIN, said) from error
        finally:
            os.close(life)
        yield process
    finally:
        os.close(alive)


@contextmanager
def _told_of_resumption(watch: Watch) -> Iterator[None]:
    def resumed(number: int, frame: FrameType | None) -> None:
        watch.resumed = True

    before = signal.signal(signal.SIGCONT, resumed)
    try:
        yield
    finally:
        signal.signal(signal.SIGCONT, before)


def _loop(
    process: subprocess.Popen[bytes], watch: Watch, selector: selectors.BaseSelector
) -> Reason:
    while (reason := watch.reason()) is None:
        if not selector.get_map():  # it closed its output but still runs
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
    """Read what is left in a pipe; all writers are gone, so this ends."""
    with contextlib.suppress(BlockingIOError):
        while data := os.read(descriptor, _CHUNK):
            sink.write(data)


def _children_usage() -> resource.struct_rusage:
    return resource.getrusage(resource.RUSAGE_CHILDREN)


def _cpu_s(before: resource.struct_rusage) -> float:
    """Return the processor time of the children reaped since `before`, in seconds."""
    now = _children_usage()
    return now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime


def _known_peak_mb(before: resource.struct_rusage, after: resource.struct_rusage) -> float:
    """Return the kernel's peak memory of a single process if that must be the command's, else 0.

    The kernel reports the largest peak of all children so far, and a forked child starts with its
    parent's peak. A value up to either of these says nothing about the command.
    """
    floor = max(before.ru_maxrss, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return after.ru_maxrss / 1024 if after.ru_maxrss > floor else 0.0
