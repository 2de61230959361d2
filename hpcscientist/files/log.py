"""Logs that only grow, one JSON object a line: a campaign's journal, the record of its calls.

What is appended together is there wholly or not at all. What a kill or a power cut left of the
last writing is no line: readers stop before it, and who writes on cuts it off.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, TypeVar

from hpcscientist.files.handed import LARGEST_TEXT

T = TypeVar("T")


class DamagedLine(Exception):
    """A line that cannot be read, and is not what a torn writing left; `number` counts from 1."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def append(descriptor: int, data: bytes, *, durable: bool = True) -> int:
    """Append whole lines, wait until they are on the disk, and return where they start, in bytes.

    `descriptor` is open for appending. `durable` false does not wait. After an OSError the file is
    as it was before.
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
    """Yield what each line from the start says, and the size in bytes of the file up to its end.

    Where `parse` raises ValueError, `torn` is asked whether that line and all whole ones after it
    may be what is left of the last writing (a torn block can hold newlines); unless told
    otherwise, one line may. Raises DamagedLine where they may not, and OSError. No more is read at
    once than `LARGEST_TEXT`: an endless line is a damaged one.
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
