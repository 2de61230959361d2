"""Files that people hand us: regular ones of a bounded size, and nothing that has no end.

A device, a pipe or a socket is no file to read: reading one may never end, or fill the memory.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tomllib
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

from hpcscientist.errors import UsageError

LARGEST_TEXT = 64 * 2**20  # bytes of a file that is read as a whole
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_regular(path: Path, limit: int = LARGEST_TEXT, *, follow: bool = True) -> bytes:
    """Return the content of a regular file of at most `limit` bytes; links count where followed.

    Raises OSError, whose `strerror` says what it is where it is no such file.
    """
    with open_regular(path, follow=follow) as file:
        # As much as is asked for is allocated first.
        content = file.read(min(os.fstat(file.fileno()).st_size, limit) + 1)
        content += file.read(limit + 1 - len(content)) if len(content) > limit else b""
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit // 2**20} MiB", str(path))
    return content


def open_regular(path: Path, *, follow: bool = True) -> BufferedReader:
    """Open a regular file for reading, without waiting for a pipe's other end. Raises OSError."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    # Looked at before it is opened, too: to open a device may do something.
    _refuse_odd(path, path.stat(follow_symlinks=follow))
    descriptor = os.open(path, flags)
    try:
        _refuse_odd(path, os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def kind_of(info: os.stat_result) -> str:
    """Name what is no regular file, such as "a link"; "" for one."""
    return next((name for is_kind, name in _KINDS if is_kind(info.st_mode)), "")


def _refuse_odd(path: Path, info: os.stat_result) -> None:
    if kind := kind_of(info):
        code = errno.EISDIR if stat.S_ISDIR(info.st_mode) else errno.EINVAL
        raise OSError(code, f"it is {kind}, and no regular file", str(path))


# How deep a stranger's JSON or TOML is nested: what walks through it has a stack that ends.

DEEPEST: Final = 100  # levels; no honest document or reply has as many


def is_too_deep(value: Any) -> bool:
    """Say whether lists and tables lie within each other more than `DEEPEST` deep."""
    level, found = [value], 0
    while level and found <= DEEPEST:  # no recursion, and no table that is only wide counts
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        level, found = inner, found + 1
    return bool(level)


# Paths as people write them: with `~` for a home folder, and links that may lead in a circle.


def expanded(given: str | Path) -> Path:
    """Return a path with its `~` or `~user` replaced by that home folder.

    Raises UsageError where there is none: no user of that name, or no HOME and no entry for
    this user, as in some containers.
    """
    try:
        return Path(given).expanduser()
    except RuntimeError as error:
        raise UsageError(
            f"{given}: there is no such home folder; give the whole path, or set HOME"
        ) from error


def resolved(path: Path) -> Path:
    """Return an absolute path without links. A link that leads to itself stays as it is.

    (What pathlib says of such a link differs from one Python to the next.)
    """
    return Path(os.path.realpath(path))


# TOML that strangers wrote: whatever is wrong with a text, it is one kind of error.

_DEEP = 50  # brackets within each other, or parts of a key: no honest document has as many
_LONG = re.compile(r"[0-9_]{4000,}")


def parse(text: str) -> dict[str, Any]:
    """Return a TOML document. Raises TOMLDecodeError, also for what tomllib itself chokes on."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise _error("nested too deeply", text, _deep(text)) from None
    except ValueError as error:  # a whole number of thousands of digits
        found = _LONG.search(text)
        raise _error("a number of too many digits", text, found.start() if found else 0) from error
    if is_too_deep(document):
        raise _error("nested too deeply", text, _deep(text))
    return document


def _error(what: str, text: str, place: int) -> tomllib.TOMLDecodeError:
    """In tomllib's own words for a place."""
    return tomllib.TOMLDecodeError(f"{what} (at line {text.count(chr(10), 0, place) + 1})")


def _deep(text: str) -> int:
    """Where brackets are first within each other as deeply, texts and comments regardless."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character in "[{") - (character in "]}")
        if depth == _DEEP:
            return place
    lines = text.splitlines(keepends=True)
    for parts in (_key, str):  # an inline table has its keys behind the first `=`
        place = 0
        for line in lines:
            if parts(line).count(".") >= _DEEP:
                return place
            place += len(line)
    return 0


def _key(line: str) -> str:
    return line.partition("=")[0]
