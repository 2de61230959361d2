"""One process that reads sources, and our end of the line to it."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from hpcscientist.errors import LibraryError
from hpcscientist.literature.library.processes.forks import READER, Forks

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
