"""Whose turn it is to ask a service: one request at a time, so far apart as it wants them.

It holds for all threads of a process, and for all processes of a user on one machine: they
share a small file on the machine's own disk, under a lock (flock(2)) that needs no daemon and
ends with its process. Where there is no such file, it holds for the process alone. That a
service is left alone for a while is in the file too.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

TURN_S = 300.0  # the longest anybody waits for others' turns
HOLD_S = 60.0  # how long a service that failed is left alone, doubled from time to time
_DOUBLINGS = 4
_DAY_S = 86400.0
_POLL_S = 0.1


class NoTurn(Exception):
    """Others have asked the service all the time."""


@dataclass(slots=True)
class _State:
    """Of a service, on the clock of this boot, which all processes share."""

    boot: str
    last: float = float("-inf")  # when it was asked last
    until: float = float("-inf")  # when it may be asked again
    failures: int = 0


class Turn:
    """The turn of one thread."""

    def __init__(self, turns: Turns, state: _State, save: Callable[[_State], None]) -> None:
        self._turns, self._state, self._save = turns, state, save

    @property
    def left_alone_s(self) -> float:
        """For how many seconds yet the service is to be left alone; 0 if it may be asked."""
        left: float = self._state.until - self._turns.clock()
        return max(0.0, left)

    def begin(self) -> None:
        """Wait until the next request may be sent. Call it before each."""
        pause = self._state.last + self._turns.interval_s - self._turns.clock()
        if pause > 0:
            self._turns.sleep(pause)
        self._state.last = self._turns.clock()
        self._save(self._state)

    def succeed(self) -> None:
        """Note that the service has answered."""
        if self._state.failures:
            self._state.failures = 0
            self._save(self._state)

    def set_aside(self, asked_s: float | None = None) -> float:
        """Leave the service alone for a while, and for so long as it asked; return the seconds."""
        held = HOLD_S * 2.0 ** min(self._state.failures, _DOUBLINGS)
        seconds = min(max(held, asked_s or 0.0), _DAY_S)
        self._state.until = self._turns.clock() + seconds
        self._state.failures += 1
        self._save(self._state)
        return seconds


class Turns:
    """The turns at one service. `folder` None: this process alone. Any thread may take one."""

    def __init__(
        self,
        name: str,
        interval_s: float,
        folder: Path | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.interval_s, self.clock, self.sleep = interval_s, clock, sleep
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        self._path = None if folder is None else folder / f"{digest}.turn"
        self._boot = _boot()
        self._mine = threading.Lock()
        self._state = _State(self._boot)

    @contextmanager
    def take(self) -> Iterator[Turn]:
        """Hold the turn. Raises NoTurn."""
        if not self._mine.acquire(timeout=TURN_S):
            raise NoTurn
        try:
            descriptor = self._locked()
            try:
                if descriptor is not None:
                    self._state = self._read(descriptor)
                yield Turn(self, self._state, lambda state: _write(descriptor, state))
            finally:
                if descriptor is not None:
                    os.close(descriptor)
        finally:
            self._mine.release()

    def _locked(self) -> int | None:
        """Open the shared file and hold its lock. None where that cannot be. Raises NoTurn."""
        if self._path is None:
            return None
        descriptor = None
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            until = self.clock() + TURN_S
            while not _lock(descriptor):
                if self.clock() > until:
                    raise NoTurn
                self.sleep(_POLL_S)
        except BaseException as error:
            if descriptor is not None:
                os.close(descriptor)
            if isinstance(error, OSError):  # no space, no locks on this file system
                return None
            raise
        return descriptor

    def _read(self, descriptor: int) -> _State:
        """Return what the file says, unless it is damaged or of another boot."""
        fresh = _State(self._boot)
        try:
            state = _State(**json.loads(os.pread(descriptor, 4096, 0)))
            now = self.clock()
            sane = state.last <= now and state.until <= now + _DAY_S and state.failures >= 0
        except (OSError, ValueError, TypeError):
            return fresh
        return state if sane and state.boot == self._boot else fresh


def shared_folder() -> Path | None:
    """Return this user's folder for turns on this machine's disk; None where it is not theirs."""
    folder = Path(tempfile.gettempdir()) / f"hpcsci-online-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        info = folder.stat(follow_symlinks=False)
    except OSError:
        return None
    alone = info.st_uid == os.getuid() and not info.st_mode & 0o077
    return folder if alone and not folder.is_symlink() else None


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(descriptor: int | None, state: _State) -> None:
    if descriptor is None:
        return
    with contextlib.suppress(OSError):  # a full disk: other processes know less, that is all
        data = json.dumps(asdict(state)).encode()
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, data, 0)


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
