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
