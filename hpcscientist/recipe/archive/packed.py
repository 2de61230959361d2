"""A recipe's code as one archive file, recipe.tar, with which a claim can be handed on.

Below recipe/ it holds recipe.toml, prepare.py, score.py, reference/ and all other Python files.
SHA256SUMS names every file of the recipe, so that its hash is known; what else lies in a recipe's
folder may be data, and is left out. The same content is the same bytes (see `ustar`), and whatever
is not, byte for byte, what `pack` writes is refused: an archive from elsewhere has no links, no
other places and nothing hidden.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Final

from hpcscientist.files.hashing import hash_bytes, hash_file, hash_named, tree_files
from hpcscientist.recipe.archive import ustar
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

LIMIT: Final = 8 * 2**20  # bytes of an archive: there is one for each claim
_SUMS, _ROOT = "SHA256SUMS", "recipe"
_LINE = re.compile(rf"([0-9a-f]{{64}})  {_ROOT}/(.+)")
# Told to models and people, or named by a claim itself: running it again reads none of them.
_NEVER_READ = (PLAYBOOK, PAPERS_PLAYBOOK, REVIEWS_PLAYBOOK, SEED_IDEAS)
_NEVER_READ_SUFFIXES = (".md", ".sif", ".def")
_DEEPEST = 32  # folders around a file


@dataclass(frozen=True, slots=True)
class Packed:
    """What an archive holds: contents of `files` by name, and `hashes` of the whole recipe."""

    files: Mapping[str, bytes]
    hashes: Mapping[str, str]

    @property
    def recipe_hash(self) -> str:
        """The hash of the recipe, what was left out included."""
        return hash_named(self.hashes)

    @property
    def lacking(self) -> list[str]:
        """The files that were left out and that prepare.py or score.py may read."""
        return [name for name in sorted(self.hashes.keys() - self.files.keys()) if _may_read(name)]

    def write(self, folder: Path) -> None:
        """Write the files into a folder that is not there yet. Raises OSError."""
        folder.mkdir()
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def pack(folder: Path) -> tuple[bytes, str] | None:
    """Return the archive of a recipe and the recipe's hash.

    None where it would be larger than `LIMIT`, or have too many files, or a name in it is too long
    or cannot be written down as text.
    """
    paths = {path.relative_to(folder).as_posix(): path for path in tree_files(folder)}
    kept = [name for name in paths if _is_code(name)]
    if len(kept) >= ustar.MOST_FILES or _misplaced(paths):
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
    """Return what an archive holds, or what is wrong with it."""
    if len(data) > LIMIT:
        return f"has {len(data)} bytes, and {LIMIT} at most are written"
    try:
        members = ustar.decode(data)
    except ustar.Unreadable as error:
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
    """Whether some name leads elsewhere, is no line of text, or goes through another's file."""
    # Without its slashes, what goes through a file comes right after it: a stranger's names are
    # as many and as deep as they like.
    parted = sorted(name.replace("/", "\0") for name in names if name.isprintable())
    return any(after.startswith(f"{name}\0") for name, after in pairwise(parted)) or any(
        not _is_placed(name) for name in names
    )


def _is_placed(name: str) -> bool:
    if not name.isprintable() or "\\" in name or name.count("/") > _DEEPEST:
        return False
    longest = ustar.LONGEST_NAME - len(f"{_ROOT}/")
    return {"", ".", ".."}.isdisjoint(name.split("/")) and len(name.encode()) <= longest


def _encode(files: Mapping[str, bytes], hashes: Mapping[str, str]) -> bytes:
    """The one way to write it down: in the order of names, without times and owners."""
    sums = "".join(f"{hashes[name]}  {_ROOT}/{name}\n" for name in sorted(hashes))
    contents = [(_SUMS, sums.encode()), *((f"{_ROOT}/{n}", files[n]) for n in sorted(files))]
    return ustar.encode(contents)


def _hashes(sums: bytes) -> dict[str, str] | None:
    lines = [_LINE.fullmatch(line) for line in sums.decode("utf-8", "replace").split("\n")[:-1]]
    found = {line[2]: line[1] for line in lines if line}
    return found if found and len(found) == len(lines) else None
