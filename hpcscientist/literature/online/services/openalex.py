"""OpenAlex: search among works (developers.openalex.org).

It allows a hundred requests a second and counts them by the day: a few without a key, a
thousand searches with one, which is free. An address in HPCSCI_MAILTO says who asks.
"""

from __future__ import annotations

from collections.abc import Mapping

from hpcscientist.literature.online.services.base import (
    Page,
    ServiceName,
    Unreadable,
    count,
    json_object,
    listed,
    online_papers,
    words_of,
)
from hpcscientist.literature.sources.records.openalex import paper_of

_SELECT = (
    "id,doi,display_name,publication_year,authorships,primary_location,locations,"
    "abstract_inverted_index,cited_by_count,referenced_works"
)


class OpenAlex:
    """The adapter to OpenAlex."""

    name: ServiceName = "openalex"
    interval_s = 0.2  # far below what is allowed; nothing here needs more
    page_size = 50
    most = 1000
    key_variable = "HPCSCI_OPENALEX_API_KEY"

    def __init__(self, environment: Mapping[str, str]) -> None:
        key = environment.get(self.key_variable, "").strip()
        self.base = environment.get("HPCSCI_OPENALEX_URL") or "https://api.openalex.org"
        self.headers: Mapping[str, str] = {}
        own = {"api_key": key, "mailto": environment.get("HPCSCI_MAILTO", "").strip()}
        self.secrets: Mapping[str, str] = {name: value for name, value in own.items() if value}

    def request(self, query: str, page: int) -> tuple[str, dict[str, str]]:
        """Return path and parameters that ask for a page."""
        return "/works", {
            "search": " ".join(words_of(query)),  # in lower case: no AND, OR, NOT
            "per_page": str(self.page_size),
            "page": str(page + 1),
            "select": _SELECT,
        }

    def read(self, body: bytes, page: int) -> Page:
        """Read what was answered. Raises Unreadable."""
        found = json_object(body)
        meta = found.get("meta")
        if not isinstance(meta, dict):
            raise Unreadable("its answer names no total")
        more = (page + 1) * self.page_size < min(count(meta.get("count")), self.most)
        works = listed(found, "results")
        return Page(online_papers(works, lambda work: paper_of(work, self.name)), more)
