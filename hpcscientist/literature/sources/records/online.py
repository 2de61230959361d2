"""Reads the papers that `hpcsci library fetch` wrote: one of this package's records per line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from hpcscientist.literature.sources.base import Item, Trouble
from hpcscientist.literature.sources.records.jsonl import Complaints, read_records
from hpcscientist.records.literature import Paper


def read(path: Path, origin: str, start: int = 0, end: int | None = None) -> Iterator[Item]:
    """Yield the papers of a file, or of its lines that begin at bytes [start, end)."""
    complaints = Complaints(origin)
    for found in read_records(path, origin, start, end):
        if isinstance(found, Trouble):
            yield found
            continue
        try:
            yield Paper.model_validate({**found.value, "source": "online"}, strict=False)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            yield from complaints.of(found.place, "no paper as fetched", f"{where}: {first['msg']}")
    yield from complaints.rest()
