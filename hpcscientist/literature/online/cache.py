"""The cache of services' replies, kept for good, so that the same query is asked only once ever.

Each reply is one small file, named by the hash of service, query and page. It is written under a
temporary name, renamed, and never changed. So any number of processes may share a folder without
locks, on NFS too. The cache stores parsed replies instead of raw ones: they are clean, and a replay
does not depend on how a later version parses.
"""

from __future__ import annotations

import hashlib
import json
import threading
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from hpcscientist.files.atomic import write_atomic
from hpcscientist.records.base import Record
from hpcscientist.records.literature import Paper

VERSION = 1
_QUERY = 400  # characters


class CachedPage(Record):
    """One page of a service's reply, best first; `more` if there is another page."""

    version: int = VERSION
    service: str
    query: str
    page: int
    papers: tuple[Paper, ...]
    more: bool


def normalised(words: str) -> str:
    """Return a query in the form that is sent: case folded, single spaces, NFKC, cut at a word."""
    kept = "".join(c if c.isprintable() else " " for c in words[: 10 * _QUERY])
    folded = " ".join(unicodedata.normalize("NFKC", kept).casefold().split())
    if len(folded) > _QUERY:
        folded = folded[: _QUERY + 1].rpartition(" ")[0] or folded[:_QUERY]
    return folded


def key(service: str, query: str, page: int) -> str:
    """Return the name under which a reply is stored."""
    return hashlib.sha256(json.dumps([VERSION, service, query, page]).encode()).hexdigest()


class Cache:
    """A folder of stored replies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, service: str, query: str, page: int) -> CachedPage | None:
        """Return a stored reply; None if there is none, or its file is damaged."""
        found = _read(self._path(service, query, page))
        if found is None or (found.service, found.query, found.page) != (service, query, page):
            return None
        return found

    def put(self, answered: CachedPage) -> None:
        """Store a reply. Raises OSError."""
        path = self._path(answered.service, answered.query, answered.page)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, answered.model_dump_json().encode())

    def holding(self, paper_id: str) -> Iterator[Paper]:
        """Yield the records of a paper in all replies, in the order of the file names."""
        wanted = json.dumps(paper_id, ensure_ascii=False).encode("utf-8", "replace")
        for path in sorted(self._folder.glob("*/??/*.json")):
            try:
                if wanted not in path.read_bytes():
                    continue
            except OSError:
                continue
            found = _read(path)
            for paper in found.papers if found else ():
                if paper.paper_id == paper_id:
                    yield paper

    def _path(self, service: str, query: str, page: int) -> Path:
        name = key(service, query, page)
        return self._folder / service / name[:2] / f"{name}.json"


class Misses:
    """The queries that a campaign could not get answered, one key per line of a file.

    A resumed campaign must find what it found before, even if a service is reachable again
    meanwhile, since its replies and ideas depend on that. If `path` is None, nothing is recorded.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._keys: set[str] = set()
        if path is not None and path.exists():
            self._keys = set(path.read_text(encoding="utf-8", errors="replace").split())

    def __contains__(self, name: str) -> bool:
        return name in self._keys

    def add(self, name: str) -> None:
        """Record the key of a query. Raises OSError."""
        if self._path is None:
            return
        with self._lock:
            if name in self._keys:
                return
            self._keys.add(name)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{name}\n")


def _read(path: Path) -> CachedPage | None:
    try:
        return CachedPage.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
