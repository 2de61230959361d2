"""Rate limiting: one request to a service at a time, at the interval that the service requires.

The limit applies to all threads of a process, and to all processes of a user on one machine. They
share a small file on the machine's own disk, under a lock (flock(2)) that needs no daemon and ends
with its process. Without such a file, the limit applies only within the process. The file also
records for how long a failing service is set aside.
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

TURN_S = 300.0  # the longest wait for a turn
HOLD_S = 60.0  # how long a service that failed is set aside, doubled with each further failure
_DOUBLINGS = 4
_DAY_S = 86400.0
_POLL_S = 0.1


class NoTurn(Exception):
    """Raised if other threads or processes held the turn for all of TURN_S."""


@dataclass(slots=True)
class _State:
    """The state of a service; times are on this boot's clock, which all processes share."""

    boot: str
    last: float = float("-inf")  # time of the last request
    until: float = float("-inf")  # the service is set aside until then
    failures: int = 0


class Turn:
    """A turn that one thread holds."""

    def __init__(self, turns: Turns, state: _State, save: Callable[[_State], None]) -> None:
        self._turns, self._state, self._save = turns, state, save

    @property
    def left_alone_s(self) -> float:
        """The seconds for which the service is still set aside; 0 if it may be asked."""
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
        """Record that the service has answered."""
        if self._state.failures:
            self._state.failures = 0
            self._save(self._state)

    def set_aside(self, asked_s: float | None = None) -> float:
        """Set the service aside, at least for as long as it asked; return the seconds."""
        held = HOLD_S * 2.0 ** min(self._state.failures, _DOUBLINGS)
        seconds = min(max(held, asked_s or 0.0), _DAY_S)
        self._state.until = self._turns.clock() + seconds
        self._state.failures += 1
        self._save(self._state)
        return seconds


class Turns:
    """The turns at one service, which any thread may take.

    If `folder` is None, turns apply to this process only.
    """

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
        """Hold the turn within the context. Raises NoTurn."""
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
        """Open the shared file and hold its lock; None if that is impossible. Raises NoTurn."""
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
        """Return the state in the file; a fresh one if it is damaged or of another boot."""
        fresh = _State(self._boot)
        try:
            state = _State(**json.loads(os.pread(descriptor, 4096, 0)))
            now = self.clock()
            sane = state.last <= now and state.until <= now + _DAY_S and state.failures >= 0
        except (OSError, ValueError, TypeError):
            return fresh
        return state if sane and state.boot == self._boot else fresh


def shared_folder() -> Path | None:
    """Return this user's folder for turns on this machine's disk; None if they do not own it."""
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
    with contextlib.suppress(OSError):  # a full disk: other processes only miss this update
        data = json.dumps(asdict(state)).encode()
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, data, 0)


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
