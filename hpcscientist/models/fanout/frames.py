"""Frames between the driver and its Ray process: a kind, a call's number, bytes."""

from __future__ import annotations

import asyncio
import struct
from enum import IntEnum
from typing import NamedTuple

_HEADER = struct.Struct(">BQQ")


class Kind(IntEnum):
    """What a frame says. The first three go to the Ray process, the others come from it."""

    START = 1  # a Start, as JSON
    RUN = 2  # a packed call
    CANCEL = 3  # forget a call
    READY = 4
    DONE = 5  # a packed outcome
    LOST = 6  # why a call, or with number 0 everything, was lost: text


class Frame(NamedTuple):
    """A frame. `number` is the call's, from 1; 0 where it is about none."""

    kind: Kind
    number: int = 0
    body: bytes = b""


def encode(frame: Frame) -> bytes:
    """Return a frame as bytes."""
    return _HEADER.pack(frame.kind, frame.number, len(frame.body)) + frame.body


async def read(reader: asyncio.StreamReader) -> Frame | None:
    """Return the next frame; None where the other side has gone, be it in a frame's middle."""
    try:
        kind, number, length = _HEADER.unpack(await reader.readexactly(_HEADER.size))
        return Frame(Kind(kind), number, await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
