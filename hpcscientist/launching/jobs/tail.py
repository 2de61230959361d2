"""Follows a journal that another process writes; reads only what was appended."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from hpcscientist.errors import RunDirectoryError
from hpcscientist.files import log
from hpcscientist.files.handed import open_regular
from hpcscientist.history.state import CampaignState
from hpcscientist.history.upcasting import JournalReader, is_torn
from hpcscientist.records.events import Event


class JournalTail:
    """The state of a campaign as its journal grows; `time` is that of the last line, in seconds
    since the epoch.

    A last group of lines that cannot be read counts as unfinished. If lines were removed (the
    writer's disk was full, or a driver cut off a torn line), the journal is read from the start.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._restart()

    def _restart(self) -> None:
        self.state, self.time = CampaignState(), 0.0
        self._reader = JournalReader(self._path.parent)
        self._offset, self._lines, self._last = 0, 0, b""

    def read(self, observe: Callable[[Event], None] = lambda event: None) -> list[Event]:
        """Apply the events that were appended since the last call, and return them.

        `observe` gets each event after it is applied and before the next one is. After a journal
        was read from the start, nothing counts as appended. Raises RunDirectoryError when the
        journal is damaged.
        """
        try:
            # Opened each time: on NFS only this shows what another host wrote.
            with open_regular(self._path) as file:
                if self._path.stat().st_size == self._offset:
                    return []
                file.seek(self._offset - len(self._last))
                try:
                    return self._take(file.read(), observe)
                except (_Unexpected, RunDirectoryError):
                    file.seek(0)
                    self._restart()
                    self._take(file.read(), lambda event: None)
                    return []
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RunDirectoryError(
                f"{self._path}: cannot be read: {error.strerror}; fix that and run `hpcsci resume`"
            ) from error
        except _Unexpected as error:
            raise RunDirectoryError(
                f"{self._path}:{error}: is damaged; restore the file from a backup"
            ) from error

    def _take(self, data: bytes, observe: Callable[[Event], None]) -> list[Event]:
        """Apply the lines of `data` after the last known line, which `data` must begin with."""
        if not data.startswith(self._last):
            raise _Unexpected(self._lines)
        appended, start = data[len(self._last) :], 0
        taken: list[Event] = []
        try:
            for line, end in log.read(io.BytesIO(appended), self._reader.line, is_torn):
                self.state.apply(line.event)
                self.time = line.t
                taken.append(line.event)
                self._last = appended[start:end]
                self._offset += end - start
                self._lines += 1
                start = end
                observe(line.event)
        except log.DamagedLine as error:
            raise _Unexpected(self._lines + 1) from error
        return taken


class _Unexpected(Exception):
    """A line that does not continue the known ones; the message is its number."""
