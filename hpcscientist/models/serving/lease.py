"""How nodes know that their plane's driver is alive: it keeps increasing a number in a shared file.

A killed process sends no notice, and what it started through `srun` or in a container lasts as long
as the job or the machine. So a plane's nodes end themselves once the number has not changed for
long enough. Clocks of different machines are never compared.
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
# The most silence that one look adds: a look delayed by a slow file system proves no long silence.
_LOOK_S = 5.0


class Beat:
    """A thread that keeps increasing the number, from `start` to `stop`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread. Raises OSError where the file cannot be written."""
        self._write(0)
        self._thread = threading.Thread(target=self._keep, daemon=True, name="plane's lease")
        self._thread.start()

    def stop(self) -> None:
        """Stop, and remove the file. Idempotent."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _keep(self) -> None:
        number = 0
        while not self._over.wait(BEAT_S):
            number += 1
            with contextlib.suppress(OSError):  # the next write may succeed
                self._write(number)

    def _write(self, number: int) -> None:
        # Write in place: most full disks allow it, and on NFS a reader that opens the file sees it.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(descriptor, f"{number:020}\n".encode(), 0)
        finally:
            os.close(descriptor)


class Lease:
    """A node's view of the lease: over once the number has not changed for `lease_s`.

    Silence is summed over the calls of `is_over`.
    """

    def __init__(
        self, path: Path, lease_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path, self._lease_s, self._clock = path, lease_s, clock
        self._seen = b""
        self._still, self._last = 0.0, clock()

    def is_over(self) -> bool:
        """Read the file once more; return whether the driver is gone."""
        try:
            seen = self._path.read_bytes()
        except OSError:
            seen = self._seen
        now = self._clock()
        self._still = 0.0 if seen != self._seen else self._still + min(now - self._last, _LOOK_S)
        self._seen, self._last = seen, now
        return self._still > self._lease_s


# What a plane waits for, as reported to somebody who follows it from elsewhere.

# Seconds: models may load for a quarter of an hour without a change of state.
AGAIN_S = 60.0
_BYTES = 2000


class PlaneNews:
    """Reports each state of a plane once, and again every minute while it lasts.

    The first state found may belong to an earlier plane. It is reported only once our plane is
    known to be starting, and never if it says that a plane was ready or had failed.
    """

    def __init__(self, paths: ServingPaths, clock: Callable[[], float]) -> None:
        """Read the current state without reporting it. `clock` returns seconds."""
        self._paths, self._clock = paths, clock
        self._state = self._read()
        self._since = self._due = clock()

    def look(self, *, is_running: bool) -> str:
        """Return the message that is due now, "" for none. `is_running`: the serving job runs."""
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
    """Return a plane's own state as one line; "" if there is none."""
    return one_line(read_tail(paths.state, _BYTES).strip())


def is_over(state: str) -> bool:
    """Return whether a plane in this state waits for nothing: it answers, or it failed."""
    return state == "ready" or state.startswith("failed")
