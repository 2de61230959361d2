"""The catalogue, index.json: the files of a library's index, and what they were made from.

A build writes files first, under new names, and the catalogue last. So a reader finds the index
from before or after a build, and a build that was killed has changed nothing. Files that earlier
catalogues named are kept for a time, for processes that have them open.
"""

from __future__ import annotations

import json
import shutil
import zlib
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from hpcscientist.errors import LibraryError
from hpcscientist.files.atomic import write_text
from hpcscientist.literature.library import parts
from hpcscientist.literature.library.paths import LibraryPaths
from hpcscientist.records.base import Record

VERSION = 1
_CHUNK = 1 << 20


class KeywordPart(Record):
    """The keyword indexes: a folder, and how many positions were removed since it was rebuilt.

    `content` is the fingerprint of the indexed store, `engine` the version of tantivy. `checksums`
    has those of all files, by name; earlier versions lack them.
    """

    folder: str
    content: str
    engine: str
    left_papers: int = 0
    left_symbols: int = 0
    checksums: dict[str, int] = Field(default_factory=dict)


class VectorBlock(Record):
    """The vectors of some positions: `FILE.rows.npy` and `FILE.positions.npy`.

    `checksum` is that of the first file, None if an earlier version wrote it. FILE contains a hash
    of the positions.
    """

    file: str
    rows: int
    checksum: int | None = None


class VectorPart(Record):
    """The vectors of papers. `embedder` is a fingerprint, `name` the embedder's name for users.

    `model` is the folder of a sentence-transformers model. Without one, `latent` is the folder of
    what was fitted on the library when it had `fitted_on` papers. `folder` has the blocks.
    """

    folder: str
    content: str
    embedder: str
    name: str
    width: int
    blocks: tuple[VectorBlock, ...] = ()
    model: str = ""
    latent: str = ""
    fitted_on: int = 0


class Catalogue(Record):
    """The content of index.json."""

    version: int = VERSION
    keyword: KeywordPart
    vectors: VectorPart | None = None

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders in use, relative to the index."""
        vectors = self.vectors
        named = (self.keyword.folder, *((vectors.folder, vectors.latent) if vectors else ()))
        return tuple(name for name in named if name)

    @property
    def files(self) -> tuple[str, ...]:
        """The folders and blocks in use, relative to the index."""
        vectors = self.vectors
        blocks = [f"{vectors.folder}/{block.file}" for block in vectors.blocks] if vectors else []
        return (*self.folders, *blocks)


@dataclass(frozen=True, slots=True)
class IndexPaths:
    """The paths of a library's index."""

    root: Path

    @property
    def library(self) -> LibraryPaths:
        """The paths of the indexed library."""
        return LibraryPaths(self.root.parent)

    @property
    def catalogue(self) -> Path:
        """The catalogue, which names the files of the index."""
        return self.root / "index.json"

    def path(self, name: str) -> Path:
        """Return the path of a folder or file that the catalogue names."""
        return self.root / name


def checksum(path: Path) -> int:
    """Return the CRC-32 of a file, to detect damage by a disk or a copy. Raises OSError."""
    value = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            value = zlib.crc32(chunk, value)
    return value


def read(paths: IndexPaths) -> Catalogue | None:
    """Return the catalogue; None without one. Raises LibraryError if it is damaged."""
    try:
        data = paths.catalogue.read_bytes()
        found = json.loads(data)
        version = found.get("version") if isinstance(found, dict) else None
        if isinstance(version, int) and version > VERSION:
            raise LibraryError(
                f"{paths.catalogue}: of a newer hpcscientist (index version {version}, known is "
                f"{VERSION}): upgrade hpcscientist, or {fix(paths)}"
            )
        return Catalogue.model_validate_json(data)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LibraryError(f"{paths.catalogue}: cannot be read: {error.strerror}") from error
    except (ValueError, ValidationError) as error:
        raise LibraryError(f"{paths.catalogue}: damaged; {fix(paths)}") from error


def publish(paths: IndexPaths, new: Catalogue, last: Catalogue | None) -> None:
    """Make a catalogue the current one; `last` is the one from when the update began."""
    if last is not None:
        parts.retire(paths.library, (f"{paths.root.name}/{name}" for name in last.files))
    write_text(paths.catalogue, json.dumps(new.model_dump(), indent=1) + "\n")


def sweep(paths: IndexPaths) -> None:
    """Remove files that are neither in use now nor kept for readers of replaced indexes."""
    current = read(paths)
    kept = {name.removeprefix(f"{paths.root.name}/") for name in parts.kept(paths.library)}
    kept |= set(current.files) if current else set()
    for path in paths.root.iterdir():
        if path.is_dir() and path.name not in kept:
            shutil.rmtree(path, ignore_errors=True)
        elif path.is_dir() and path.name.startswith("vectors-"):
            for file in path.iterdir():
                if f"{path.name}/{file.name.partition('.')[0]}" not in kept:
                    file.unlink(missing_ok=True)


def fix(paths: IndexPaths) -> str:
    """Return the advice for a damaged index."""
    return f"make it anew: remove {paths.root}, then `hpcsci library build … --out " + (
        f"{paths.root.parent}`"
    )
