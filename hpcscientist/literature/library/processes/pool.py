"""Processes that read sources side by side; what they find is given back in the order of the tasks.

A process that crashes, stands still or takes too much memory costs the source that it had in
hand, no more. What waits for its turn is bounded: nothing more is begun, and processes are left
waiting, while much is waiting already.
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
from hpcscientist.literature.library.processes.extraction import Ended, Output, Task, extract
from hpcscientist.literature.library.processes.forks import READER, Forks

# One process that reads sources, and our end of the line to it.

_PAGE = os.sysconf("SC_PAGE_SIZE")
_LOOK_S = 0.1

J = TypeVar("J")


class Work(Protocol):
    """What such a process is given to do, pickled: to read a source, or to index some papers."""

    def outputs(self) -> Iterator[Any]:
        """Yield what comes of it: batches, which say how many bytes they are (`size`); Ended."""
        ...

    def after(self, batches: int) -> Any:
        """Return what is left when so many batches were given."""
        ...


class ReaderProcess(Generic[J]):
    """A place for one process, which is started when there is something to read.

    `job` is what it has in hand, `pid` is 0 until it has come as far as asking for it, `heard`
    when it last gave something, on the monotonic clock. `number` tells the forks apart.
    """

    _looked = 0.0  # when, for its memory

    def __init__(self, forks: Forks, number: int) -> None:
        self.job: J | None = None
        self.heard = 0.0
        self.pid = 0
        self._forks, self._number = forks, number
        self._connection: Connection | None = None

    @property
    def connection(self) -> Connection:
        """Our end."""
        assert self._connection is not None
        return self._connection

    @property
    def running(self) -> bool:
        """Whether there is a process."""
        return self._connection is not None

    @property
    def started(self) -> bool:
        """Whether the process has come as far as asking for work."""
        return self.pid != 0

    def begin(self, job: J, work: Work) -> None:
        """Have the work of a job done."""
        if self._connection is None:
            self.pid = 0
            self._connection = Connection(self._forks.begin(self._number))
        self.job, self.heard = job, time.monotonic()
        with contextlib.suppress(OSError):  # it is dead: whoever listens next finds out
            self.connection.send(work)

    def end(self, patience_s: float = 0.0) -> int:
        """End the process, at once or if it does not end by itself; return Popen's status."""
        status = self._forks.end(self._number, patience_s) if self.running else 0
        self.forget()
        return status

    def forget(self) -> None:
        """Let go of a process that has ended."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def memory_mb(self) -> float:
        """Resident memory of the process; 0 if that was asked a moment ago."""
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
    """Return the error for a process that ended, or waits, before it read anything."""
    return LibraryError(
        f"a process that reads {what}: `{sys.executable} -P -c 'import {READER}'` may say why"
    )


_TICK_S = 0.2
_START_S = 120.0  # Python from a file system that a thousand others use too
_DYING_S = 30.0  # a large process takes its time, and only its own end says why
_AHEAD = 8  # tasks a process that may be begun before the first of them has ended
# From outside: the out-of-memory killer, a scheduler, a person. No fault of the source yet.
_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


@dataclass(frozen=True, slots=True)
class Limits:
    """What a source may cost: seconds until it gives something, MiB of memory, tries.

    `waiting` is how many bytes may wait for their turn in all.
    """

    seconds: float = 120.0
    memory_mb: int = 2048
    tries: int = 2
    waiting: int = 64 << 20


@dataclass(frozen=True, slots=True)
class Lost:
    """A source that its process did not survive; what it gave before stands."""

    reason: str


@dataclass(slots=True)
class _Job:
    task: Work
    outputs: deque[Any] = field(default_factory=deque)
    given: int = 0  # batches so far, all tries
    tries: int = 1
    ended: bool = False

    def rest(self) -> Work:
        """Return what has not been given yet."""
        rest: Work = self.task.after(self.given)
        return rest


_Reader = ReaderProcess[_Job]
W = TypeVar("W", bound=Work)


def read_here(tasks: Iterable[Task]) -> Iterator[tuple[Task, Output | Lost]]:
    """Read in this process, without limits: for a little metadata."""
    for task in tasks:
        for output in extract(task):
            yield task, output


class Pool:
    """Processes that read, started when there is something to do.

    `close` ends them, until there is more to do; so does the end of this one. `jobs` is how many,
    `forks` what they are forks of, where that has been started already.
    """

    def __init__(self, jobs: int, limits: Limits, forks: Forks | None = None) -> None:
        self.jobs = jobs
        self._limits = limits
        self._forks = forks or Forks()
        self._workers = [_Reader(self._forks, number) for number in range(jobs)]
        self._queue: deque[_Job] = deque()
        self._waiting = 0

    def __enter__(self) -> Pool:
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
        """Have modules imported once, before a process is started, and not by each of them."""
        self._forks.modules.update(modules)

    def close(self) -> None:
        """End all processes at once."""
        self._forks.close()
        for worker in self._workers:
            worker.forget()

    def read(self, tasks: Iterable[W]) -> Iterator[tuple[W, Any]]:
        """Yield what the tasks give, in their order: batches, then Ended or Lost."""
        todo = iter(tasks)
        while True:
            self._begin(todo)
            if not self._queue:
                return
            head = self._queue[0]
            while head.outputs:
                output = head.outputs.popleft()
                self._waiting -= 0 if isinstance(output, Ended | Lost) else output.size
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
        """Take what has come. Whose turn it is not has to wait where too much waits already."""
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
        if isinstance(output, Ended):
            job.ended, worker.job = True, None
        else:
            job.given += 1
            self._waiting += output.size
            self._check(worker)

    def _bury(self, worker: _Reader, job: _Job) -> None:
        """Put a new process in the place of one that died, and try again what it died of."""
        status = worker.end(_DYING_S)
        if -status in _FROM_OUTSIDE and job.tries < self._limits.tries:
            job.tries += 1
            worker.begin(job, job.rest())
            return
        name = signal.Signals(-status).name if status < 0 else f"exit code {status}"
        if not worker.started:  # that is no fault of the source
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
