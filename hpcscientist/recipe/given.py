"""The files that a user gives by `--data FOLDER`, checked against the recipe's list.

The list has the format of `sha256sum`, `sha1sum` or `md5sum`, one line per file: the checksum, two
spaces and the name below the folder. The checksum `-` accepts any content, for data without a
published checksum. Lines that begin with # are comments.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hpcscientist.errors import RecipeError, UsageError
from hpcscientist.files.handed import open_regular
from hpcscientist.files.hashing import hash_named

_LINE = re.compile(r"(-|[0-9a-fA-F]+) [ *](.+)")
_KINDS = {32: "md5", 40: "sha1", 64: "sha256"}


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file that the recipe needs; `checksum` is "-" if any content is accepted."""

    line: int
    name: str
    checksum: str


def read_list(path: Path) -> list[ListedFile]:
    """Return the files of a list. Raises RecipeError with the number of an invalid line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"cannot be read as text: {error}", path) from error
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None or (match[1] != "-" and len(match[1]) not in _KINDS):
            raise RecipeError("no line of sha256sum: SUM, two spaces, NAME", path, number)
        name = PurePosixPath(match[2])
        if name.is_absolute() or ".." in name.parts:
            raise RecipeError(f"{match[2]!r} leads out of the folder", path, number)
        found.append(ListedFile(number, str(name), match[1].lower()))
    if not found:
        raise RecipeError("names no file", path)
    return found


def content_of(folder: Path, wanted: list[ListedFile]) -> str:
    """Return a hash of the listed files in the user's folder, after checking their checksums.

    It reads all of them. Raises UsageError for the first that is missing or differs.
    """
    return hash_named(dict(_sums(folder, wanted)))


def _sums(folder: Path, wanted: list[ListedFile]) -> Iterator[tuple[str, str]]:
    if not folder.is_dir():
        raise UsageError(f"--data {folder}: there is no such folder")
    for file in wanted:
        kinds = {"sha256", _KINDS.get(len(file.checksum), "sha256")}
        try:
            found = _digests(folder / file.name, kinds)
        except OSError as error:
            names = ", ".join(each.name for each in wanted)
            raise UsageError(
                f"--data {folder}: {file.name} cannot be read ({error.strerror}); the recipe "
                f"wants {names}"
            ) from error
        if file.checksum not in ("-", found[_KINDS.get(len(file.checksum), "sha256")]):
            raise UsageError(
                f"--data {folder}: {file.name} is not the file that the recipe wants, its checksum "
                "is another; fetch it anew"
            )
        yield file.name, found["sha256"]


def _digests(path: Path, kinds: set[str]) -> dict[str, str]:
    """Return several digests of a file, reading it once. Raises OSError."""
    digests = {kind: hashlib.new(kind, usedforsecurity=False) for kind in kinds}
    with open_regular(path) as file:
        while block := file.read(1 << 20):
            for digest in digests.values():
                digest.update(block)
    return {kind: digest.hexdigest() for kind, digest in digests.items()}
