"""The paths in a library's folder, and how its files are written."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.errors import DiskFull, LibraryError
from hpcscientist.files.atomic import NO_SPACE, write_atomic


@dataclass(frozen=True, slots=True)
class LibraryPaths:
    """The paths of one library. One writer; readers look at `contents` first."""

    root: Path

    @property
    def contents(self) -> Path:
        """What the library holds; written last, so what it names is there."""
        return self.root / "library.json"

    @property
    def skipped(self) -> Path:
        """What was not read, or not whole, and why: a JSON object a line."""
        return self.root / "skipped.jsonl"

    @property
    def mark(self) -> Path:
        """Written first: a folder that has it is a library, if only a beginning."""
        return self.sources / "format.json"

    @property
    def lock(self) -> Path:
        """Who builds it."""
        return self.root / ".builder"

    @property
    def sources(self) -> Path:
        """What was read: the manifest, and what was committed since it was written."""
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
        """What `hpcsci library fetch` has brought: one more input of every build."""
        return self.root / "fetched"

    @property
    def superseded(self) -> Path:
        """Which files were replaced, and since when; see the module `superseded`."""
        return self.root / "superseded"

    @property
    def index(self) -> Path:
        """The indexes; see the room `index`."""
        return self.root / "index"

    def commit(self, number: int) -> Path:
        """What was read until a commit."""
        return self.sources / f"commit-{number:06d}.jsonl"

    def manifest(self, number: int) -> Path:
        """Everything that was read, as of a commit."""
        return self.sources / f"manifest-{number:06d}.jsonl"

    def file(self, name: str) -> Path:
        """A file by its name in `contents` or in a commit."""
        return self.root / name


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all. Raises DiskFull and LibraryError."""
    try:
        write_atomic(path, data)
    except OSError as error:
        raise refusal(path, error) from error


def make_folder(path: Path) -> None:
    """Make a folder if need be. Raises DiskFull and LibraryError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise refusal(path, error) from error


def refusal(path: Path, error: OSError) -> DiskFull | LibraryError:
    """Return what a file system's refusal to write means to a person."""
    if error.errno in NO_SPACE:
        return DiskFull(
            f"{path}: {error.strerror}; what was read so far is kept: make room and give the same "
            "command again"
        )
    return LibraryError(f"{path}: cannot be written: {error.strerror}; give another --out")
