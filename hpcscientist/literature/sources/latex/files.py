"""The files of a LaTeX project: those of a folder and none outside it, or those in an archive.

An archive is read in memory, within bounds, and never unpacked.
"""

from __future__ import annotations

import io
import posixpath
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from hpcscientist.literature.sources import lines, sniff
from hpcscientist.literature.sources.text import shown

FILE_BYTES = 8 * 2**20
PROJECT_BYTES = 64 * 2**20
_UNPACKED_BYTES = 2 * 2**30
_MEMBERS = 20_000
_MISSING = 100
_DEEPEST = 20
_KEPT = (".tex", ".ltx", ".latex", ".bbl", ".bib", ".txt", "")
_COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)%[^\n]*(?:\n[ \t]*)?")
_INPUT = re.compile(
    r"\\(?:(?:input|include|subfile)(?![a-zA-Z])\s*(?:\{([^{}\n]*)\}|([^\s{}\\]+))"
    r"|(?:sub)?import\s*\{([^{}\n]*)\}\s*\{([^{}\n]*)\}|endinput\b)"
)


class Files(Protocol):
    """The files of a project by their names in it."""

    def names(self) -> list[str]:
        """Return the names beside the main file, in order."""
        ...

    def text(self, name: str) -> str | None:
        """Return a file as text; None where there is none that may be read."""
        ...


class FolderFiles:
    """Files of a folder. Links out of it lead nowhere."""

    def __init__(self, folder: Path) -> None:
        self._root = folder.resolve()
        self._left = PROJECT_BYTES

    def names(self) -> list[str]:
        """Return the names directly in the folder."""
        return sorted(shown(Path(p.name)) for p in self._root.iterdir())

    def text(self, name: str) -> str | None:
        """Return a file as text; None outside the folder, too large, or no regular file."""
        try:
            path = (self._root / name).resolve()
            if not path.is_relative_to(self._root) or not path.is_file():
                return None
            text, _ = lines.read_text(path, min(FILE_BYTES, self._left))
        except (OSError, ValueError, RuntimeError):  # a name with NUL, a link in a circle
            return None
        self._left = max(0, self._left - len(text))
        return text


class ArchiveFiles:
    """Texts of a tar archive, packed or not, all held at once within the bounds."""

    def __init__(self, path: Path) -> None:
        """Read the texts. `problem` says what was damaged or refused. Raises OSError."""
        self._texts: dict[str, str] = {}
        self.problem = ""
        with lines.open_plain(path) as file:
            try:
                self._read(file)
            except (tarfile.TarError, EOFError, *lines.DAMAGED_GZIP) as error:
                self.problem = f"archive damaged or cut off ({error}); what stood before was read"
            except _TooLarge as error:
                self.problem = str(error)

    def names(self) -> list[str]:
        """Return the names of all texts."""
        return sorted(self._texts)

    def text(self, name: str) -> str | None:
        """Return a text of the archive."""
        return self._texts.get(posixpath.normpath(name))

    def _read(self, file: io.BufferedReader) -> None:
        size = 0
        with tarfile.open(fileobj=_Forwards(file), mode="r:") as archive:
            for number, member in enumerate(archive):
                if number >= _MEMBERS:
                    raise _TooLarge(
                        f"archive of more than {_MEMBERS} members; the rest is left out"
                    )
                name = posixpath.normpath(member.name)
                outside = name.startswith(("/", "../"))
                if outside or not member.isreg() or not _is_text_name(name):
                    continue
                size += member.size
                if member.size > FILE_BYTES or size > PROJECT_BYTES:
                    raise _TooLarge(
                        f"{name} makes more text than a paper has; the rest is left out"
                    )
                found = archive.extractfile(member)
                if found is not None:
                    self._texts[name] = lines.decode(found.read(FILE_BYTES))[0]


def _is_text_name(name: str) -> bool:
    return posixpath.splitext(name)[1].lower() in _KEPT


class _TooLarge(Exception):
    """An archive holds more than a paper's source."""


class _Forwards(io.RawIOBase):
    """A stream that tarfile may seek forwards in, but not make hold or unpack without bound."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file, self._at = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence != 0 or offset < self._at:
            raise tarfile.ReadError("not in order")
        while self._at < offset and self.read(min(2**20, offset - self._at)):
            pass
        return self._at

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > FILE_BYTES:
            raise _TooLarge("a header or a member of the archive is too large")
        data = self._file.read(size)
        self._at += len(data)
        if self._at > _UNPACKED_BYTES:
            raise _TooLarge("archive of more than 2 GiB unpacked; the rest is left out")
        return data


def without_comments(source: str) -> str:
    """Return LaTeX without its comments; an escaped percent sign is none."""
    return _COMMENT.sub(r"\1", source.replace("\r\n", "\n").replace("\r", "\n"))


def flattened(files: Files, main: str) -> tuple[str, list[str]]:
    """Return a document in one text, without comments, and what could not be put into it.

    What \\input, \\include, \\subfile and \\import name is taken from the project alone.
    """
    source = files.text(main)
    if source is None:
        return "", [f"{main} is not there, is no text, or is too large"]
    room = _Room(PROJECT_BYTES)
    text = "".join(_parts(files, room, without_comments(source), "", (main,)))
    return text, room.missing


@dataclass(slots=True)
class _Room:
    """How much text may still be put into a document, and what was not."""

    left: int
    missing: list[str] = field(default_factory=list)

    def lacks(self, what: str) -> None:
        if len(self.missing) < _MISSING:
            self.missing.append(what)


def _parts(
    files: Files, room: _Room, source: str, base: str, above: tuple[str, ...]
) -> Iterator[str]:
    done = 0
    room.left -= len(source)
    for found in _INPUT.finditer(source):
        yield source[done : found.start()]
        done = found.end()
        if found.group() == r"\endinput":
            return
        folder = posixpath.join(base, found.group(3)) if found.group(3) is not None else base
        wanted = (found.group(1) or found.group(2) or found.group(4) or "").strip()
        if room.left < 0:
            room.lacks("more text than a paper has is included; the rest is left out")
            break
        name, text = _found(files, posixpath.normpath(posixpath.join(folder, wanted)), wanted)
        if text is None or name in above or len(above) > _DEEPEST:
            room.lacks(f"{found.group()} leads to no text inside the project")
            continue
        yield from _parts(files, room, without_comments(text), folder, (*above, name))
    yield source[done:]


def _found(files: Files, name: str, wanted: str) -> tuple[str, str | None]:
    if not wanted or name.startswith(("/", "..")):
        return name, None
    for candidate in (f"{name}.tex", name):
        text = files.text(candidate)
        if text is not None:
            return candidate, text
    return name, None


def mains(files: Files) -> list[str]:
    """Return the names of an archive's main files, the likeliest first."""
    found = []
    for name in files.names():
        text = files.text(name)
        if text is not None and sniff.is_main_text(text):
            likely = (
                r"\title" not in text,
                r"\begin{document}" not in text,
                "/" in name,
                -len(text),
            )
            found.append((likely, name))
    return [name for _, name in sorted(found)]
