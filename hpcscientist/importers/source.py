"""Reads the untrusted file, folder or zip archive that a user wants to import.

Names cannot lead out of it, links are not followed, archives are never unpacked to disk, and every
read has a size limit. Nothing is executed.
"""

from __future__ import annotations

import json
import os
import stat
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from hpcscientist.errors import RecipeError
from hpcscientist.files.handed import kind_of, open_regular, read_regular
from hpcscientist.files.text import printable

LARGEST_TEXT = 4 * 2**20  # most bytes of a text file
LARGEST_FILE = 2**30  # most bytes of a file in a recipe
_MOST_ENTRIES = 20_000
_SKIPPED = frozenset({"__pycache__", "__MACOSX", "node_modules"})


class TaskFiles(ABC):
    """A set of regular files by name. `odd` names other entries, such as links, with their kind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def stem(self) -> str:
        """The task's name if nothing in the task names it."""
        return self.path.name if self.path.is_dir() else self.path.stem

    @cached_property
    @abstractmethod
    def sizes(self) -> Mapping[str, int]:
        """The size in bytes of each regular file, by its path below the source, with `/`
        separators.
        """

    @property
    @abstractmethod
    def odd(self) -> Mapping[str, str]:
        """Entries that are no regular files, by name: a link, a device, …"""

    @abstractmethod
    def _read(self, name: str, limit: int) -> bytes:
        """Return a file's content, or more than `limit` bytes if it is longer. Raises OSError."""

    def __contains__(self, name: str) -> bool:
        return name in self.sizes

    def below(self, folder: str) -> list[str]:
        """Return the names of the files below a folder, sorted."""
        return sorted(name for name in self.sizes if name.startswith(f"{folder}/"))

    def data(self, name: str, limit: int = LARGEST_FILE) -> bytes:
        """Return a file's content. Raises RecipeError if it is missing, irregular or too large."""
        if name not in self.sizes:
            what = f"is {self.odd[name]}; put the file itself there" if name in self.odd else ""
            raise RecipeError(what or "is missing", self.path / name)
        if self.sizes[name] <= limit:
            try:
                content = self._read(name, limit)
            except (
                OSError,
                EOFError,
                zipfile.BadZipFile,
                zlib.error,
                NotImplementedError,
            ) as error:
                raise RecipeError(f"cannot be read: {error}", self.path / name) from error
            if len(content) <= limit:
                return content
        raise RecipeError(f"is larger than {limit // 2**20} MiB", self.path / name)

    def text(self, name: str) -> str:
        """Return a UTF-8 text with plain line ends. Raises RecipeError, also for another coding."""
        try:
            text = self.data(name, LARGEST_TEXT).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            said = "not UTF-8 text; save it as UTF-8"
            raise RecipeError(said, self.path / name, line) from error
        return text.replace("\r\n", "\n").replace("\r", "\n")


def open_source(path: Path) -> TaskFiles:
    """Open a file, folder or archive. Raises RecipeError if it cannot be read."""
    try:
        info = path.stat()
    except OSError as error:
        raise RecipeError(f"{path}: {error.strerror}; give a file or a folder") from error
    if stat.S_ISDIR(info.st_mode):
        return _Folder(path)
    if kind := kind_of(info):
        raise RecipeError(f"{path}: is {kind}; give a file or a folder")
    if zipfile.is_zipfile(path):
        return _Zip(path)
    return _File(path)


class _File(TaskFiles):
    """A single file, under its own name."""

    odd: Mapping[str, str] = {}

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        return {self.path.name: self.path.stat().st_size}

    def data(self, name: str, limit: int = LARGEST_FILE) -> bytes:
        try:
            return super().data(name, limit)
        except RecipeError as error:
            raise RecipeError(error.problem, self.path) from error

    def _read(self, name: str, limit: int) -> bytes:
        return read_regular(self.path, limit)


@dataclass(frozen=True, slots=True)
class _Listing:
    sizes: dict[str, int]
    odd: dict[str, str]


class _Folder(TaskFiles):
    """A folder without hidden files and caches; links in it are not followed."""

    @cached_property
    def _listing(self) -> _Listing:
        found = _Listing({}, {})
        try:
            for entry in self._walk(self.path):
                name = Path(entry.path).relative_to(self.path).as_posix()
                info = entry.stat(follow_symlinks=False)
                kind = kind_of(info)
                if kind:
                    found.odd[name] = kind
                else:
                    found.sizes[name] = info.st_size
                if len(found.odd) + len(found.sizes) > _MOST_ENTRIES:
                    raise RecipeError(
                        f"{self.path}: holds more than {_MOST_ENTRIES} files; give one task"
                    )
        except OSError as error:
            raise RecipeError(f"{error.filename}: cannot be read: {error.strerror}") from error
        return found

    def _walk(self, folder: Path) -> Iterator[os.DirEntry[str]]:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda each: each.name):
                if entry.name in _SKIPPED or entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield from self._walk(Path(entry.path))
                else:
                    yield entry

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        return self._listing.sizes

    @property
    def odd(self) -> Mapping[str, str]:
        return self._listing.odd

    def _read(self, name: str, limit: int) -> bytes:
        with open_regular(self.path / name, follow=False) as file:
            return file.read(limit + 1)


class _Zip(TaskFiles):
    """A zip archive, read member by member; a single top folder is stripped from the names."""

    @cached_property
    def _members(self) -> tuple[dict[str, zipfile.ZipInfo], dict[str, str]]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                infos = archive.infolist()
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise RecipeError(f"{self.path}: is no zip archive: {error}") from error
        if len(infos) > _MOST_ENTRIES:
            raise RecipeError(f"{self.path}: holds more than {_MOST_ENTRIES} files")
        regular: dict[str, zipfile.ZipInfo] = {}
        odd: dict[str, str] = {}
        for info in infos:
            # zipfile converts backslashes on some systems, so treat them as separators everywhere.
            name = PurePosixPath(info.filename.replace("\\", "/"))
            if name.is_absolute() or ".." in name.parts or ":" in info.filename[:3]:
                shown = printable(info.filename)
                raise RecipeError(f"{self.path}: {shown!r} leads out of the archive; refused")
            if info.is_dir() or any(p in _SKIPPED or p.startswith(".") for p in name.parts):
                continue
            if str(name) in regular:
                raise RecipeError(f"{self.path}: holds {str(name)!r} twice; refused")
            if info.flag_bits & 1:
                raise RecipeError(f"{self.path}: is encrypted; unpack it, and give the folder")
            if stat.S_ISLNK(info.external_attr >> 16):
                odd[str(name)] = "a link"
            else:
                regular[str(name)] = info
        tops = {PurePosixPath(name).parts[0] for name in (*regular, *odd)}
        if len(tops) == 1 and all("/" in name for name in (*regular, *odd)):
            cut = len(next(iter(tops))) + 1
            regular = {name[cut:]: info for name, info in regular.items()}
            odd = {name[cut:]: kind for name, kind in odd.items()}
        return regular, odd

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        return {name: info.file_size for name, info in self._members[0].items()}

    @property
    def odd(self) -> Mapping[str, str]:
        return self._members[1]

    def _read(self, name: str, limit: int) -> bytes:
        # The archive may lie about a member's size, so inflate at most the limit.
        with zipfile.ZipFile(self.path) as archive, archive.open(self._members[0][name]) as member:
            return member.read(limit + 1)


# Reads configuration files of tasks, which are untrusted: size and nesting are limited.


_LARGEST = 256 * 1024  # characters of a YAML file: parsing is slow
_DEEP = 50  # nested brackets


def yaml_table(source: TaskFiles, name: str) -> Mapping[str, Any]:
    """Return a YAML document whose top level is a mapping. Raises RecipeError."""
    text = source.text(name)
    if len(text) > _LARGEST or _is_deep(text):
        raise RecipeError("is larger or deeper than a configuration", source.path / name)
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        said = str(getattr(error, "problem", None) or error)
        raise RecipeError(f"is no YAML: {said}", source.path / name) from error
    if not isinstance(found, dict):
        raise RecipeError("is no table of YAML", source.path / name)
    return found


def json_document(source: TaskFiles, name: str) -> Any:
    """Return a JSON document. Raises RecipeError."""
    try:
        return json.loads(source.text(name))
    except (ValueError, RecursionError) as error:
        raise RecipeError(f"is no JSON: {error}", source.path / name) from error


def table_of(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a mapping within a document; {} if there is none."""
    found = document.get(key)
    return found if isinstance(found, dict) else {}


def _is_deep(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character in "[{") - (character in "]}")
        if depth > _DEEP:
            return True
    return False
