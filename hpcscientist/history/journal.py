"""The journal: append-only, with one writer. Events are on disk before anything acts on them.

Events that arrive together are written and synced together (`grouped`). The loop flushes before it
acts on them, and soon otherwise; code whose effects cannot be repeated waits for the disk with
`settled`. A kill may cut a group at any line: each prefix is a valid history. Other threads may
record events too.

A line is `{"v": 6, "n": 1, "t": seconds, "event": {...}, "k": signature}`; see `history.upcasting`
for signatures and for lines of earlier versions. If a kill or a power cut tore the last group, the
driver truncates the file at the tear when it opens the journal, and readers ignore the rest. An
unreadable line anywhere else is an error, because then somebody changed the file.

A campaign's journal has a trusted copy (see `files.trusted`). If the file does not begin with the
copy's content, the copy counts: readers read it, and a driver restores the file from it. For who
may write, see `history.status`.
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
from hpcscientist.files.hashing import change_mark
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.history.upcasting import JournalLine, JournalReader, group, is_torn, text_of
from hpcscientist.records.events import CampaignStarted, Event


def read(path: Path) -> list[Event]:
    """Return the events of a journal, without changing it."""
    return list(events(path))


def events(path: Path) -> Iterator[Event]:
    """Yield the events of a journal one by one, without changing it."""
    return (line.event for line in _parse(path))


def lines(path: Path) -> Iterator[JournalLine]:
    """Yield the lines of a journal one by one: events with their times."""
    return _parse(path)


def read_lines(path: Path) -> list[JournalLine]:
    """Return the lines of a journal: events with their times."""
    return list(_parse(path))


class Journal:
    """The writer of a journal. `record` is idempotent: it drops an event whose key is known."""

    def __init__(
        self, path: Path, observe: Callable[[Event], None], guard: Callable[[], None] | None = None
    ) -> None:
        """Open the journal, truncate a torn last group, and call `observe` with every old event.

        `guard` is called before each write, and raises when this driver may no longer write.
        """
        self._path = path
        self._guards = [guard] if guard else []
        self._observe = observe
        self._keys: set[str] = set()
        self._lines = 0
        self._unwritten: list[bytes] = []
        self._turn = threading.RLock()
        self._notify: Callable[[], None] | None = None  # set while events are grouped
        self._source = source = _Source.of(path)
        reader, whole = JournalReader(path.parent), 0
        with _uncollected():
            # One by one: thousands of lines at once would be a tenth of a driver's memory.
            for line, end in source.lines(reader):
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
        self._mark: object = change_mark(os.fstat(self._file))  # None: somebody else changed it

    def wait_for(self, settle: Callable[[], None]) -> None:
        """Call `settle` before each write: it returns when what events depend on is on disk."""
        self._guards.append(settle)

    def __contains__(self, key: str) -> bool:
        """Return whether an event with this key is recorded."""
        return key in self._keys

    def record(self, event: Event) -> bool:
        """Append an event; return False if its key was known.

        The event is on disk when this returns, unless events are `grouped`. Raises DiskFull; then
        the file is unchanged.
        """
        with self._turn:
            return self._record(event)

    def _record(self, event: Event) -> bool:
        if event.key in self._keys:
            return False
        if not self._lines and isinstance(event, CampaignStarted):
            self._chain.begin(event.campaign_id)
        line = JournalLine(n=self._lines + 1, t=round(time.time(), 3), event=event)
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
        """Buffer events until `flush` or `settled`. `notify` is called for the first event of a
        group, in the thread that recorded it.
        """
        self._notify = notify
        try:
            yield
        finally:
            self._notify = None

    def flush(self) -> None:
        """Write the buffered events and wait until they are on disk. Raises DiskFull; then they
        stay buffered, and the file is unchanged.
        """
        with self._turn:
            count = len(self._unwritten)  # more may be added meanwhile
            if count:
                for guard in self._guards:
                    guard()
                chain = self._chain.copy()
                self._append(group(self._unwritten, chain))
                self._chain = chain
                del self._unwritten[:count]

    async def settled(self) -> None:
        """Return when everything recorded so far is on disk. Raises DiskFull."""
        import asyncio  # noqa: PLC0415 (`hpcsci status` reads journals, and is quick without it)

        if self._unwritten:
            await asyncio.sleep(0)  # events of the same loop iteration join the group
        self.flush()

    def restore(self) -> bool:
        """Restore the journal if somebody else changed, removed or replaced it; return whether that
        was needed. Raises RunDirectoryError.
        """
        with self._turn:
            try:
                if self._is_untouched():
                    return False
                restored = self._source.settle()
                os.close(self._file)
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
                self._mark = change_mark(os.fstat(self._file))
            except OSError as error:
                raise _unusable(self._path, "written", error) from error
            return restored

    def _is_untouched(self) -> bool:
        try:
            return self._mark == change_mark(self._path.lstat())
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Write the buffered events and close the file, even on errors. Raises DiskFull."""
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
            self._mark = change_mark(os.fstat(self._file)) if untouched else None
        except OSError as error:
            if error.errno in NO_SPACE:
                raise DiskFull(
                    f"{self._path.parent}: no space left; free some and run `hpcsci resume`"
                ) from error
            raise _unusable(self._path, "written", error) from error


@contextmanager
def _uncollected() -> Iterator[None]:
    """Turn the garbage collector off: the state has no garbage, and looking for it among ever more
    objects takes a quarter of the time.
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
        f"{path}: cannot be {what}: {error.strerror}; fix that and run `hpcsci resume`"
    )


def _parse(path: Path) -> Iterator[JournalLine]:
    """Yield each line, without a torn last group."""
    return (line for line, _ in _Source.of(path).lines(JournalReader(path.parent)))


@dataclass(slots=True)
class _Source:
    """The source of a journal: its file, or its trusted copy if the file differs from that.

    `known` are the complete lines of the copy, b"" if there is none.
    """

    path: Path
    copy: Path | None
    known: bytes
    is_sound: bool  # the file begins with `known`

    @classmethod
    def of(cls, path: Path) -> _Source:
        """Compare a journal with its copy. Raises RunDirectoryError."""
        try:
            trusted = frozen.trusted_copy(RunPaths(path.parent))
            if trusted is None:
                return cls(path, None, b"", True)
            # Read the copy first: a live driver appends to the file before it appends to the copy.
            known = _whole_lines(trusted.journal)
            if _begins(path, known):
                return cls(path, trusted.journal, known, True)
            # A power cut may have damaged the end of the copy, which is not synced.
            known = known[: _sound_size(path.parent, known)]
            return cls(path, trusted.journal, known, _begins(path, known))
        except OSError as error:
            raise _unusable(path, "read", error) from error

    def lines(self, reader: JournalReader) -> Iterator[tuple[JournalLine, int]]:
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
                return  # this line is behind everything that drivers wrote: not a driver's
            raise RunDirectoryError(
                f"{self.path}:{error.number}: is damaged; restore the file from a backup"
            ) from error
        except OSError as error:
            raise _unusable(self.path, "read", error) from error

    def settle(self, whole: int | None = None) -> bool:
        """Make file and copy equal: both keep their first `whole` bytes (None: all of the copy).

        Return whether somebody else had changed the file. Raises OSError.
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
        """Append to the copy what was appended to the file, as long as there is room."""
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
    """Return whether a file begins with `known`; True if `known` is empty."""
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
    """Return the size of a journal's intact beginning, in bytes."""
    end = 0
    with contextlib.suppress(log.DamagedLine, RunDirectoryError):
        for _, end in log.read(io.BytesIO(known), JournalReader(root).line):  # noqa: B007
            pass
    return end
