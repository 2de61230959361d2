"""Fetches papers from a service and writes them as a source of a local library."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from hpcscientist.errors import LibraryError, OutOfReach
from hpcscientist.files.atomic import write_atomic
from hpcscientist.literature.online.asking import Asker
from hpcscientist.literature.online.cache import normalised
from hpcscientist.literature.online.services import QueryRefused, words_of
from hpcscientist.ports import Tell
from hpcscientist.records.literature import Paper

_NAME = 40  # characters of the query in a file's name


def fetch(asker: Asker, words: str, limit: int, note: Tell) -> tuple[Paper, ...]:
    """Return at most `limit` papers that a service finds, the best first.

    If the service stops answering after the first page, the papers so far are returned and `note`
    is called. Raises OutOfReach, and LibraryError if the service cannot use the words.
    """
    service = asker.service
    if not words_of(normalised(words)):
        raise LibraryError(f"{words!r}: holds no words to search for; give some")
    found: list[Paper] = []
    wanted = min(limit, service.most)
    for page in range(-(-wanted // service.page_size)):
        try:
            answered = asker.ask(words, page)
        except QueryRefused as error:
            raise LibraryError(f"{service.name} refuses the query: {error}; word it anew") from None
        except OutOfReach as error:
            if not page:
                raise OutOfReach(
                    f"{service.name} is out of reach: {error}; see that this machine has internet, "
                    "or try again later; nothing was changed",
                    error.network,
                ) from None
            note(f"{service.name} gave {len(found)} papers, then no more: {error}")
            break
        found += answered.papers
        if not answered.more:
            break
    return tuple(found[:wanted])


def keep(papers: Sequence[Paper], folder: Path, service: str, words: str) -> Path:
    """Write papers as a source of a library, one JSON object per line; return the file.

    Each query has one file. A file that is already as large does not change. Raises OSError.
    """
    query = normalised(words)
    readable = re.sub(r"[^a-z0-9]+", "-", query)[:_NAME].strip("-")
    digest = hashlib.sha256(query.encode()).hexdigest()[:12]
    path = folder / f"{service}-{readable or 'query'}-{digest}.jsonl"
    data = "".join(f"{paper.model_dump_json()}\n" for paper in papers).encode()
    if not path.exists() or path.stat().st_size < len(data):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)
    return path
