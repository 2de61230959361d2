"""The parent's view of one reader process: its connection, its job, its memory."""

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
