"""Parts: Arrow files of bounded size, written atomically and read by memory mapping.

Also here: `library.json`, which names the parts of an edition, and the records of replaced files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import ValidationError

from hpcscientist.errors import LibraryError
from hpcscientist.files.hashing import hash_file
from hpcscientist.literature.library import schema as schemas
from hpcscientist.literature.library.ledger import RowsFile
from hpcscientist.literature.library.paths import LibraryPaths, make_folder, write_file
from hpcscientist.literature.library.schema import VERSION
from hpcscientist.records.base import Record

# Replaced files, and how long they stay for processes that have them open.
#
# A process that opened a library keeps using the files that were named then, a campaign for days,
# however often the library is built meanwhile. So replaced files stay for a time, and readers need
# not hold them open: on NFS that would not keep a file that another machine removes, and the kernel
# would kill a process that had mapped it. A record lists the files of one edition; its modification
# time, by the file server's clock, is when they were replaced.

DAYS = 14


def retire(paths: LibraryPaths, files: Iterable[str]) -> None:
    """Record that files, named relative to the library's folder, are about to be replaced.

    Call it before the replacement, so that a build that is killed in between loses no record.
    Raises DiskFull and LibraryError.
    """
    names = sorted(files)
    make_folder(paths.superseded)
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
    write_file(paths.superseded / f"{digest}.json", (json.dumps(names, indent=0) + "\n").encode())


def kept(paths: LibraryPaths) -> set[str]:
    """Return the files that were replaced in the last `DAYS` days, and remove older records.

    Raises LibraryError if the records cannot be read.
    """
    found: set[str] = set()
    try:
        for record in _records(paths):
            if time.time() - record.stat().st_mtime > DAYS * 86_400:
                record.unlink()
                continue
            with contextlib.suppress(ValueError, TypeError):  # damaged
                found.update(map(str, json.loads(record.read_bytes())))
    except OSError as error:
        raise LibraryError(f"{paths.superseded}: cannot be read: {error.strerror}") from error
    return found


def forget(paths: LibraryPaths) -> None:
    """Remove all records, so that no replaced file is kept any longer."""
    for record in _records(paths):
        record.unlink(missing_ok=True)


def is_replaced(paths: LibraryPaths) -> LibraryError:
    """Return the error for a reader whose files were replaced and then removed."""
    return LibraryError(
        f"{paths.root}: was built again, and what this process had opened is not kept any more: "
        "start it again; a campaign goes on with `hpcsci resume`"
    )


def _records(paths: LibraryPaths) -> list[Path]:
    return sorted(paths.superseded.iterdir()) if paths.superseded.is_dir() else []


# library.json: the contents of a library and its files; written last.

FORMAT = "hpcscientist library"


class PlacedPart(Record):
    """A part and the position of its first row."""

    first: int
    part: RowsFile


class LibraryContents(Record):
    """The contents of a library.

    `shown_papers` and `shown_symbols` list the positions that count: not rows that were replaced,
    removed, or merged with others. `ids` finds a paper by the hash of any of its ids. `built_with`
    is this package's version.
    """

    format: Literal["hpcscientist library"] = "hpcscientist library"
    schema_version: int = VERSION
    edition: int
    papers: int
    symbols: int
    formulas: int
    sources: int
    fingerprint: str
    paper_parts: tuple[PlacedPart, ...]
    symbol_parts: tuple[PlacedPart, ...]
    shown_papers: RowsFile
    shown_symbols: RowsFile
    ids: RowsFile
    built_with: str

    def files(self) -> Iterator[RowsFile]:
        """Yield every Arrow file of the library, without those of the indexes."""
        yield from (placed.part for placed in (*self.paper_parts, *self.symbol_parts))
        yield from self.lists

    @property
    def lists(self) -> tuple[RowsFile, ...]:
        """The files that point to papers: a flipped bit in them would point to other papers."""
        return self.shown_papers, self.shown_symbols, self.ids


def read_contents(paths: LibraryPaths) -> LibraryContents | None:
    """Return the contents of a library; None if no build of it has finished yet.

    Raises LibraryError if the file is damaged, not a library's, or of a newer version.
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
        return LibraryContents.model_validate_json(json.dumps(found))
    except ValidationError as error:
        raise LibraryError(
            f"{paths.contents}: damaged: remove {paths.root} and build it again"
        ) from error


def refuse_newer(paths: LibraryPaths, version: object) -> None:
    """Raise LibraryError if a library has a newer version than this package knows."""
    if isinstance(version, int) and version > VERSION:
        raise LibraryError(
            f"{paths.root}: written with library schema {version}, this hpcscientist reads up to "
            f"{VERSION}: upgrade hpcscientist"
        )


def is_whole(paths: LibraryPaths, part: RowsFile) -> bool:
    """Return whether a part exists with its full size; its content is not checked."""
    try:
        return paths.file(part.file).stat().st_size == part.size
    except OSError:
        return False


def changed(paths: LibraryPaths, contents: LibraryContents) -> RowsFile | None:
    """Return a part that is incomplete, or a list whose hash is wrong; None if all are sound."""
    for part in contents.files():
        try:
            if not is_whole(paths, part) or (
                part in contents.lists and hash_file(paths.file(part.file)) != part.sha256
            ):
                return part
        except OSError:
            return part
    return None


_OPEN = 200  # parts open at once: each takes a file descriptor

Positions = npt.NDArray[np.int64]


def write_part(paths: LibraryPaths, file: str, schema: Any, batches: Sequence[bytes]) -> RowsFile:
    """Write record batches, encoded without their schema, as a part. Raises DiskFull."""
    sink, rows = pa.BufferOutputStream(), 0
    with pa.ipc.new_file(sink, schema) as writer:
        for data in batches:
            batch = pa.ipc.read_record_batch(pa.py_buffer(data), schema)
            writer.write_batch(batch)
            rows += batch.num_rows
    content = sink.getvalue()
    write_file(paths.file(file), content)
    digest = hashlib.sha256(content).hexdigest()
    return RowsFile(file=file, rows=rows, size=content.size, sha256=digest)


class Rows:
    """The rows of several parts, by position. Any thread may read.

    `parts` are pairs of the position of the first row and the part, in ascending order.
    """

    def __init__(
        self, paths: LibraryPaths, parts: Sequence[tuple[int, RowsFile]], schema: Any
    ) -> None:
        self._paths, self._parts, self._schema = paths, list(parts), schema
        self._starts = [first for first, _ in self._parts]
        self._open: dict[int, _Mapped] = {}
        self._lock = threading.Lock()

    def row(self, position: int) -> dict[str, Any]:
        """Return one row. Raises LookupError for a position that no part holds."""
        number = bisect_right(self._starts, position) - 1
        if number < 0 or position >= self._starts[number] + self._parts[number][1].rows:
            raise LookupError(position)
        batch, offset = self._mapped(number).locate(position - self._starts[number])
        row: dict[str, Any] = batch.slice(offset, 1).to_pylist()[0]
        return row

    def batches(self) -> Iterator[tuple[int, Any]]:
        """Yield all record batches, each after the position of its first row."""
        for number, start in enumerate(self._starts):
            for offset, batch in self._mapped(number, keep=False).batches():
                yield start + offset, batch

    def between(self, first: int, last: int) -> Iterator[tuple[int, Any]]:
        """Yield like `batches`, but only batches with rows from position `first` to `last`."""
        for number, start in enumerate(self._starts):
            if start <= last and first < start + self._parts[number][1].rows:
                for offset, batch in self._mapped(number).batches(first - start, last - start):
                    yield start + offset, batch

    def _mapped(self, number: int, keep: bool = True) -> _Mapped:
        with self._lock:
            mapped = self._open.get(number)
            if mapped is None:
                mapped = self._opened(self._parts[number][1])
                if keep:
                    if len(self._open) >= _OPEN:
                        del self._open[next(iter(self._open))]
                    self._open[number] = mapped
            return mapped

    def _opened(self, part: RowsFile) -> _Mapped:
        path = self._paths.file(part.file)
        try:
            return _Mapped(path, part, self._schema)
        except LibraryError as error:
            now = read_contents(self._paths)
            if path.exists() or now is None or part in now.files():
                raise
            raise is_replaced(self._paths) from error


class _Mapped:
    """One part, mapped into memory. Raises LibraryError if it is damaged."""

    def __init__(self, path: Path, part: RowsFile, schema: Any) -> None:
        self._path = path
        try:
            self._reader = pa.ipc.open_file(pa.memory_map(str(path)))
            found = self._reader.schema
            if schemas.version_of(found) != schemas.VERSION or not found.equals(schema):
                raise damaged(path, ValueError("not a part of a library of this version"))
            count = self._reader.num_record_batches
            sizes = [self._reader.get_batch(number).num_rows for number in range(count)]
        except (pa.ArrowException, OSError) as error:
            raise damaged(path, error) from error
        self._starts = [0, *np.cumsum(sizes).tolist()]
        self._last: tuple[int, Any] = (-1, None)
        if self._starts[-1] != part.rows:
            raise damaged(path, ValueError("rows are missing"))

    def locate(self, row: int) -> tuple[Any, int]:
        number = bisect_right(self._starts, row) - 1
        last, batch = self._last
        if last != number:  # successive reads often are in the same batch
            batch = self._batch(number)
            self._last = number, batch
        return batch, row - self._starts[number]

    def batches(self, first: int = 0, last: int | None = None) -> Iterator[tuple[int, Any]]:
        for number, (start, end) in enumerate(pairwise(self._starts)):
            if last is None or (start <= last and first < end):
                yield start, self._batch(number)

    def _batch(self, number: int) -> Any:
        try:
            batch = self._reader.get_batch(number)
            batch.validate(full=True)  # else a wrong offset would read memory out of bounds
        except (pa.ArrowException, OSError) as error:
            raise damaged(self._path, error) from error
        return batch


def damaged(path: Path, error: Exception) -> LibraryError:
    """Return the error for a damaged file, with the fix."""
    why = " ".join(str(error).split())
    return LibraryError(
        f"{path}: damaged ({why}); remove that file, then the same `hpcsci library build` fixes it"
    )


def distinct(numbers: Positions) -> Positions:
    """Return numbers in ascending order, each once.

    `np.unique` would import masked arrays to check for them, which takes longer.
    """
    ordered = np.sort(numbers)
    new = np.ones(len(ordered), dtype=np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    return ordered[new]


def column(batch: Any, name: str) -> npt.NDArray[Any]:
    """Return a column of numbers without nulls.

    Numbers are read in place from Arrow's buffer: in a reader process, Arrow was imported without
    NumPy.
    """
    found = batch.column(name)
    if pa.types.is_boolean(found.type):  # packed, eight per byte
        bits: npt.NDArray[Any] = found.to_numpy(zero_copy_only=False)
        return bits
    kind = np.dtype(str(found.type))
    if not len(found):
        return np.empty(0, dtype=kind)
    data = found.buffers()[1]
    return np.frombuffer(data, kind, len(found), found.offset * kind.itemsize)


def as_column(numbers: npt.NDArray[Any]) -> Any:
    """Return numbers as a column. Arrow's own conversion would import NumPy's masked arrays."""
    data = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, data])


def lists(batch: Any, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return a column of lists as the concatenated values and the length of each list."""
    found, offsets = batch.column(name).values, _offsets(batch, name)
    return found.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]], np.diff(offsets)


def lengths(batch: Any, name: str) -> npt.NDArray[np.int64]:
    """Return the length of each list of a column."""
    return np.diff(_offsets(batch, name))


def _offsets(batch: Any, name: str) -> npt.NDArray[np.int64]:
    """Return where each list begins, and where the last one ends.

    Arrow's own list functions take longer to import than building a small library takes.
    """
    found: npt.NDArray[Any] = batch.column(name).offsets.to_numpy(zero_copy_only=False)
    return found.astype(np.int64)
