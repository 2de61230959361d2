"""The peak memory of this process and of all below it, together."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

from hpcscientist.system.processes import children

_EVERY_S = 0.05


class PeakMemory:
    """Looks every 50 ms while it is entered. What processes share counts once (PSS).

    Pages of mapped files are left out: the kernel drops them when memory is needed.
    """

    def __init__(self) -> None:
        self.largest_mb = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        """Begin to look."""
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Look a last time."""
        self._ended.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self._look()

    def _look(self) -> None:
        self.largest_mb = max(self.largest_mb, tree_mb(os.getpid()))


def tree_mb(pid: int) -> float:
    """Return what a process and all below it take now, in MiB."""
    below = [pid]
    for one in below:
        below += children(one)
    return sum(map(_own_mb, below))


def _own_mb(pid: int) -> float:
    total = 0
    # A process that ends while it is looked at takes nothing any more.
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Pss_Anon:", "Pss_Shmem:", "SwapPss:")):
                total += int(line.split()[1])
    return total / 1024
