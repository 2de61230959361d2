"""The paths in a library's folder, and writing its files."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.errors import DiskFull, LibraryError
from hpcscientist.files.atomic import NO_SPACE, write_atomic


@dataclass(frozen=True, slots=True)
class LibraryPaths:
    """The paths of one library. It has one writer; readers read `contents` first."""

    root: Path

    @property
    def contents(self) -> Path:
        """The library's contents; written last, so the files that it names exist."""
        return self.root / "library.json"

    @property
    def skipped(self) -> Path:
        """What was not read, or only partly, and why: one JSON object per line."""
        return self.root / "skipped.jsonl"

    @property
    def mark(self) -> Path:
        """Written first: a folder that has it is a library, perhaps an unfinished one."""
        return self.sources / "format.json"

    @property
    def lock(self) -> Path:
        """The lock of the process that builds the library."""
        return self.root / ".builder"

    @property
    def sources(self) -> Path:
        """The record of what was read: the manifest, and the commits since it was written."""
        return self.root / "sources"

    @property
    def papers(self) -> Path:
        """The parts that hold papers."""
        return self.root / "papers"

    @property
    def symbols(self) -> Path:
        """The parts that hold symbols."""
        return self.root / "symbols"

    @property
    def fetched(self) -> Path:
        """The results of `hpcsci library fetch`: one more input of every build."""
        return self.root / "fetched"

    @property
    def superseded(self) -> Path:
        """Records of the files that were replaced, and when; see `literature.library.parts`."""
        return self.root / "superseded"

    @property
    def index(self) -> Path:
        """The indexes; see the room `index`."""
        return self.root / "index"

    def commit(self, number: int) -> Path:
        """Return the file of a commit."""
        return self.sources / f"commit-{number:06d}.jsonl"

    def manifest(self, number: int) -> Path:
        """Return the manifest of an edition: everything that was read so far."""
        return self.sources / f"manifest-{number:06d}.jsonl"

    def file(self, name: str) -> Path:
        """Return the path of a file by its name in `contents` or in a commit."""
        return self.root / name


def write_file(path: Path, data: bytes) -> None:
    """Write a file atomically. Raises DiskFull and LibraryError."""
    try:
        write_atomic(path, data)
    except OSError as error:
        raise refusal(path, error) from error


def make_folder(path: Path) -> None:
    """Make a folder if it is missing. Raises DiskFull and LibraryError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise refusal(path, error) from error


def refusal(path: Path, error: OSError) -> DiskFull | LibraryError:
    """Return the error to show to users if the file system refuses to write."""
    if error.errno in NO_SPACE:
        return DiskFull(
            f"{path}: {error.strerror}; what was read so far is kept: make room and give the same "
            "command again"
        )
    return LibraryError(f"{path}: cannot be written: {error.strerror}; give another --out")
