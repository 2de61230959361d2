"""library.json: what a library holds and in which files; written last."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import ValidationError

from hpcscientist.errors import LibraryError
from hpcscientist.files.hashing import hash_file
from hpcscientist.literature.library.files.paths import LibraryPaths
from hpcscientist.literature.library.files.schema import VERSION
from hpcscientist.literature.library.ledger import Part
from hpcscientist.records.base import Record

FORMAT = "hpcscientist library"


class Placed(Record):
    """A part and the position of its first row."""

    first: int
    part: Part


class Contents(Record):
    """What is in a library.

    `shown_papers` and `shown_symbols` list the positions that count: rows that were replaced,
    removed, or made one with others are not among them. `ids` finds a paper by the hash of any
    of its ids. `built_with` is this package's version.
    """

    format: Literal["hpcscientist library"] = "hpcscientist library"
    schema_version: int = VERSION
    edition: int
    papers: int
    symbols: int
    formulas: int
    sources: int
    fingerprint: str
    paper_parts: tuple[Placed, ...]
    symbol_parts: tuple[Placed, ...]
    shown_papers: Part
    shown_symbols: Part
    ids: Part
    built_with: str

    def files(self) -> Iterator[Part]:
        """Yield every Arrow file of the library, the indexes' left out."""
        yield from (placed.part for placed in (*self.paper_parts, *self.symbol_parts))
        yield from self.lists

    @property
    def lists(self) -> tuple[Part, ...]:
        """The files that name papers, and would name others with a bit changed."""
        return self.shown_papers, self.shown_symbols, self.ids


def read_contents(paths: LibraryPaths) -> Contents | None:
    """Return what a library holds; None if no build of it has ended yet.

    Raises LibraryError for a file that is damaged, of something else, or of a newer version.
    """
    try:
        found: Any = json.loads(paths.contents.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LibraryError(f"{paths.contents}: cannot be read: {error.strerror}") from error
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise LibraryError(
            f"{paths.contents}: not a library that `hpcsci library build` made; name another folder"
        )
    refuse_newer(paths, found.get("schema_version"))
    try:
        return Contents.model_validate_json(json.dumps(found))
    except ValidationError as error:
        raise LibraryError(
            f"{paths.contents}: damaged: remove {paths.root} and build it again"
        ) from error


def refuse_newer(paths: LibraryPaths, version: object) -> None:
    """Raise LibraryError if a library is of a version that this package does not know."""
    if isinstance(version, int) and version > VERSION:
        raise LibraryError(
            f"{paths.root}: written with library schema {version}, this hpcscientist reads up to "
            f"{VERSION}: upgrade hpcscientist"
        )


def is_whole(paths: LibraryPaths, part: Part) -> bool:
    """Whether a part is there with all its bytes; their content is not looked at."""
    try:
        return paths.file(part.file).stat().st_size == part.size
    except OSError:
        return False


def changed(paths: LibraryPaths, contents: Contents) -> Part | None:
    """Return a part that is not whole, or one of the lists that is not what was written."""
    for part in contents.files():
        try:
            if not is_whole(paths, part) or (
                part in contents.lists and hash_file(paths.file(part.file)) != part.sha256
            ):
                return part
        except OSError:
            return part
    return None
