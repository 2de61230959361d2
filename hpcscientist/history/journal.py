"""The journal: append-only, one writer, on the disk before anything is done about it.

Events that arrive together are written and synced together (`grouped`): the loop flushes before
anything is done about them, and soon where nothing is; whoever does what cannot be done again waits
for that (`settled`). A group may be cut at
any line by a kill; each prefix is a history that might have been. What goes on in other threads
may be recorded from there.

A line is `{"v": 5, "n": 1, "t": seconds, "event": {...}}`; see `history.upcasting` for those of
earlier versions. A torn last group (the driver was killed while writing, or the power was cut) is
cut off from where it is torn when the driver opens the journal, and ignored by readers; an
unreadable line anywhere else is an error, for then the file was changed by somebody.
Not covered: who may write. See `history.lock`.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcscientist.errors import DiskFull, RunDirectoryError
from hpcscientist.files import log
from hpcscientist.files.space import NO_SPACE
from hpcscientist.history.upcasting import Line, Reader, group, is_torn
from hpcscientist.records.events import Event


def read(path: Path) -> list[Event]:
    """Return the events of a journal, without changing it."""
    return list(events(path))


def events(path: Path) -> Iterator[Event]:
    """Yield the events of a journal one by one, without changing it."""
    return (line.event for line, _ in _parse(path))


def read_lines(path: Path) -> list[Line]:
    """Return the lines of a journal: the events with their times."""
    return [line for line, _ in _parse(path)]


class Journal:
    """The writer. `record` is idempotent: an event whose key is known is dropped."""

    def __init__(
        self, path: Path, observe: Callable[[Event], None], guard: Callable[[], None] | None = None
    ) -> None:
        """Open the journal, cut a torn last line off, and show `observe` every old event.

        `guard` is called before each write and raises when this driver may no longer write.
        """
        self._path = path
        self._guard = guard or (lambda: None)
        self._observe = observe
        self._keys: set[str] = set()
        self._lines = 0
        self._unwritten: list[bytes] = []
        self._turn = threading.RLock()
        self._notify: Callable[[], None] | None = None  # set while events are grouped
        whole = 0
        with _uncollected():
            for line, end in _parse(path):  # one by one: thousands are a tenth of a driver
                self._keys.add(line.event.key)
                self._lines += 1
                observe(line.event)
                whole = end
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.ftruncate(self._file, whole)
        except OSError as error:
            raise _unusable(path, "written", error) from error

    def __contains__(self, key: str) -> bool:
        """Whether an event with this key is recorded."""
        return key in self._keys

    def record(self, event: Event) -> bool:
        """Append an event; False if its key was known.

        It is on the disk when this returns, unless it is `grouped`. Raises DiskFull, and then the
        file is as it was before.
        """
        with self._turn:
            return self._record(event)

    def _record(self, event: Event) -> bool:
        if event.key in self._keys:
            return False
        line = Line(n=self._lines + 1, t=round(time.time(), 3), event=event)
        self._unwritten.append(line.model_dump_json(exclude={"c"}).encode() + b"\n")
        if self._notify is None:
            try:
                self.flush()
            except BaseException:
                self._unwritten.pop()
                raise
        elif len(self._unwritten) == 1:
            self._notify()
        self._keys.add(event.key)
        self._lines += 1
        self._observe(event)
        return True

    @contextmanager
    def grouped(self, notify: Callable[[], None]) -> Iterator[None]:
        """Have events wait for `flush` or `settled`; `notify` is called when the first one does, in
        the thread that recorded it.
        """
        self._notify = notify
        try:
            yield
        finally:
            self._notify = None

    def flush(self) -> None:
        """Write what waits, and wait until it is on the disk. Raises DiskFull; then it waits on,
        and the file is as it was before.
        """
        with self._turn:
            count = len(self._unwritten)  # more may come meanwhile
            if count:
                self._guard()
                self._append(group(self._unwritten))
                del self._unwritten[:count]

    async def settled(self) -> None:
        """Return when all that was recorded so far is on the disk. Raises DiskFull."""
        import asyncio  # noqa: PLC0415 (`hpcsci status` reads journals, and is quick without it)

        if self._unwritten:
            await asyncio.sleep(0)  # what is recorded in the same turn of the loop goes with it
        self.flush()

    def close(self) -> None:
        """Write what waits, and close the file, that in any case. Raises DiskFull."""
        try:
            self.flush()
        finally:
            os.close(self._file)

    def _append(self, data: bytes) -> None:
        try:
            log.append(self._file, data)
        except OSError as error:
            if error.errno in NO_SPACE:
                raise DiskFull(
                    f"{self._path.parent}: no space left; free some and run `hpcsci resume`"
                ) from error
            raise _unusable(self._path, "written", error) from error


@contextmanager
def _uncollected() -> Iterator[None]:
    """Have no garbage looked for: of what a journal is folded into none is, and looking for it
    among ever more takes a quarter of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _unusable(path: Path, what: str, error: OSError) -> RunDirectoryError:
    return RunDirectoryError(
        f"{path}: cannot be {what}: {error.strerror}; mend that and run `hpcsci resume`"
    )


def _parse(path: Path) -> Iterator[tuple[Line, int]]:
    """Yield each line, with the size of the file up to its end; a torn last one is none."""
    try:
        with path.open("rb") as file:
            yield from log.read(file, Reader(path.parent).line, is_torn)
    except FileNotFoundError:
        return
    except log.DamagedLine as error:
        raise RunDirectoryError(
            f"{path}:{error.number}: is damaged; restore the file from a backup"
        ) from error
    except OSError as error:
        raise _unusable(path, "read", error) from error
