"""What a service is, to who asks it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from pydantic import ValidationError

from hpcscientist.records.literature import Paper

R = TypeVar("R")
ServiceName = Literal["semantic_scholar", "arxiv", "openalex"]


class Unreadable(Exception):
    """An answer is not what the service documents: cut short, or not from it at all."""


class QueryRefused(Exception):
    """The service can do nothing with this one query."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of an answer, best first; `more` if there is another."""

    papers: tuple[Paper, ...]
    more: bool


class Service(Protocol):
    """One service. Pages count from 0 and hold `page_size` papers, `most` papers in all."""

    name: ServiceName
    base: str
    headers: Mapping[str, str]
    secrets: Mapping[str, str]  # parameters that are shown nowhere
    interval_s: float
    page_size: int
    most: int
    key_variable: str

    def request(self, query: str, page: int) -> tuple[str, dict[str, str]]:
        """Return path and parameters that ask for a page."""
        ...

    def read(self, body: bytes, page: int) -> Page:
        """Read what was answered. Raises Unreadable and QueryRefused."""
        ...


def words_of(query: str) -> list[str]:
    """Return the words of a query, without what any service takes for its query syntax."""
    return re.findall(r"[^\W_]+(?:['’.+#-]+[^\W_]+)*[+#]*", query)


def json_object(body: bytes) -> dict[str, Any]:
    """Read a JSON object. Raises Unreadable."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"its answer is no JSON ({type(error).__name__})") from None
    if not isinstance(found, dict):
        raise Unreadable("its answer is no JSON object")
    return found


def listed(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the records that an answer lists under a name. Raises Unreadable."""
    value = found.get(name)
    if not isinstance(value, list):
        raise Unreadable(f"its answer holds no list {name!r}")
    return [record for record in value if isinstance(record, dict)]


def count(value: object) -> int:
    """Return a total that an answer names. Raises Unreadable."""
    try:
        total = int(str(value))
    except ValueError:
        raise Unreadable("its answer names no total") from None
    return max(0, total)


def online_papers(records: Iterable[R], read: Callable[[R], object]) -> tuple[Paper, ...]:
    """Return the papers that a reader makes of an answer's records; what is none is left out."""
    papers = []
    for record in records:
        try:
            found = read(record)
        except ValidationError:
            continue
        if isinstance(found, Paper):
            papers.append(found.model_copy(update={"source": "online"}))
    return tuple(papers)
