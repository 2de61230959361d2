"""How nodes know that whoever ordered their plane lives: a number that goes on in a shared file.

A process that is killed outright says nothing, and what it started through `srun` or in a
container stays for as long as its job or the machine does. So a plane's nodes end themselves once
the number has stood still for long enough. No clocks of two machines are compared.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from hpcscientist.files.atomic import read_tail
from hpcscientist.files.text import one_line
from hpcscientist.models.serving.order import ServingPaths

BEAT_S = 5.0
# The most that one look counts: a look that a slow file system held up is no long silence.
_LOOK_S = 5.0


class Beat:
    """Keeps the number going, by a thread of this process, from `start` to `stop`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin. Raises OSError where the file cannot be written."""
        self._write(0)
        self._thread = threading.Thread(target=self._keep, daemon=True, name="plane's lease")
        self._thread.start()

    def stop(self) -> None:
        """End, and remove the file. Idempotent."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _keep(self) -> None:
        number = 0
        while not self._over.wait(BEAT_S):
            number += 1
            with contextlib.suppress(OSError):  # the next one may do better
                self._write(number)

    def _write(self, number: int) -> None:
        # In place: most full disks have room for it still, and on NFS whoever opens it sees it.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(descriptor, f"{number:020}\n".encode(), 0)
        finally:
            os.close(descriptor)


class Lease:
    """What a node sees of it: over once nothing has changed for `lease_s`, look by look."""

    def __init__(
        self, path: Path, lease_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path, self._lease_s, self._clock = path, lease_s, clock
        self._seen = b""
        self._still, self._last = 0.0, clock()

    def is_over(self) -> bool:
        """Look once more; tell whether whoever ordered this is gone."""
        try:
            seen = self._path.read_bytes()
        except OSError:
            seen = self._seen
        now = self._clock()
        self._still = 0.0 if seen != self._seen else self._still + min(now - self._last, _LOOK_S)
        self._seen, self._last = seen, now
        return self._still > self._lease_s


# What a plane waits for, as whoever follows it from elsewhere is told.

# Seconds: models may load for a quarter of an hour, and nothing changes meanwhile.
AGAIN_S = 60.0
_BYTES = 2000


class PlaneNews:
    """Tells each state of a plane once, and again every minute for as long as it lasts.

    What stands there at first may be of an earlier plane: it is told only once ours is known to be
    on its way, and never if that one was ready or had failed.
    """

    def __init__(self, paths: ServingPaths, clock: Callable[[], float]) -> None:
        """`clock`: seconds."""
        self._paths, self._clock = paths, clock
        self._state = self._read()
        self._since = self._due = clock()

    def look(self, *, is_running: bool) -> str:
        """Return what is to be told now, "" for nothing. `is_running`: whoever serves runs."""
        now, state = self._clock(), self._read()
        if state != self._state:
            self._state, self._since, self._due = state, now, now + AGAIN_S
            return f"model plane: {state}" if state else ""
        if not is_running or now < self._due or not state or is_over(state):
            return ""
        self._due = now + AGAIN_S
        minutes = int((now - self._since) // 60)
        lasts = f", for {minutes} minute{'s' * (minutes > 1)} so far" if minutes else ""
        return f"model plane: {state}{lasts}"

    def _read(self) -> str:
        return plane_state(self._paths)


def plane_state(paths: ServingPaths) -> str:
    """Return what a plane says of itself in a line; "" where there is none."""
    return one_line(read_tail(paths.state, _BYTES).strip())


def is_over(state: str) -> bool:
    """Whether a plane that says so waits for nothing: it answers, or it failed."""
    return state == "ready" or state.startswith("failed")
