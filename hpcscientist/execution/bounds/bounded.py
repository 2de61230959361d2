"""Bounded logs: the beginning and the end of whatever a program prints."""

from __future__ import annotations

from collections import deque
from typing import BinaryIO

HEAD = TAIL = 256 * 1024


class BoundedLog:
    """Keeps the first `head` and the last `tail` bytes; in between, how many were dropped.

    The head reaches the target as it comes, the tail at `finish`. A target that refuses
    (a full disk) costs text, never the trial.
    """

    def __init__(self, target: BinaryIO, head: int = HEAD, tail: int = TAIL) -> None:
        self._target, self._room, self._keep = target, head, tail
        self._tail: deque[bytes] = deque()
        self._held = self.dropped = 0

    def write(self, data: bytes) -> None:
        """Take some output."""
        if self._room:
            first, data = data[: self._room], data[self._room :]
            self._room -= len(first)
            self._put(first)
        if not data:
            return
        self._tail.append(data)
        self._held += len(data)
        while self._tail and self._held - len(self._tail[0]) >= self._keep:
            self._drop(len(self._tail[0]))
            self._tail.popleft()

    def finish(self) -> None:
        """Write the tail. Call once, at the end."""
        data = b"".join(self._tail)
        if len(data) > self._keep:
            self._drop(len(data) - self._keep)
            data = data[-self._keep :]
        if self.dropped:
            self._put(f"\n[... {self.dropped} bytes of output were dropped here ...]\n".encode())
        self._put(data)
        self._tail.clear()

    def _drop(self, count: int) -> None:
        self.dropped += count
        self._held -= count

    def _put(self, data: bytes) -> None:
        try:
            self._target.write(data)
            self._target.flush()
        except OSError:
            self._room = 0
