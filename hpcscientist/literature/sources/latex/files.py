"""The files of a LaTeX project: those in a folder, never outside it, or those in an archive.

An archive is read in memory, within limits, and never unpacked to disk.
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
from hpcscientist.literature.sources.latex.macros import (
    Expander,
    Macro,
    definitions,
    only_definitions,
)
from hpcscientist.literature.sources.text import shown

FILE_BYTES = 8 * 2**20
PROJECT_BYTES = 64 * 2**20
_UNPACKED_BYTES = 2 * 2**30
_MEMBERS = 20_000
_MISSING = 100
_DEEPEST = 20
_KEPT = (".tex", ".ltx", ".latex", ".bbl", ".bib", ".txt", "")
_COMMENT = re.compile(
    r"(?P<address>\\(?:url|nolinkurl|path|href)\s*\{[^{}\n]*\})"  # these hold percent signs
    r"|(?P<verb>\\(?:verb\*?|lstinline|mintinline\{\w+\})(?![a-zA-Z])(?:\[[^\]\n]{0,1000}\])?"
    r"(?:(?P<mark>[^\sa-zA-Z*{}%])[^\n]{0,1000}?(?P=mark)|\{[^{}\n]*\}))"
    r"|(?<!\\)(?P<escapes>(?:\\\\)*)%[^\n]*(?:\n[ \t]*)?"
)
_NAME = r"\{((?:[^{}\n]|\{[^{}\n]*\})*)\}"
_INPUT = re.compile(
    rf"\\(?:(?:input|include|subfile|subfileinclude)(?![a-zA-Z@])\s*(?:{_NAME}"
    r"|((?:\\[a-zA-Z@]+)?[^\s{}\\]+|\\[a-zA-Z@]+))"
    rf"|InputIfFileExists\s*{_NAME}(?:\s*\{{[^{{}}]*\}}){{2}}"
    rf"|(?:sub)?(?:import|inputfrom|includefrom)\*?\s*{_NAME}\s*{_NAME}|endinput(?![a-zA-Z]))"
)
BEGIN = re.compile(r"\\begin\s*\{document\}")
END = re.compile(r"\\end\s*\{document\}")
_CLASS = re.compile(r"\\document(?:class|style)(?![a-zA-Z])")
_TEXT = re.compile(r"\\(?:begin\s*\{|chapter|(?:sub)*section)")  # not in a preamble
_CONDITION = re.compile(
    r"\\(?P<mark>if(?!f(?![a-zA-Z@]))[a-zA-Z@]*(?![a-zA-Z@])(?!\s*\{)|(?:else|fi)(?![a-zA-Z@]))"
)
_SWITCH = re.compile(
    r"\\newif\s*\\(?P<new>if[a-zA-Z@]+)"
    r"|\\let\s*\\(?P<let>if[a-zA-Z@]+)\s*=?\s*\\if(?P<as>true|false)(?![a-zA-Z@])"
)
_SETS = re.compile(r"\\(?P<name>[a-zA-Z@]+)(?P<to>true|false)(?![a-zA-Z@])")
_STEP = re.compile(rf"{_CONDITION.pattern}|{_SETS.pattern}|\\[^a-zA-Z@]|[{{}}]")
_BOTH = {True, False}


class Files(Protocol):
    """The files of a project, by their names in it."""

    def names(self) -> list[str]:
        """Return the names of the files, in order."""
        ...

    def text(self, name: str) -> str | None:
        """Return a file as text; None if it does not exist or may not be read."""
        ...


class FolderFiles:
    """The files of a folder. Links that lead out of it are not followed."""

    def __init__(self, folder: Path) -> None:
        self._root = folder.resolve()
        self._left = PROJECT_BYTES

    def names(self) -> list[str]:
        """Return the names directly in the folder."""
        return sorted(shown(Path(p.name)) for p in self._root.iterdir())

    def text(self, name: str) -> str | None:
        """Return a file as text; None if outside the folder, too large, or no regular file."""
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
    """The text files of a tar archive, gzipped or not, all in memory, within the limits."""

    def __init__(self, path: Path) -> None:
        """Read the texts. `problem` describes what was damaged or refused. Raises OSError."""
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
    """Raised if an archive holds more than a paper's source would."""


class _Forwards(io.RawIOBase):
    """A forward-only stream for tarfile, which bounds each read and the unpacked total."""

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
    """Return LaTeX without its comments.

    A percent sign that is escaped, in an address or in verbatim text begins no comment.
    """
    return _COMMENT.sub(_kept, source.replace("\r\n", "\n").replace("\r", "\n"))


def _kept(found: re.Match[str]) -> str:
    return found["escapes"] if found["escapes"] is not None else found.group()


def flattened(files: Files, main: str) -> tuple[str, list[str]]:
    """Return a document as one text, without comments, and the problems with included files.

    Files of \\input, \\include, \\subfile, \\import and the like are read only from the project.
    """
    source = files.text(main)
    if source is None:
        return "", [f"{main} is not there, is no text, or is too large"]
    switches: dict[str, bool | None] = {"iftrue": True, "iffalse": False}
    return _filled(files, main, _shown(source, switches), switches)


def filled(files: Files, main: str, expanded: str) -> str:
    """Return expanded text with the files of \\input and the like that macros had hidden."""
    return _filled(files, main, expanded, {})[0] if _INPUT.search(expanded) else expanded


def _filled(
    files: Files, main: str, source: str, switches: dict[str, bool | None]
) -> tuple[str, list[str]]:
    room = _Room(PROJECT_BYTES, {"jobname": Macro(posixpath.splitext(main)[0])}, switches)
    return "".join(_parts(files, room, source, "", (main,))), room.missing


@dataclass(slots=True)
class _Room:
    """The state of an expansion: how much text may follow, missing inputs, what is defined."""

    left: int
    macros: dict[str, Macro]
    switches: dict[str, bool | None]  # of \\newif; None if unknown
    missing: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)  # texts whose macros are not in `macros` yet

    def lacks(self, what: str) -> None:
        if len(self.missing) < _MISSING:
            self.missing.append(what)

    def name(self, written: str, folder: str) -> str:
        """Return a file's name with its macros expanded."""
        if "\\" in written:
            self._learn()
            macros = {**self.macros, "currfiledir": Macro(f"{folder}/"), "subfix": Macro("#1", 1)}
            closed = re.sub(r"(\\[a-zA-Z@]+)(?:\s+|(?=/))", r"\1{}", written)
            written = Expander(macros).expand(closed)
        return written.strip().strip('"').strip()

    def search_path(self) -> list[str]:
        """Return the folders of \\input@path."""
        self._learn()
        paths = self.macros.get("input@path")
        return re.findall(r"\{([^{}]*)\}", paths.body) if paths else []

    def _learn(self) -> None:
        for text in self.unread:
            self.macros = definitions(text, self.macros)[0]
        self.unread.clear()


def _parts(
    files: Files, room: _Room, source: str, base: str, above: tuple[str, ...]
) -> Iterator[str]:
    done = 0
    room.left -= len(source)
    room.unread.append(source)
    for found in _INPUT.finditer(source):
        braced, bare, existing, imported, imported_file = found.groups()
        wanted = braced or bare or existing or imported_file or ""
        if "#" in wanted:  # in the definition of a macro
            continue
        yield source[done : found.start()]
        done = found.end()
        if found.group() == r"\endinput":
            return
        if room.left < 0:
            room.lacks("more text than a paper has is included; the rest is left out")
            break
        own = posixpath.dirname(above[-1])
        wanted = room.name(wanted, own)
        if imported is None:
            folders = [base, "", own]
        else:
            imported = room.name(imported, own)
            folders = [posixpath.join(base, imported), imported]
        name, text = _found(files, folders, wanted)
        if text is None and imported is None:
            name, text = _found(files, room.search_path(), wanted)
        if text is None or name in above or len(above) > _DEEPEST:
            room.lacks(f"{found.group()} leads to no text inside the project")
            continue
        inside = base if imported is None else posixpath.dirname(name)
        yield from _parts(files, room, _body(_shown(text, room.switches)), inside, (*above, name))
    yield source[done:]


def _found(files: Files, folders: list[str], wanted: str) -> tuple[str, str | None]:
    """Return the name and text of the first file that exists."""
    for folder in dict.fromkeys(folders) if wanted else ():
        name = posixpath.normpath(posixpath.join(folder, wanted))
        if name.startswith(("/", "..")):
            continue
        for candidate in (f"{name}.tex", name):
            text = files.text(candidate)
            if text is not None:
                return candidate, text
    return wanted, None


def _shown(source: str, switches: dict[str, bool | None]) -> str:
    r"""Return LaTeX without comments and without the branches that conditions hide.

    A condition is \iftrue, \iffalse, or a switch of \newif that is set one way only. Both branches
    of all others are kept. `switches` are those of earlier texts; a text can add to them.
    """
    source = _without_switches(without_comments(source), switches)
    parts, done = list[str](), 0
    holds: list[bool | None] = []  # of each open condition; None if unknown
    off = hidden = 0  # how many of them are false, and where the text that they hide begins
    for found in _CONDITION.finditer(source):
        mark, was_hidden = found.group(1), off > 0
        if mark.startswith("if"):
            known = switches.get(mark)
            holds.append(known)
            off += known is False
        elif not holds:
            continue
        else:
            known = holds.pop()
            off -= known is False
            if mark == "else":
                holds.append(None if known is None else not known)
                off += known is True
        if was_hidden or known is not None:
            parts += [] if was_hidden else [source[done : found.start()]]
            done = found.end()
        if off and not was_hidden:
            hidden = found.start()
    return "".join([*parts, source[hidden if off else done :]])


def _without_switches(source: str, switches: dict[str, bool | None]) -> str:
    """Return a text without what declares switches, and add these to the known ones.

    A switch may be set both ways if one place sets it within braces or a condition, such as in a
    macro that may not be called, or after its first use.
    """
    for found in _SWITCH.finditer(source):
        switches.setdefault(found["new"] or found["let"], None)
    source = _SWITCH.sub(lambda m: rf"\{m['let'][2:]}{m['as']}" if m["let"] else "", source)
    set_to: dict[str, set[bool]] = {}
    used = set[str]()
    depth = conditions = 0
    for found in _STEP.finditer(source) if _SETS.search(source) else ():
        mark, name = found["mark"], f"if{found['name']}"
        if mark == "fi":
            conditions = max(0, conditions - 1)
        elif mark and mark != "else":
            conditions += 1
            used |= {mark} if not depth else set()
        elif name in switches:
            sure = not depth and not conditions and name not in used
            set_to.setdefault(name, set()).update({found["to"] == "true"} if sure else _BOTH)
        else:
            depth = max(0, depth + {"{": 1, "}": -1}.get(found.group(), 0))
    for name, values in set_to.items():
        either = values | {switches[name]} - {None}
        switches[name] = either.pop() if len(either) == 1 else None
    return source


def _body(source: str) -> str:
    """Return an included file; a complete document is reduced to its macros and its body."""
    begin, ends = BEGIN.search(source), list(END.finditer(source))
    own = _CLASS.search(source, 0, begin.start()) if begin and ends else None
    if begin is None or own is None or _TEXT.search(source, 0, own.start()):
        return source
    head, body = source[: begin.start()], source[begin.end() : ends[-1].start()]
    return only_definitions(head) + body


def mains(files: Files) -> list[str]:
    """Return the names of a project's main files, the likeliest first."""
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
