"""A pool of processes that read sources concurrently and return results in the order of the tasks.

If a process crashes, hangs or takes too much memory, only the source that it was reading is lost.
Results that wait for earlier tasks are bounded: while too many wait, the pool begins no task and
reads only from the process whose task is first.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from hpcscientist.errors import LibraryError
from hpcscientist.literature.library.processes.extraction import Output, SourceEnd, Task, extract
from hpcscientist.literature.library.processes.forks import READER, Forks

# The parent's view of one reader process: its connection, its job, its memory.


_PAGE = os.sysconf("SC_PAGE_SIZE")
_LOOK_S = 0.1

J = TypeVar("J")


class Work(Protocol):
    """Work for a reader process, which is pickled: read a source, or index some papers."""

    def outputs(self) -> Iterator[Any]:
        """Yield the results: batches with their number of bytes (`size`), then Ended."""
        ...

    def after(self, batches: int) -> Any:
        """Return the rest of the work after some more batches."""
        ...


class ReaderProcess(Generic[J]):
    """A slot for one reader process, which is started when there is work.

    `job` is its current job. `pid` is 0 until the process has started and sent it. `heard` is when
    it last sent something, on the monotonic clock. `number` identifies the fork.
    """

    _looked = 0.0  # when its memory was last read, on the monotonic clock

    def __init__(self, forks: Forks, number: int) -> None:
        self.job: J | None = None
        self.heard = 0.0
        self.pid = 0
        self._forks, self._number = forks, number
        self._connection: Connection | None = None

    @property
    def connection(self) -> Connection:
        """Our end of the connection."""
        assert self._connection is not None
        return self._connection

    @property
    def running(self) -> bool:
        """Whether a process was started and not forgotten."""
        return self._connection is not None

    @property
    def started(self) -> bool:
        """Whether the process has started and is ready for work."""
        return self.pid != 0

    def begin(self, job: J, work: Work) -> None:
        """Send the work of a job to the process, which is started if needed."""
        if self._connection is None:
            self.pid = 0
            self._connection = Connection(self._forks.begin(self._number))
        self.job, self.heard = job, time.monotonic()
        with contextlib.suppress(OSError):  # the process is dead: the next read finds that out
            self.connection.send(work)

    def end(self, patience_s: float = 0.0) -> int:
        """End the process after at most `patience_s` seconds; return its status as Popen does."""
        status = self._forks.end(self._number, patience_s) if self.running else 0
        self.forget()
        return status

    def forget(self) -> None:
        """Close the connection to a process that has ended."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def memory_mb(self) -> float:
        """Return the resident memory of the process in MiB; 0 if it was read a moment ago."""
        now = time.monotonic()
        if not self.pid or now < self._looked + _LOOK_S:
            return 0.0
        self._looked = now
        try:
            statm = Path(f"/proc/{self.pid}/statm").read_text()
        except OSError:
            return 0.0
        return int(statm.split()[1]) * _PAGE / 2**20


def not_started(what: str) -> LibraryError:
    """Return the error for a process that ended or hung before it read anything."""
    return LibraryError(
        f"a process that reads {what}: `{sys.executable} -P -c 'import {READER}'` may say why"
    )


_TICK_S = 0.2
_START_S = 120.0  # starting Python is slow on a file system that a thousand others use too
_DYING_S = 30.0  # a large process ends slowly, and only its exit status gives the reason
_AHEAD = 8  # tasks per process that may be begun while the first one is unfinished
# Signals from outside: the out-of-memory killer, Slurm, a user. Not yet a fault of the source.
_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """Limits for a source: seconds without any result, MiB of memory, tries.

    `waiting` bounds the bytes of all results that wait for earlier tasks.
    """

    seconds: float = 120.0
    memory_mb: int = 2048
    tries: int = 2
    waiting: int = 64 << 20


@dataclass(frozen=True, slots=True)
class Lost:
    """The end of a source whose process was lost; results before that are kept."""

    reason: str


@dataclass(slots=True)
class _Job:
    task: Work
    outputs: deque[Any] = field(default_factory=deque)
    given: int = 0  # batches so far, over all tries
    tries: int = 1
    ended: bool = False

    def rest(self) -> Work:
        """Return the work that has given no result yet."""
        rest: Work = self.task.after(self.given)
        return rest


_Reader = ReaderProcess[_Job]
W = TypeVar("W", bound=Work)


def read_here(tasks: Iterable[Task]) -> Iterator[tuple[Task, Output | Lost]]:
    """Read tasks in this process, without limits: for a little metadata."""
    for task in tasks:
        for output in extract(task):
            yield task, output


class ReaderPool:
    """Up to `jobs` reader processes, started when there is work.

    `close` ends them; later work starts them again. They also end with this process. `forks` is
    the fork server to use, if it has been started already.
    """

    def __init__(self, jobs: int, limits: SourceLimits, forks: Forks | None = None) -> None:
        self.jobs = jobs
        self._limits = limits
        self._forks = forks or Forks()
        self._workers = [_Reader(self._forks, number) for number in range(jobs)]
        self._queue: deque[_Job] = deque()
        self._waiting = 0

    def __enter__(self) -> ReaderPool:
        """Return itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """End all processes."""
        self.close()

    @property
    def running(self) -> bool:
        """Whether any process was started."""
        return any(worker.running for worker in self._workers)

    def expect(self, modules: Iterable[str]) -> None:
        """Let the fork server import modules, so that not every process has to."""
        self._forks.modules.update(modules)

    def close(self) -> None:
        """End all processes at once."""
        self._forks.close()
        for worker in self._workers:
            worker.forget()

    def read(self, tasks: Iterable[W]) -> Iterator[tuple[W, Any]]:
        """Yield the outputs of tasks, in the order of the tasks: batches, then Ended or Lost."""
        todo = iter(tasks)
        while True:
            self._begin(todo)
            if not self._queue:
                return
            head = self._queue[0]
            while head.outputs:
                output = head.outputs.popleft()
                self._waiting -= 0 if isinstance(output, SourceEnd | Lost) else output.size
                yield head.task, output  # type: ignore[misc]
            if head.ended:
                self._queue.popleft()
            else:
                self._listen(head)

    def _begin(self, todo: Iterator[Work]) -> None:
        for worker in self._workers:
            crowded = self._waiting >= self._limits.waiting
            if self._queue and (crowded or len(self._queue) >= _AHEAD * len(self._workers)):
                return
            if worker.job is None:
                task = next(todo, None)
                if task is None:
                    return
                job = _Job(task)
                self._queue.append(job)
                worker.begin(job, job.rest())

    def _listen(self, head: _Job) -> None:
        """Receive outputs; if too many wait already, only those of the first task."""
        crowded = self._waiting >= self._limits.waiting
        heard = [w for w in self._workers if w.job and (w.job is head or not crowded)]
        for worker in self._workers:
            if worker.job is not None and worker not in heard:
                worker.heard = time.monotonic()
        ready = wait([worker.connection for worker in heard], timeout=_TICK_S)
        for worker in heard:
            if worker.connection in ready:
                self._take(worker)
            else:
                self._check(worker)

    def _take(self, worker: _Reader) -> None:
        job = worker.job
        assert job is not None
        try:
            output: Any = worker.connection.recv()
        except (EOFError, OSError):
            self._bury(worker, job)
            return
        worker.heard = time.monotonic()
        if isinstance(output, int):
            worker.pid = output
            return
        job.outputs.append(output)
        if isinstance(output, SourceEnd):
            job.ended, worker.job = True, None
        else:
            job.given += 1
            self._waiting += output.size
            self._check(worker)

    def _bury(self, worker: _Reader, job: _Job) -> None:
        """Retry the job of a dead process if a signal from outside killed it; else give it up."""
        status = worker.end(_DYING_S)
        if -status in _FROM_OUTSIDE and job.tries < self._limits.tries:
            job.tries += 1
            worker.begin(job, job.rest())
            return
        name = signal.Signals(-status).name if status < 0 else f"exit code {status}"
        if not worker.started:  # not the fault of the source
            raise not_started(f"ended with {name}")
        self._lose(worker, job, f"the process that read it ended with {name}")

    def _check(self, worker: _Reader) -> None:
        job = worker.job
        assert job is not None
        limits = self._limits
        silent = time.monotonic() - worker.heard
        if not worker.started and silent > _START_S:
            raise not_started(f"did not start within {_START_S:g} s")
        if worker.started and silent > limits.seconds:
            worker.end()
            self._lose(worker, job, f"gave nothing for {limits.seconds:g} s")
        elif worker.memory_mb() > limits.memory_mb:
            worker.end()
            self._lose(worker, job, f"took more than {limits.memory_mb} MiB of memory")

    def _lose(self, worker: _Reader, job: _Job, reason: str) -> None:
        job.outputs.append(Lost(reason))
        job.ended, worker.job = True, None
