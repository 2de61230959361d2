"""Reads JSON Lines: one record per line, as in the bulk files of the large indexes.

The reply of a web API works too, on one line or many, up to the size limit of a line: a list of
records, or an object that has them under "data" or "results".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hpcscientist.literature.sources import lines
from hpcscientist.literature.sources.base import Abstract, Item, Trouble, trouble
from hpcscientist.records.literature import Paper

TOLD = 20
_GAP = re.compile(r"[\s\[\],\x1e]*")  # around records in an array, or in a JSON text sequence
_DECODER = json.JSONDecoder(strict=False)
_WRAPPERS = ("data", "results", "papers", "recommendedPapers")


class FoundRecord(NamedTuple):
    """A record and its place in the file, or in the content of a gzip file, as text for users."""

    place: str
    value: dict[str, Any]


class Complaints:
    """Reports Troubles of one source: the first of each reason one by one, the rest as a count."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._counts: dict[str, int] = {}

    def of(self, place: str, reason: str, detail: str = "") -> Iterator[Trouble]:
        """Yield the Trouble, unless this reason was already reported TOLD times."""
        self._counts[reason] = count = self._counts.get(reason, 0) + 1
        if count <= TOLD:
            yield trouble(place, f"{reason}: {detail}" if detail else reason)

    def rest(self) -> Iterator[Trouble]:
        """Yield for each reason how many Troubles were not reported."""
        for reason, count in sorted(self._counts.items()):
            if count > TOLD:
                yield trouble(self._origin, f"{reason}: {count - TOLD} more like that")


def read_items(
    path: Path,
    origin: str,
    make: Callable[[dict[str, Any], str], Paper | Abstract | str],
    start: int = 0,
    end: int | None = None,
) -> Iterator[Item]:
    """Yield the items that `make` returns for records whose lines begin at bytes [start, end).

    `make` gets a record and the origin. If it returns a text, that is why the record gives no item.
    Raises OSError.
    """
    complaints = Complaints(origin)
    for found in read_records(path, origin, start, end):
        if isinstance(found, Trouble):
            yield found
            continue
        item = make(found.value, origin)
        if isinstance(item, str):
            yield from complaints.of(found.place, item)
        else:
            yield item
    yield from complaints.rest()


def read_records(
    path: Path, origin: str, start: int = 0, end: int | None = None
) -> Iterator[FoundRecord | Trouble]:
    """Yield the records whose lines begin at bytes [start, end). Raises OSError."""
    whole = _one_document(path, origin) if start == 0 else None
    if whole is not None:
        for number, value in enumerate(unwrapped(whole), 1):
            yield FoundRecord(f"{origin}: record {number}", value)
        return
    complaints = Complaints(origin)
    array = False  # an array that is longer than a line may be, with one record per line
    for line in lines.read_lines(path, origin, start, end):
        if isinstance(line, Trouble):
            yield line
            continue
        bare = line.text.strip()
        array = array or (line.start == 0 and bare.startswith("["))
        if bare and not (array and bare in "[]"):
            place = f"{origin}: byte {line.start}" if line.start else f"{origin}:{line.number}"
            yield from _of_line(line.text, place, complaints)
    yield from complaints.rest()


def _of_line(text: str, place: str, complaints: Complaints) -> Iterator[FoundRecord | Trouble]:
    value, problem = parse(text)
    values = [value] if not problem else _amid(text)
    if problem and not values:
        yield from complaints.of(
            place, "not a line of JSON, one record a line is expected", problem
        )
    for one in values:
        yield from (FoundRecord(place, record) for record in unwrapped(one))
        if not isinstance(one, list | dict):
            yield from complaints.of(place, "not an object of JSON")


def _amid(text: str) -> list[Any]:
    """Return the values of a line that is part of an array or has several; [] if damaged."""
    found: list[Any] = []
    at = 0
    try:
        while (at := _after_gap(text, at)) < len(text):
            value, at = _DECODER.raw_decode(text, at)
            found.append(value)
    except (ValueError, RecursionError):
        return []
    return found


def _after_gap(text: str, at: int) -> int:
    found = _GAP.match(text, at)
    return found.end() if found else at


def parse(text: str) -> tuple[Any, str]:
    """Return a JSON value and "", or None and the problem."""
    try:
        return json.loads(text, strict=False), ""
    except ValueError as error:
        return None, str(error)
    except RecursionError:
        return None, "nested too deeply"


def first_value(head: str) -> Any:
    """Return the value of the first non-empty line; None if it is damaged or cut off."""
    for line in head.split("\n"):
        if line.strip():
            return parse(line)[0]
    return None


def unwrapped(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the records in a value: itself, or those in a list or in an API's reply."""
    if isinstance(value, dict):
        inner = next((value[k] for k in _WRAPPERS if isinstance(value.get(k), list)), None)
        if inner is None or "title" in value:
            yield value
            return
        value = inner
    if isinstance(value, list):
        yield from (v for v in value if isinstance(v, dict))


def _one_document(path: Path, origin: str) -> Any:
    """Return the value of a file with one value over several lines; None for any other file."""
    found = lines.read_lines(path, origin)
    first = next((i.text for i in found if isinstance(i, lines.TextLine) and i.text.strip()), "")
    found.close()
    if not first.lstrip().startswith(("{", "[")) or not parse(first)[1]:
        return None
    try:
        return parse(lines.read_text(path)[0])[0]
    except OSError:  # too long; a real disk error occurs again when lines are read, and is reported
        return None
