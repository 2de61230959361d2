"""The one layout of an archive of plain files: names and contents, no times, no owners.

It is what `tar` reads: a ustar header for each file, and before one whose name is long or not
ASCII a header that has the name alone (POSIX pax). What `encode` writes depends on no version of
Python. `decode` reads that layout and no other, in one pass, so that an archive from elsewhere
costs no more than its size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

LONGEST_NAME: Final = 512  # bytes
MOST_FILES: Final = 4096

_BLOCK, _RECORD = 512, 20 * 512
_FILE, _NAME_FOLLOWS = b"0", b"x"
_KINDS = (_FILE, _NAME_FOLLOWS, b"1", b"2", b"3", b"4", b"5", b"6", b"7")  # the rest: no files
_SHORT = 100  # bytes of a name in a header
_SIZE = re.compile(rb"[0-7]{11}\0")
_PAX_NAME = b"././@PaxHeader"


class Unreadable(ValueError):
    """An archive of another layout; the text says what is wrong with it, after its name."""


def encode(contents: Iterable[tuple[str, bytes]]) -> bytes:
    """Return the archive of files in this order, each smaller than 8 GB."""
    parts: list[bytes] = []
    for name, content in contents:
        raw = name.encode()
        if len(raw) > _SHORT or not name.isascii():
            record = _record(raw)
            parts += [_header(_PAX_NAME, len(record), _NAME_FOLLOWS, 0), _padded(record)]
            raw = name.encode("ascii", "replace")[:_SHORT]
        parts += [_header(raw, len(content), _FILE, 0o644), _padded(content)]
    data = b"".join(parts) + bytes(2 * _BLOCK)
    return data + bytes(-len(data) % _RECORD)


def decode(data: bytes) -> dict[str, bytes]:
    """Return contents by name. Raises Unreadable.

    Not all of a header is looked at: whoever wants to know that an archive was written by `encode`
    writes what was found once more, and compares.
    """
    found: dict[str, bytes] = {}
    at, long_name = 0, None
    while True:
        header = data[at : at + _BLOCK]
        if not header.strip(b"\0"):
            break
        kind, content, after = _member(data, at, header)
        at = after
        if kind == _NAME_FOLLOWS:
            if long_name is not None:
                raise Unreadable("is no archive, or damaged")
            long_name = _named(content)
            continue
        name = long_name or _text(header[:_SHORT].rstrip(b"\0"))
        long_name = None
        if kind != _FILE:
            raise Unreadable(f"holds {name!r}, which is no plain file")
        if name in found:
            raise Unreadable(f"holds {name!r} more than once")
        if len(found) == MOST_FILES:
            raise Unreadable(f"holds more than {MOST_FILES} files, and no more are written")
        found[name] = content
    if long_name is not None or len(header) < _BLOCK:
        raise Unreadable("is no archive, or damaged")
    return found


def _member(data: bytes, at: int, header: bytes) -> tuple[bytes, bytes, int]:
    """Return a member's kind, its content, and where the next one begins."""
    kind, size = header[156:157], header[124:136]
    if kind not in _KINDS or not _SIZE.fullmatch(size):
        raise Unreadable("is no archive, or damaged")
    begins, length = at + _BLOCK, int(size[:-1], 8)
    after = begins + length + -length % _BLOCK
    if after > len(data):
        raise Unreadable("is no archive, or damaged")
    return kind, data[begins : begins + length], after


def _named(record: bytes) -> str:
    """Return the name that a header before another one gives it, where it gives that alone."""
    _, _, value = record.partition(b" path=")
    if len(value) - 1 > LONGEST_NAME or _record(value[:-1]) != record:
        raise Unreadable("holds more than the name of a file before it, so it is no plain file")
    return _text(value[:-1])


def _text(raw: bytes) -> str:
    try:
        name = raw.decode()
    except UnicodeDecodeError as error:
        raise Unreadable("is no archive, or damaged") from error
    if not name:
        raise Unreadable("is no archive, or damaged")
    return name


def _record(name: bytes) -> bytes:
    """The record `LENGTH path=NAME`, whose length counts its own digits."""
    rest = b" path=%b\n" % name
    length = len(rest) + 1
    while len(b"%d" % length) + len(rest) != length:
        length += 1
    return b"%d%b" % (length, rest)


def _header(name: bytes, size: int, kind: bytes, mode: int) -> bytes:
    none = b"%07o\0" % 0
    parts = [
        *(name.ljust(_SHORT, b"\0"), b"%07o\0" % mode, none, none),
        *(b"%011o\0" % size, b"%011o\0" % 0, b" " * 8, kind, bytes(100), b"ustar\0" + b"00"),
    ]
    header = b"".join(parts).ljust(_BLOCK, b"\0")
    return header[:148] + b"%06o\0" % sum(header) + header[155:]


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % _BLOCK)
