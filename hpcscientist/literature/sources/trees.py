"""Folders: what is in them, in order, and whether it is somebody's code."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PYTHON = (".py", ".ipynb")
OTHER_LANGUAGES = {
    ".c": "C", ".h": "C", ".cc": "C++", ".cpp": "C++", ".cxx": "C++", ".hpp": "C++", ".cu": "CUDA",
    ".cuh": "CUDA", ".f90": "Fortran", ".go": "Go", ".java": "Java", ".jl": "Julia",
    ".js": "JavaScript", ".lua": "Lua", ".m": "MATLAB", ".pyx": "Cython", ".r": "R",
    ".rs": "Rust", ".scala": "Scala", ".swift": "Swift", ".ts": "TypeScript",
}  # fmt: skip
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
_NOT_OURS = frozenset(
    {"__pycache__", "__MACOSX", "node_modules", "site-packages", "lost+found", "CVS"}
)
_SEARCHED = 20_000
_SYSTEM = frozenset({"/proc", "/sys", "/dev"})  # some of their files have no end


@dataclass(frozen=True, slots=True)
class Listing:
    """The names of a folder's regular files and folders, in order, hidden ones left out.

    Names and no paths, which take five times as much where there are a million. `odd` counts
    broken links, links that lead to a folder above, pipes, sockets and devices: never opened.
    """

    folder: Path
    files: tuple[str, ...]
    folders: tuple[str, ...]
    odd: int
    cloned: bool

    @property
    def project(self) -> bool:
        """Whether this is the root of a code repository, by the files that only roots have."""
        return self.cloned or any(f in _PROJECT_FILES for f in self.files)


def listing(folder: Path, follow: bool = True) -> Listing:
    """List a folder; `follow` false leaves links out. Raises OSError."""
    places: dict[str, list[str]] = {"file": [], "folder": [], "odd": []}
    cloned = False
    with os.scandir(folder) as found:
        for entry in found:
            cloned = cloned or entry.name == ".git"
            if entry.name.startswith(".") or entry.name in _NOT_OURS:
                continue
            if follow or not entry.is_symlink():
                places[_kind(entry)].append(entry.name)
    files, folders = tuple(sorted(places["file"])), tuple(sorted(places["folder"]))
    return Listing(folder, files, folders, len(places["odd"]), cloned)


def _kind(entry: os.DirEntry[str]) -> str:
    try:
        if entry.is_dir():
            return "odd" if _leads_away(entry) else "folder"
        return "file" if entry.is_file() else "odd"
    except OSError:  # a link in a circle
        return "odd"


def _leads_away(entry: os.DirEntry[str]) -> bool:
    """Whether a folder is a link to one that it lies in itself, or the system's view of itself.

    A link to `/` would have the whole machine read.
    """
    if not entry.is_symlink():
        return entry.path in _SYSTEM
    there = os.path.realpath(entry.path)
    here = os.path.realpath(os.path.dirname(entry.path))  # noqa: PTH120 (speed)
    return there in _SYSTEM or os.path.commonpath((there, here)) == there


def code_files(root: Path) -> Iterator[Path | OSError]:
    """Yield the files of a repository in order; links and clones inside it are left out."""
    pending = [root]
    while pending:
        folder = pending.pop()
        try:
            found = listing(folder, follow=False)
        except OSError as error:
            yield error
            continue
        if (found.cloned and folder != root) or "pyvenv.cfg" in found.files:
            continue
        yield from (folder / name for name in found.files)
        pending += [folder / name for name in reversed(found.folders)]


def has_code(root: Path) -> bool:
    """Whether there is a program among the first files of a folder, in any language."""
    for number, path in enumerate(code_files(root)):
        if number >= _SEARCHED:
            return False
        if isinstance(path, Path) and path.suffix.lower() in (*PYTHON, *OTHER_LANGUAGES):
            return True
    return False
