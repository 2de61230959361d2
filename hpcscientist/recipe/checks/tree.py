"""The files of a recipe's folder: checks that they are regular and not too large, and copies them.

Links are refused and never followed: one to a device may be endless, and the target of one to a
file elsewhere may change. The library folder, which has its own reader, and caches are skipped.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from hpcscientist.errors import RecipeError
from hpcscientist.files.handed import kind_of, open_regular
from hpcscientist.records.base import Problem

LARGEST = 2**30  # bytes of a recipe without its image: every campaign has a copy
LIBRARY = "library"
_CACHES = frozenset({"__pycache__"})


def tree_problems(folder: Path, image: str | None = None) -> Iterator[Problem]:
    """Yield files that a recipe's folder may not have. `image` is the one named in recipe.toml."""
    total, told = 0, False
    try:
        for path, kind, size in _files(folder, folder, image):
            if kind:
                yield Problem(
                    path,
                    None,
                    f"is {kind}; a recipe holds regular files only: put the file itself there, or "
                    "have prepare.py fetch it",
                )
            elif path != folder / (image or "."):
                total += size
            if total > LARGEST and not told:
                told = True
                yield Problem(
                    path,
                    None,
                    f"with this file the recipe is larger than {LARGEST // 2**20} MiB; keep data "
                    "elsewhere, and have prepare.py read them there",
                )
    except OSError as error:
        yield Problem(Path(error.filename or folder), None, f"cannot be read: {error.strerror}")


def as_error(problem: Problem) -> RecipeError:
    """Return a problem of a recipe as an exception."""
    return RecipeError(problem.message, Path(problem.file), problem.line)


def copy_tree(origin: Path, target: Path, image: str | None = None) -> None:
    """Copy a recipe's folder to a new folder, as a campaign stores it.

    Raises RecipeError, before it copies anything, for files that are not allowed, and OSError.
    """
    for problem in tree_problems(origin, image):
        raise as_error(problem)
    for folder, names, _ in os.walk(origin):
        here = Path(folder)
        names[:] = [name for name in names if not _is_left_out(here / name, origin, image)]
        (target / here.relative_to(origin)).mkdir()
    for path, _, _ in _files(origin, origin, image):
        _copy_file(path, target / path.relative_to(origin))


def _copy_file(path: Path, target: Path) -> None:
    try:
        source = open_regular(path, follow=False)
    except OSError as error:
        raise RecipeError(f"cannot be copied: {error.strerror}", path) from error
    with source, target.open("wb") as copy:
        shutil.copyfileobj(source, copy)
        target.chmod(os.fstat(source.fileno()).st_mode & 0o777)


def _files(folder: Path, root: Path, image: str | None) -> Iterator[tuple[Path, str, int]]:
    """Yield the files below a folder that are copied: path, kind ("" if regular), bytes."""
    for path in sorted(folder.iterdir()):
        if _is_left_out(path, root, image):
            continue
        info = path.lstat()
        if stat.S_ISDIR(info.st_mode):
            yield from _files(path, root, image)
        else:
            yield path, kind_of(info), info.st_size


def _is_left_out(path: Path, root: Path, image: str | None) -> bool:
    """Return whether a campaign's copy omits a path: caches, the library, an unpacked image."""
    if path.name in _CACHES or path == root / LIBRARY:
        return True
    return bool(image) and path == root / str(image) and path.is_dir() and not path.is_symlink()
