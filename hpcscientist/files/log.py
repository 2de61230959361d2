"""Append-only logs, one JSON object per line: a campaign's journal, the record of its calls.

Lines that are appended together are in the log completely or not at all. A kill or a power cut may
leave a torn write at the end: readers stop before it, and the next writer truncates it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, TypeVar

from hpcscientist.files.handed import LARGEST_TEXT

T = TypeVar("T")


class DamagedLine(Exception):
    """A line cannot be read and is not a torn write; `number` counts from 1."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def append(descriptor: int, data: bytes, *, durable: bool = True) -> int:
    """Append whole lines, wait until they are on the disk, and return their offset in bytes.

    `descriptor` is open for appending. `durable` false does not wait. Raises OSError, and then
    restores the file.
    """
    start = os.fstat(descriptor).st_size
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if durable:
            os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, start)
        raise
    return start


def _alone(lines: Sequence[bytes]) -> bool:
    return len(lines) == 1


def read(
    file: BinaryIO, parse: Callable[[bytes], T], torn: Callable[[Sequence[bytes]], bool] = _alone
) -> Iterator[tuple[T, int]]:
    """Yield each line's parsed content, and the size in bytes of the file up to the line's end.

    If `parse` raises ValueError, `torn` decides whether that line and all whole lines after it may
    be a torn write (a torn block can hold newlines); by default, only a single last line may.
    Raises DamagedLine if they may not, and OSError. A line of `LARGEST_TEXT` bytes or more counts
    as damaged, so that an endless one is not read.
    """
    size = 0
    for number, text in enumerate(iter(lambda: file.readline(LARGEST_TEXT), b""), 1):
        if len(text) == LARGEST_TEXT:
            raise DamagedLine(number)
        if not text.endswith(b"\n"):
            return
        try:
            line = parse(text)
        except ValueError as error:
            rest = file.read(LARGEST_TEXT)
            if len(rest) < LARGEST_TEXT and torn([text, *rest.split(b"\n")[:-1]]):
                return
            raise DamagedLine(number) from error
        size += len(text)
        yield line, size
