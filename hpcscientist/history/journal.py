"""The journal: append-only, one writer, on the disk before anything is done about it.

Events that arrive together are written and synced together (`grouped`): the loop flushes before
anything is done about them, and soon where nothing is; whoever does what cannot be done again waits
for that (`settled`). A group may be cut at
any line by a kill; each prefix is a history that might have been. What goes on in other threads
may be recorded from there.

A line is `{"v": 6, "n": 1, "t": seconds, "event": {...}, "k": seal}`; see `history.upcasting` for
the seal and for lines of earlier versions. A torn last group (the driver was killed while writing,
or the power was cut) is cut off from where it is torn when the driver opens the journal, and
ignored by readers; an unreadable line anywhere else is an error, for then the file was changed by
somebody.

A campaign's journal has a trusted copy (see `files.trusted`). Where it does not begin with all that
stands there, the copy is the journal: readers read it, and a driver puts it back.
Not covered: who may write. See `history.lock`.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.errors import DiskFull, RunDirectoryError
from hpcscientist.files import log
from hpcscientist.files.atomic import NO_SPACE, write_atomic
from hpcscientist.files.handed import open_regular
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.history.upcasting import Line, Reader, group, is_torn, text_of
from hpcscientist.records.events import CampaignStarted, Event


def read(path: Path) -> list[Event]:
    """Return the events of a journal, without changing it."""
    return list(events(path))


def events(path: Path) -> Iterator[Event]:
    """Yield the events of a journal one by one, without changing it."""
    return (line.event for line in _parse(path))


def lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a journal one by one: the events with their times."""
    return _parse(path)


def read_lines(path: Path) -> list[Line]:
    """Return the lines of a journal: the events with their times."""
    return list(_parse(path))


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
        self._source = source = _Source.of(path)
        reader, whole = Reader(path.parent), 0
        with _uncollected():
            for line, end in source.lines(reader):  # one by one: thousands are a tenth of a driver
                self._keys.add(line.event.key)
                self._lines += 1
                observe(line.event)
                whole = end
        self._chain = reader.chain
        try:
            self.was_restored = source.settle(whole)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise _unusable(path, "written", error) from error
        self._mark: object = _mark(os.fstat(self._file))  # None: somebody else changed it

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
        if not self._lines and isinstance(event, CampaignStarted):
            self._chain.begin(event.campaign_id)
        line = Line(n=self._lines + 1, t=round(time.time(), 3), event=event)
        self._unwritten.append(text_of(line))
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
                chain = self._chain.copy()
                self._append(group(self._unwritten, chain))
                self._chain = chain
                del self._unwritten[:count]

    async def settled(self) -> None:
        """Return when all that was recorded so far is on the disk. Raises DiskFull."""
        import asyncio  # noqa: PLC0415 (`hpcsci status` reads journals, and is quick without it)

        if self._unwritten:
            await asyncio.sleep(0)  # what is recorded in the same turn of the loop goes with it
        self.flush()

    def restore(self) -> bool:
        """Put the journal back if somebody else changed, removed or replaced it; say whether that
        was so. Raises RunDirectoryError.
        """
        with self._turn:
            try:
                if self._is_untouched():
                    return False
                restored = self._source.settle()
                os.close(self._file)
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
                self._mark = _mark(os.fstat(self._file))
            except OSError as error:
                raise _unusable(self._path, "written", error) from error
            return restored

    def _is_untouched(self) -> bool:
        try:
            return self._mark == _mark(self._path.lstat())
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Write what waits, and close the file, that in any case. Raises DiskFull."""
        try:
            self.flush()
            self.restore()
        finally:
            os.close(self._file)

    def _append(self, data: bytes) -> None:
        try:
            untouched = self._is_untouched()
            log.append(self._file, data)
            self._source.append(data)
            self._mark = _mark(os.fstat(self._file)) if untouched else None
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


def _parse(path: Path) -> Iterator[Line]:
    """Yield each line; a torn last one is none."""
    return (line for line, _ in _Source.of(path).lines(Reader(path.parent)))


@dataclass(slots=True)
class _Source:
    """Where a journal is read from: its file, or its trusted copy where that says otherwise.

    `known` are the whole lines of the copy, b"" where there is none.
    """

    path: Path
    copy: Path | None
    known: bytes
    is_sound: bool  # the file begins with what is known

    @classmethod
    def of(cls, path: Path) -> _Source:
        """Compare a journal with its copy. Raises RunDirectoryError."""
        try:
            trusted = frozen.trusted_copy(RunPaths(path.parent))
            if trusted is None:
                return cls(path, None, b"", True)
            # The copy first: a driver that is alive writes there what is in the file already.
            known = _whole_lines(trusted.journal)
            if _begins(path, known):
                return cls(path, trusted.journal, known, True)
            # A power cut may have taken a part of what was never waited for.
            known = known[: _sound_size(path.parent, known)]
            return cls(path, trusted.journal, known, _begins(path, known))
        except OSError as error:
            raise _unusable(path, "read", error) from error

    def lines(self, reader: Reader) -> Iterator[tuple[Line, int]]:
        """Yield each line, with the size of the journal up to its end. Raises RunDirectoryError."""
        end = 0
        try:
            with open_regular(self.path) if self.is_sound else io.BytesIO(self.known) as file:
                for line, end in log.read(file, reader.line, is_torn):
                    yield line, end
        except FileNotFoundError:
            return
        except log.DamagedLine as error:
            if 0 < len(self.known) <= end:
                return  # what no driver wrote, behind all that drivers did
            raise RunDirectoryError(
                f"{self.path}:{error.number}: is damaged; restore the file from a backup"
            ) from error
        except OSError as error:
            raise _unusable(self.path, "read", error) from error

    def settle(self, whole: int | None = None) -> bool:
        """Have file and copy hold the same, the first `whole` bytes (None: all of the copy); say
        whether the file was another's. Raises OSError.
        """
        if whole is None:
            if self.copy is None:
                return False
            self.known = _whole_lines(self.copy)
            self.is_sound = _begins(self.path, self.known) and _size(self.path) == len(self.known)
            whole = len(self.known)
        restored = not self.is_sound
        if restored:
            if self.path.is_dir() and not self.path.is_symlink():
                shutil.rmtree(self.path)
            write_atomic(self.path, self.known[:whole])
        elif _size(self.path) > whole:
            os.truncate(self.path, whole)
        if self.copy is not None and whole != len(self.known):
            with contextlib.suppress(OSError):
                write_atomic(self.copy, _read(self.path, whole), mode=0o600, durable=False)
        self.is_sound, self.known = True, b""
        return restored

    def append(self, data: bytes) -> None:
        """Write what was written to the file to the copy too, as long as there is room for it."""
        if self.copy is None:
            return
        try:
            descriptor = os.open(self.copy, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                log.append(descriptor, data, durable=False)
            finally:
                os.close(descriptor)
        except OSError:
            self.copy = None


def _whole_lines(copy: Path) -> bytes:
    try:
        content = copy.read_bytes()
    except FileNotFoundError:
        return b""
    return content[: content.rfind(b"\n") + 1]


def _begins(path: Path, known: bytes) -> bool:
    """Whether a file begins with what is known; nothing is known of any file's beginning."""
    if not known:
        return True
    try:
        return _read(path, len(known)) == known
    except OSError:
        return False


def _read(path: Path, size: int) -> bytes:
    with open_regular(path) as file:
        return file.read(size)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _sound_size(root: Path, known: bytes) -> int:
    """How much of a journal is as it was written."""
    end = 0
    with contextlib.suppress(log.DamagedLine, RunDirectoryError):
        for _, end in log.read(io.BytesIO(known), Reader(root).line):  # noqa: B007
            pass
    return end


def _mark(info: os.stat_result) -> object:
    return info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns
