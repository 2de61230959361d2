"""Reads text from untrusted files: lines and whole files, of bounded size, in any encoding.

A line that is too long is skipped in small steps and never held in memory. Text that is not UTF-8
is read in its most likely encoding; a Trouble at the end reports it once per file.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from hpcscientist.literature.sources.base import Trouble, trouble

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

LINE_BYTES = 16 * 2**20
_STEP = 2**20
_SNIFFED = 4096
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is a prefix of this one
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
DAMAGED_GZIP = (EOFError, zlib.error, gzip.BadGzipFile)


class TextLine(NamedTuple):
    """A line without its line break: its number from 1 in what was read, first byte, and text."""

    number: int
    start: int
    text: str


def is_gzip(path: Path) -> bool:
    """Return whether a file begins like a gzip file. Raises OSError."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


class _Unzipped(io.RawIOBase):
    """The content of a gzip file, as it is unpacked, so that everything before damage is read."""

    def __init__(self, path: Path) -> None:
        self._file = gzip.GzipFile(path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        data = self._file.read1(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def open_plain(path: Path) -> io.BufferedReader:
    """Open a file for reading; a gzip file is unpacked, forwards only. Raises OSError."""
    if is_gzip(path):
        return io.BufferedReader(_Unzipped(path), _STEP)
    return io.BufferedReader(path.open("rb", buffering=0), _STEP)


def wide_encoding(head: bytes) -> str:
    """Return the UTF-16 or UTF-32 encoding that a file's first bytes show; "" for others."""
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name
    sample = head[:_SNIFFED]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if max(even, odd) * 5 > len(sample) and min(even, odd) * 20 < len(sample):
        return "utf-16-le" if odd > even else "utf-16-be"
    return ""


def decode(data: bytes) -> tuple[str, str]:
    """Return bytes as text, and a note on the decoding ("" if they are plain UTF-8)."""
    wide = wide_encoding(data)
    if wide:
        text = data.decode(wide, "replace").removeprefix("\ufeff")
        return text.replace("\0", ""), f"read as {wide}"
    return _decode_bytewise(data.removeprefix(codecs.BOM_UTF8))


def _decode_bytewise(data: bytes) -> tuple[str, str]:
    note = "NUL bytes left out" if b"\0" in data else ""
    data = data.replace(b"\0", b"")
    try:
        return data.decode(), note
    except UnicodeDecodeError:
        fixed = data.decode("utf-8", "replace")
    if any(c > "\x7f" and c != "\ufffd" for c in fixed):  # other characters are valid UTF-8
        return fixed, "broken UTF-8, damaged characters marked"
    return data.decode("cp1252", "replace"), "not UTF-8, read as Windows-1252"


def read_text(path: Path, limit: int = LINE_BYTES) -> tuple[str, str]:
    """Return a whole file as text with a note, like `decode`; a damaged gzip file up to the damage.

    Raises OSError, also for a file with more than `limit` bytes of content.
    """
    with open_plain(path) as file:
        return read_bounded(file, limit)


def read_bounded(file: IO[bytes], limit: int) -> tuple[str, str]:
    """Return the rest of an open file, like `read_text`."""
    parts: list[bytes] = []
    size = 0
    damage = ""
    try:
        while (
            part := file.read1(_STEP) if isinstance(file, io.BufferedReader) else file.read(_STEP)
        ):
            parts.append(part)
            size += len(part)
            if size > limit:
                raise OSError(f"more than {limit // 2**20} MiB of text in one file; split it")
    except DAMAGED_GZIP as error:
        damage = f"gzip data damaged or cut off ({error})"
    text, note = decode(b"".join(parts))
    return text, "; ".join(n for n in (damage, note) if n)


def read_lines(
    path: Path, origin: str, start: int = 0, end: int | None = None, limit: int = LINE_BYTES
) -> Generator[TextLine | Trouble]:
    """Yield the lines that begin at bytes [start, end) of a file, or of a gzip file's content.

    A line of more than `limit` bytes is a Trouble. UTF-16 and UTF-32 cannot be divided: the part
    that begins at 0 has all lines. Raises OSError.
    """
    notes: dict[str, int] = {}
    wide = ""
    with open_plain(path) as file:
        try:
            wide = wide_encoding(file.peek(_SNIFFED)[:_SNIFFED])
            if not wide:
                yield from _bytewise(file, origin, (start, end), limit, notes)
            elif start == 0:
                notes[f"read as {wide}"] = 1
                yield from _wide(file, origin, wide, limit)
        except DAMAGED_GZIP as error:
            yield trouble(
                origin,
                f"gzip data damaged or cut off ({error}): what stood before that was read, the "
                "rest is lost; fetch the file again",
            )
    for note, count in sorted(notes.items()):
        where = "" if wide else f" in {count} line{'s' if count > 1 else ''}"
        yield trouble(origin, f"{note}{where}")


def _bytewise(
    file: IO[bytes], origin: str, part: tuple[int, int | None], limit: int, notes: dict[str, int]
) -> Iterator[TextLine | Trouble]:
    start, end = part
    position = _first_line(file, start, end) if start else 0
    number = 0
    while position is not None and (end is None or position < end):
        number += 1
        data = file.readline(limit + 1)
        if not data:
            return
        begin, position = position, position + len(data)
        if len(data) > limit and not data.endswith(b"\n"):
            yield _too_long(f"{origin}: byte {begin}", limit)
            position = _next_line(file, position, end)
            continue
        text, note = _decode_bytewise(data if begin else data.removeprefix(codecs.BOM_UTF8))
        if note:
            notes[note] = notes.get(note, 0) + 1
        yield TextLine(number, begin, text.rstrip("\r\n"))


def _too_long(origin: str, limit: int) -> Trouble:
    return trouble(
        origin, f"a line of more than {limit / 2**20:g} MiB, passed over; write one record a line"
    )


def _first_line(file: IO[bytes], start: int, end: int | None) -> int | None:
    """Seek to the first line that begins at `start` or later; return its byte.

    None if no line begins before `end`.
    """
    file.seek(start - 1)
    return _next_line(file, start - 1, end)


def _next_line(file: IO[bytes], position: int, end: int | None) -> int | None:
    while end is None or position < end:
        data = file.readline(_STEP)
        position += len(data)
        if not data:
            return None
        if data.endswith(b"\n"):
            return position
    return None


def _wide(file: IO[bytes], origin: str, encoding: str, limit: int) -> Iterator[TextLine | Trouble]:
    reader = io.TextIOWrapper(file, encoding, errors="replace", newline="\n")
    number = 0
    try:
        while text := reader.readline(limit // 2):
            number += 1
            if len(text) == limit // 2 and not text.endswith("\n"):
                yield _too_long(f"{origin}:{number}", limit)
                while text and not text.endswith("\n"):
                    text = reader.readline(_STEP)
                continue
            yield TextLine(number, 0, text.strip("\ufeff\r\n").replace("\0", ""))
    finally:
        reader.detach()
