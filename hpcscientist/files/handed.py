"""Reading files and TOML from outside safely: regular files only, with bounded size and nesting.

Reading a device, pipe or socket may never end, or fill the memory.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tomllib
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

from hpcscientist.errors import UsageError

LARGEST_TEXT = 64 * 2**20  # bytes of a file that is read in one piece
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


Read = Callable[[Path], bytes]
"""Returns the content of a file, or raises OSError."""


def read_regular(path: Path, limit: int = LARGEST_TEXT, *, follow: bool = True) -> bytes:
    """Return the content of a regular file of at most `limit` bytes. Links count if `follow`.

    Raises OSError; if the file is too large or not regular, `strerror` says so.
    """
    with open_regular(path, follow=follow) as file:
        # Python allocates the requested size first, so first ask for the file's current size only.
        content = file.read(min(os.fstat(file.fileno()).st_size, limit) + 1)
        content += file.read(limit + 1 - len(content)) if len(content) > limit else b""
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit // 2**20} MiB", str(path))
    return content


def open_regular(path: Path, *, follow: bool = True) -> BufferedReader:
    """Open a regular file for reading, without waiting for a pipe's other end. Raises OSError."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    # Check before opening too: opening a device may have side effects.
    _refuse_odd(path, path.stat(follow_symlinks=follow))
    descriptor = os.open(path, flags)
    try:
        _refuse_odd(path, os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def kind_of(info: os.stat_result) -> str:
    """Return the name of a kind of file, such as "a link"; "" for a regular file."""
    return next((name for is_kind, name in _KINDS if is_kind(info.st_mode)), "")


def _refuse_odd(path: Path, info: os.stat_result) -> None:
    if kind := kind_of(info):
        code = errno.EISDIR if stat.S_ISDIR(info.st_mode) else errno.EINVAL
        raise OSError(code, f"it is {kind}, and no regular file", str(path))


# Nesting of JSON or TOML from outside: code that walks through it has a bounded stack.

DEEPEST: Final = 100  # levels; no legitimate document or reply has as many


def is_too_deep(value: Any) -> bool:
    """Return whether lists and tables are nested more than `DEEPEST` levels deep."""
    level, found = [value], 0
    while level and found <= DEEPEST:  # no recursion; a wide but flat table is not deep
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        level, found = inner, found + 1
    return bool(level)


# Paths as people write them: with `~` for a home folder, and links that may be circular.


def expanded(given: str | Path) -> Path:
    """Return a path with its `~` or `~user` replaced by that home folder.

    Raises UsageError if there is no such folder: no user of that name, or neither HOME nor a
    passwd entry for this user, as in some containers.
    """
    try:
        return Path(given).expanduser()
    except RuntimeError as error:
        raise UsageError(
            f"{given}: there is no such home folder; give the whole path, or set HOME"
        ) from error


def resolved(path: Path) -> Path:
    """Return an absolute path without links. A circular link stays as it is."""
    # Not `Path.resolve`: its behaviour for circular links differs between Python versions.
    return Path(os.path.realpath(path))


# TOML from outside: whatever is wrong with a text raises the same kind of error.

_DEEP = 50  # nested brackets, or parts of a key: no legitimate document has as many
_LONG = re.compile(r"[0-9_]{4000,}")


def parse(text: str) -> dict[str, Any]:
    """Parse TOML. Raises TOMLDecodeError, also where tomllib raises other exceptions."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise _error("nested too deeply", text, _deep(text)) from None
    except ValueError as error:  # an integer with thousands of digits
        found = _LONG.search(text)
        raise _error("a number of too many digits", text, found.start() if found else 0) from error
    if is_too_deep(document):
        raise _error("nested too deeply", text, _deep(text))
    return document


def _error(what: str, text: str, place: int) -> tomllib.TOMLDecodeError:
    """Return an error that names its line in tomllib's format."""
    return tomllib.TOMLDecodeError(f"{what} (at line {text.count(chr(10), 0, place) + 1})")


def _deep(text: str) -> int:
    """Return the offset where nesting first gets too deep, strings and comments included."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character in "[{") - (character in "]}")
        if depth == _DEEP:
            return place
    lines = text.splitlines(keepends=True)
    for parts in (_key, str):  # an inline table has its keys after the first `=`
        place = 0
        for line in lines:
            if parts(line).count(".") >= _DEEP:
                return place
            place += len(line)
    return 0


def _key(line: str) -> str:
    return line.partition("=")[0]
