"""Finds the sources of a library in files and folders, in the same order every time.

Folders are walked in the order of their names. Hidden files, links that lead back, and anything
but regular files are left out. Only the names of one folder are in memory at a time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hpcscientist.errors import LibraryError
from hpcscientist.literature.sources import code, lines, sniff
from hpcscientist.literature.sources.base import PaperSource, Trouble, trouble
from hpcscientist.literature.sources.latex import files as latex_files
from hpcscientist.literature.sources.records import jsonl
from hpcscientist.literature.sources.text import shown

PART_BYTES = 64 * 2**20
_IMAGE = re.compile(r"\\includegraphics\*?\s*(?:\[[^\]]{0,500}\])?\s*\{([^{}\n]*)\}")
_IN_LINES = ("arxiv", "semantic_scholar", "openalex", "online")
_TOLD = 8


def inputs(paths: Iterable[Path]) -> Iterator[PaperSource | Trouble]:
    """Yield the sources below files and folders, and Troubles for everything else.

    Every source is one unit of work and is yielded once. A given file that is no source becomes a
    Trouble that lists the accepted types. So does an empty folder. A file in a folder becomes a
    Trouble if its name promises a type that it is not; all others are counted in one Trouble for
    the folder. Raises LibraryError, before it yields, if a path does not exist.
    """
    given = [Path(p) for p in paths]
    for path in given:
        try:
            path.stat()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise LibraryError(f"{shown(path)}: {why}; name a file or folder to read") from None
    return _all(given)


def _all(given: Sequence[Path]) -> Iterator[PaperSource | Trouble]:
    walk = _Walk()
    for path in given:
        yield from walk.below(path) if path.is_dir() else walk.named(path)


def divide(source: PaperSource, size: int = PART_BYTES) -> Iterator[PaperSource]:
    """Yield a line-based source in parts of about `size` bytes, any other source unchanged.

    The parts hold the same records as the source, in the same order. Raises OSError.
    """
    if not _divisible(source, size):
        yield source
        return
    total = source.path.stat().st_size
    for start in range(0, total, size):
        last = start + size >= total
        yield replace(source, start=start, end=None if last else start + size)


def _divisible(source: PaperSource, size: int) -> bool:
    if source.kind not in _IN_LINES or (source.start, source.end) != (0, None):
        return False
    if source.path.stat().st_size <= size or lines.is_gzip(source.path):
        return False
    with lines.open_plain(source.path) as file:
        if lines.wide_encoding(file.peek(sniff.HEAD_BYTES)):
            return False
        first = file.readline(lines.LINE_BYTES)
    return isinstance(jsonl.parse(lines.decode(first)[0])[0], dict)


@dataclass(frozen=True, slots=True)
class _Place:
    """A folder of the walk, and whether its code and LaTeX parts belong to a source above it.

    `figures` are the images in LaTeX documents of this folder and above, without suffix.
    """

    folder: Path
    code: bool = False
    latex: bool = False
    figures: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Walk:
    """The state of a walk: what was seen, so that nothing is read twice and no loop entered."""

    seen: set[tuple[int, int]] = field(default_factory=set)
    repositories: set[str] = field(default_factory=set)
    others: Counter[str] = field(default_factory=Counter)

    def named(self, path: Path) -> Iterator[PaperSource | Trouble]:
        """Yield the source for a file that was given itself, or a Trouble."""
        found: PaperSource | Trouble | str
        try:
            found = self._file(path) if path.is_file() else "no regular file"
        except OSError as error:
            found = f"cannot be read: {error.strerror or error}"
        if isinstance(found, str):
            found = trouble(shown(path), f"{found}; accepted are {sniff.ACCEPTED}")
        yield found

    def below(self, top: Path) -> Iterator[PaperSource | Trouble]:
        """Yield the sources below a folder, then a Trouble that counts the files left out."""
        pending, empty = [_Place(top)], True
        self.others.clear()
        while pending:
            place = pending.pop()
            try:
                if not self._first_time(place.folder):
                    empty = False
                    continue
                for found in self._folder(top, place, pending):
                    empty = False
                    yield found
            except OSError as error:
                empty = False
                yield trouble(shown(place.folder), f"cannot be read: {error.strerror or error}")
        if empty and not self.others:
            yield trouble(shown(top), f"a folder with nothing in it; accepted are {sniff.ACCEPTED}")
        elif self.others:
            yield trouble(shown(top), _left_out(self.others))

    def _first_time(self, folder: Path) -> bool:
        status = folder.stat()
        known = (status.st_dev, status.st_ino) in self.seen
        self.seen.add((status.st_dev, status.st_ino))
        return not known

    def _folder(
        self, top: Path, place: _Place, pending: list[_Place]
    ) -> Iterator[PaperSource | Trouble]:
        found = code.listing(place.folder)
        if "pyvenv.cfg" in found.files:
            return
        mains = [n for n in found.files if _is_latex(n) and _is_main(place.folder / n)]
        root = found.cloned or (found.project and not place.code)
        coded = root and code.has_code(place.folder)
        script = not place.code and any(n.endswith(code.PYTHON) for n in found.files)
        if coded or script:
            yield PaperSource(place.folder, "code", self._repository(top, place.folder))
        if coded and not mains:  # other files in a repository are mostly test data
            return
        figures = place.figures.union(*(_figures(place.folder / n) for n in mains))
        inside = _Place(
            place.folder, place.code or coded or script, place.latex or bool(mains), figures
        )
        for name in found.files:
            yield from self._met(place.folder / name, inside)
        if found.odd:
            self.others["no regular file"] += found.odd
        pending += [replace(inside, folder=place.folder / n) for n in reversed(found.folders)]

    def _met(self, path: Path, place: _Place) -> Iterator[PaperSource | Trouble]:
        if path.suffix in code.PYTHON:
            return  # belongs to the code source of the folder
        try:
            found = self._file(path)
        except OSError as error:
            yield trouble(shown(path), f"cannot be read: {error.strerror or error}")
            return
        if isinstance(found, str) and (wrong := sniff.broken_promise(path, found)):
            yield trouble(shown(path), wrong)
        elif isinstance(found, str):
            self.others[found if not path.suffix else path.suffix.lower()] += 1
        elif found.kind == "pdf" and path.stem in place.figures:
            self.others["figures"] += 1
        elif found.kind != "latex" or not place.latex or _is_main(path):
            yield found

    def _file(self, path: Path) -> PaperSource | str:
        kind, what = sniff.kind_of(path)
        if kind is None:
            return what
        origin = path.absolute().parent.name if kind == "code" else shown(path)
        return PaperSource(path, kind, origin)

    def _repository(self, top: Path, folder: Path) -> str:
        """Return a repository's name: its path below the input, longer if that name is taken."""
        whole = folder.resolve()
        name = shown(folder.relative_to(top)) if folder != top else shown(Path(whole.name))
        if name in self.repositories:
            name = f"{shown(Path(top.resolve().name))}/{name}" if folder != top else ""
        if not name or name in self.repositories:
            name = shown(whole.relative_to(whole.anchor))
        self.repositories.add(name)
        return name


def _is_latex(name: str) -> bool:
    return name.lower().endswith(sniff.LATEX_SUFFIXES)


def _figures(main: Path) -> frozenset[str]:
    """Return the names of the images in a LaTeX document, without folder and suffix."""
    text, _ = latex_files.flattened(latex_files.FolderFiles(main.parent), main.name)
    names = (found.group(1).strip() for found in _IMAGE.finditer(text))
    return frozenset(Path(n.removesuffix(".pdf")).name for n in names if n)


def _is_main(path: Path) -> bool:
    try:
        return sniff.is_main(path)
    except OSError:
        return False


def _left_out(others: Counter[str]) -> str:
    most = sorted(others.items(), key=lambda item: (-item[1], item[0]))
    told = ", ".join(f"{count} {what}" for what, count in most[:_TOLD] if count)
    more = ", …" if len(most) > _TOLD else ""
    return f"{others.total()} other files left out ({told}{more}); accepted are {sniff.ACCEPTED}"
