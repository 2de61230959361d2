"""Makes the folder of a library, or checks that an existing folder is one."""

from __future__ import annotations

import json
from pathlib import Path

from hpcscientist.errors import LibraryError
from hpcscientist.literature.library.parts import FORMAT, Contents, read_contents, refuse_newer
from hpcscientist.literature.library.paths import LibraryPaths, make_folder, write_file
from hpcscientist.literature.library.schema import VERSION


def prepare(paths: LibraryPaths) -> Contents | None:
    """Make the folder of a library if needed; return the contents of the library in it.

    Raises LibraryError if it cannot be written, and like `check`.
    """
    contents = check(paths)
    for folder in (paths.root, paths.sources, paths.papers, paths.symbols):
        make_folder(folder)
    if not paths.mark.exists():
        mark = {"format": FORMAT, "schema_version": VERSION}
        write_file(paths.mark, (json.dumps(mark) + "\n").encode())
    return contents


def check(paths: LibraryPaths) -> Contents | None:
    """Return the contents of the library in a folder; None for a new one. Changes nothing.

    Raises LibraryError if the folder has other files, or a library that is damaged or of a newer
    version.
    """
    root = paths.root
    if root.exists() and not root.is_dir():
        raise LibraryError(f"{root}: is a file: --out has to be a folder, new or of a library")
    if paths.mark.exists():
        _check_mark(paths)
        return read_contents(paths)
    if root.exists() and any(_foreign(paths)):
        raise LibraryError(
            f"{root}: holds other things and no library: give --out a new or empty folder"
        )
    return None


def begun(paths: LibraryPaths) -> bool:
    """Return whether a build has begun in a folder."""
    return paths.mark.exists()


def _foreign(paths: LibraryPaths) -> list[Path]:
    """Return files that cannot be left from a build that was killed right after its start."""
    root = paths.root
    try:
        found = list(root.iterdir())
        return [
            p
            for p in found
            if p != paths.fetched  # it may come before the library
            and (p.name not in ("sources", "papers", "symbols") or any(_inside(p)))
        ]
    except OSError as error:
        raise LibraryError(
            f"{root}: cannot be read: {error.strerror}; give another --out"
        ) from error


def _inside(folder: Path) -> list[Path]:
    return [p for p in folder.iterdir() if not p.name.startswith(".format.json.")]


def _check_mark(paths: LibraryPaths) -> None:
    try:
        mark = json.loads(paths.mark.read_bytes())
        refuse_newer(paths, mark.get("schema_version"))
    except OSError as error:
        raise LibraryError(f"{paths.mark}: cannot be read: {error.strerror}") from error
    except (ValueError, AttributeError) as error:
        raise LibraryError(
            f"{paths.mark}: damaged: remove {paths.root} and build it again"
        ) from error
