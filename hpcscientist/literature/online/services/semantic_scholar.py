"""Semantic Scholar: the Academic Graph API's relevance search (api.semanticscholar.org/api-docs).

Without a key all users share one pool of requests, and HTTP 429 is common; with one it is one
request a second. Words with a hyphen find nothing there, so hyphens become spaces.
"""

from __future__ import annotations

from collections.abc import Mapping

from hpcscientist.literature.online.services.base import (
    Page,
    ServiceName,
    count,
    json_object,
    listed,
    online_papers,
    words_of,
)
from hpcscientist.literature.sources.records.semantic_scholar import item_of

_FIELDS = "title,abstract,authors,year,venue,externalIds,url,citationCount"


class SemanticScholar:
    """The adapter to Semantic Scholar."""

    name: ServiceName = "semantic_scholar"
    interval_s = 1.0
    page_size = 50
    most = 1000
    key_variable = "HPCSCI_S2_API_KEY"

    def __init__(self, environment: Mapping[str, str]) -> None:
        key = environment.get(self.key_variable, "").strip()
        self.base = environment.get("HPCSCI_S2_URL") or "https://api.semanticscholar.org/graph/v1"
        self.headers: Mapping[str, str] = {"x-api-key": key} if key else {}
        self.secrets: Mapping[str, str] = {}

    def request(self, query: str, page: int) -> tuple[str, dict[str, str]]:
        """Return path and parameters that ask for a page."""
        return "/paper/search", {
            "query": " ".join(words_of(query.replace("-", " "))),
            "offset": str(page * self.page_size),
            "limit": str(self.page_size),
            "fields": _FIELDS,
        }

    def read(self, body: bytes, page: int) -> Page:
        """Read what was answered. Raises Unreadable."""
        found = json_object(body)
        total = min(count(found.get("total")), self.most)
        if total == 0:  # it names no list then
            return Page((), more=False)
        more = (page + 1) * self.page_size < total
        records = listed(found, "data")
        return Page(online_papers(records, lambda record: item_of(record, self.name)), more)
