"""A recipe's code as one archive file, recipe.tar, with which a claim can be passed on.

Below recipe/ it holds recipe.toml, prepare.py, score.py, reference/ and all other Python files.
SHA256SUMS lists every file of the recipe, so that the recipe's hash can be computed. Other files of
the folder may be data, and are left out. Equal content gives equal bytes. `read` refuses every
archive that is not byte for byte what `pack` writes, so an archive from elsewhere cannot hold
links, files outside of recipe/, or hidden content.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Final

from hpcscientist.files.hashing import hash_bytes, hash_file, hash_named, tree_files
from hpcscientist.recipe.checks.files import (
    PAPERS_PLAYBOOK,
    PLAYBOOK,
    PREPARE,
    RECIPE_FILE,
    REFERENCE,
    REVIEWS_PLAYBOOK,
    SCORER,
    SEED_IDEAS,
)

# The only layout for an archive of plain files: names and contents, no times, no owners.
#
# `tar` can read it: each file has a ustar header, preceded by a header with only the name (POSIX
# pax) if the name is long or not ASCII. The output of `encode` does not depend on the version of
# Python. `decode` reads only that layout, in one pass, so that an archive from elsewhere costs no
# more than its size.

LONGEST_NAME: Final = 512  # bytes
MOST_FILES: Final = 4096

_BLOCK, _RECORD = 512, 20 * 512
_FILE, _NAME_FOLLOWS = b"0", b"x"
_KINDS = (_FILE, _NAME_FOLLOWS, b"1", b"2", b"3", b"4", b"5", b"6", b"7")  # rest: not plain files
_SHORT = 100  # bytes of a name in a header
_SIZE = re.compile(rb"[0-7]{11}\0")
_PAX_NAME = b"././@PaxHeader"


class UnreadableArchive(ValueError):
    """An archive has another layout; the message completes a sentence that begins with its name."""


def encode(contents: Iterable[tuple[str, bytes]]) -> bytes:
    """Return an archive of files in this order, each smaller than 8 GB."""
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

    It does not check all of a header. To verify that `encode` wrote an archive, encode the result
    again and compare.
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
                raise UnreadableArchive("is no archive, or damaged")
            long_name = _named(content)
            continue
        name = long_name or _text(header[:_SHORT].rstrip(b"\0"))
        long_name = None
        if kind != _FILE:
            raise UnreadableArchive(f"holds {name!r}, which is no plain file")
        if name in found:
            raise UnreadableArchive(f"holds {name!r} more than once")
        if len(found) == MOST_FILES:
            raise UnreadableArchive(f"holds more than {MOST_FILES} files, and no more are written")
        found[name] = content
    if long_name is not None or len(header) < _BLOCK:
        raise UnreadableArchive("is no archive, or damaged")
    return found


def _member(data: bytes, at: int, header: bytes) -> tuple[bytes, bytes, int]:
    """Return a member's kind, its content, and the offset of the next member."""
    kind, size = header[156:157], header[124:136]
    if kind not in _KINDS or not _SIZE.fullmatch(size):
        raise UnreadableArchive("is no archive, or damaged")
    begins, length = at + _BLOCK, int(size[:-1], 8)
    after = begins + length + -length % _BLOCK
    if after > len(data):
        raise UnreadableArchive("is no archive, or damaged")
    return kind, data[begins : begins + length], after


def _named(record: bytes) -> str:
    """Return the name in a pax header. Raises Unreadable if it has anything else."""
    _, _, value = record.partition(b" path=")
    if len(value) - 1 > LONGEST_NAME or _record(value[:-1]) != record:
        raise UnreadableArchive(
            "holds more than the name of a file before it, so it is no plain file"
        )
    return _text(value[:-1])


def _text(raw: bytes) -> str:
    try:
        name = raw.decode()
    except UnicodeDecodeError as error:
        raise UnreadableArchive("is no archive, or damaged") from error
    if not name:
        raise UnreadableArchive("is no archive, or damaged")
    return name


def _record(name: bytes) -> bytes:
    """Return the pax record `LENGTH path=NAME`, whose length includes its own digits."""
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


LIMIT: Final = 8 * 2**20  # bytes of an archive: each claim has one
_SUMS, _ROOT = "SHA256SUMS", "recipe"
_LINE = re.compile(rf"([0-9a-f]{{64}})  {_ROOT}/(.+)")
# Texts for models and people, and files that the claim itself names: a rerun reads none of them.
_NEVER_READ = (PLAYBOOK, PAPERS_PLAYBOOK, REVIEWS_PLAYBOOK, SEED_IDEAS)
_NEVER_READ_SUFFIXES = (".md", ".sif", ".def")
_DEEPEST = 32  # parent folders of a file


@dataclass(frozen=True, slots=True)
class Packed:
    """The content of an archive: contents of `files` by name, and `hashes` of the whole recipe."""

    files: Mapping[str, bytes]
    hashes: Mapping[str, str]

    @property
    def recipe_hash(self) -> str:
        """The hash of the recipe, including files that were left out."""
        return hash_named(self.hashes)

    @property
    def lacking(self) -> list[str]:
        """The omitted files that prepare.py or score.py may read."""
        return [name for name in sorted(self.hashes.keys() - self.files.keys()) if _may_read(name)]

    def write(self, folder: Path) -> None:
        """Write the files to a new folder. Raises OSError, also if it exists."""
        folder.mkdir()
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def pack(folder: Path) -> tuple[bytes, str] | None:
    """Return the archive of a recipe and the recipe's hash.

    None if it would be larger than `LIMIT` or have too many files, or if a name is too long or not
    printable.
    """
    paths = {path.relative_to(folder).as_posix(): path for path in tree_files(folder)}
    kept = [name for name in paths if _is_code(name)]
    if len(kept) >= MOST_FILES or _misplaced(paths):
        return None
    if sum(paths[name].stat().st_size for name in kept) > LIMIT:
        return None
    files = {name: paths[name].read_bytes() for name in kept}
    hashes = {
        name: hash_bytes(files[name]) if name in files else hash_file(path)
        for name, path in paths.items()
    }
    data = _encode(files, hashes)
    return (data, hash_named(hashes)) if len(data) <= LIMIT else None


def read(data: bytes) -> Packed | str:
    """Return the content of an archive, or an error message."""
    if len(data) > LIMIT:
        return f"has {len(data)} bytes, and {LIMIT} at most are written"
    try:
        members = decode(data)
    except UnreadableArchive as error:
        return str(error)
    return _checked(members, data)


def _checked(members: dict[str, bytes], data: bytes) -> Packed | str:
    hashes = _hashes(members.pop(_SUMS, b""))
    files = {name.removeprefix(f"{_ROOT}/"): content for name, content in members.items()}
    if hashes is None or not files.keys() <= hashes.keys() or _misplaced(hashes):
        return f"does not have a {_SUMS} that names its files"
    for name, content in files.items():
        if hash_bytes(content) != hashes[name]:
            return f"holds another {_ROOT}/{name} than its {_SUMS} names"
    if _encode(files, hashes) != data:
        return "holds more than, or other than, what is written there"
    return Packed(files, hashes)


def _is_code(name: str) -> bool:
    path = PurePosixPath(name)
    if path.parts[0] == REFERENCE or name in (RECIPE_FILE, PREPARE, SCORER):
        return True
    return path.suffix == ".py" and not _is_hidden(path)


def _may_read(name: str) -> bool:
    path = PurePosixPath(name)
    return not (_is_hidden(path) or name in _NEVER_READ or path.suffix in _NEVER_READ_SUFFIXES)


def _is_hidden(path: PurePosixPath) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _misplaced(names: Collection[str]) -> bool:
    """Return whether a name leads outside, is not printable, or has a file as a parent folder."""
    # With NUL for each slash, names below a file sort directly after it. So one pass suffices,
    # however many and deep the names of an archive from elsewhere are.
    parted = sorted(name.replace("/", "\0") for name in names if name.isprintable())
    return any(after.startswith(f"{name}\0") for name, after in pairwise(parted)) or any(
        not _is_placed(name) for name in names
    )


def _is_placed(name: str) -> bool:
    if not name.isprintable() or "\\" in name or name.count("/") > _DEEPEST:
        return False
    longest = LONGEST_NAME - len(f"{_ROOT}/")
    return {"", ".", ".."}.isdisjoint(name.split("/")) and len(name.encode()) <= longest


def _encode(files: Mapping[str, bytes], hashes: Mapping[str, str]) -> bytes:
    """Return the archive's only valid form: in the order of names, without times and owners."""
    sums = "".join(f"{hashes[name]}  {_ROOT}/{name}\n" for name in sorted(hashes))
    contents = [(_SUMS, sums.encode()), *((f"{_ROOT}/{n}", files[n]) for n in sorted(files))]
    return encode(contents)


def _hashes(sums: bytes) -> dict[str, str] | None:
    lines = [_LINE.fullmatch(line) for line in sums.decode("utf-8", "replace").split("\n")[:-1]]
    found = {line[2]: line[1] for line in lines if line}
    return found if found and len(found) == len(lines) else None
