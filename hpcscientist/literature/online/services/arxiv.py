"""arXiv: the query API, answered as Atom (info.arxiv.org/help/api/user-manual.html).

One request every three seconds, one connection at a time (terms of use). All words must be in a
paper's record; only the first few are asked for, or nothing would have them all. Its answers are
XML from outside: a document type, and with it every entity, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from hpcscientist.literature.online.services.base import (
    Page,
    QueryRefused,
    ServiceName,
    Unreadable,
    count,
    online_papers,
    words_of,
)
from hpcscientist.literature.sources import text
from hpcscientist.literature.sources.records.arxiv import item_of

_ATOM = "{http://www.w3.org/2005/Atom}"
_TOTAL = "{http://a9.com/-/spec/opensearch/1.1/}totalResults"
_WORDS = 6
_DEPTH = 50
# Taken for operators, or in every abstract.
_COMMON = "a an and andnot are as at by for from in is not of on or that the to using via with"


class Arxiv:
    """The adapter to arXiv."""

    name: ServiceName = "arxiv"
    interval_s = 3.0
    page_size = 50
    most = 1000
    key_variable = ""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.base = environment.get("HPCSCI_ARXIV_URL") or "https://export.arxiv.org/api"
        self.headers: Mapping[str, str] = {}
        self.secrets: Mapping[str, str] = {}

    def request(self, query: str, page: int) -> tuple[str, dict[str, str]]:
        """Return path and parameters that ask for a page."""
        words = words_of(query)
        kept = list(dict.fromkeys(w for w in words if w not in _COMMON.split())) or words
        return "/query", {
            # In quotes, a word with a hyphen or a point in it is looked for as it is.
            "search_query": " AND ".join(f'all:"{word}"' for word in kept[:_WORDS]),
            "start": str(page * self.page_size),
            "max_results": str(self.page_size),
            "sortBy": "relevance",
            "sortOrder": "descending",
        }

    def read(self, body: bytes, page: int) -> Page:
        """Read what was answered. Raises Unreadable and QueryRefused."""
        feed = _parsed(body)
        if feed.tag != f"{_ATOM}feed":
            raise Unreadable("its answer is no Atom feed")
        entries = feed.findall(f"{_ATOM}entry")
        for entry in entries:
            if "/api/errors" in _text(entry, f"{_ATOM}id"):
                raise QueryRefused(_text(entry, f"{_ATOM}summary"))
        total = min(count(_text(feed, _TOTAL)), self.most)
        if not entries and page * self.page_size < total:
            raise Unreadable("its answer is empty though it names hits")  # it does at times
        return Page(
            online_papers(entries, lambda entry: item_of(entry, self.name)),
            (page + 1) * self.page_size < total,
        )


def _text(element: Element, name: str) -> str:
    return text.one_line(element.findtext(name, ""))


def _parsed(body: bytes) -> Element:
    """Parse XML without a document type, not deeper than `_DEPTH`. Raises Unreadable."""
    builder = TreeBuilder()
    parser = expat.ParserCreate(namespace_separator="}")
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEPTH:
            raise Unreadable("its answer is nested too deeply")
        builder.start(_clark(name), attributes)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(_clark(name))

    def doctype(*_: object) -> None:
        raise Unreadable("its answer has a document type, which could hold anything")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(body, True)
        root = builder.close()
    except (expat.ExpatError, ValueError, LookupError, AssertionError) as error:
        raise Unreadable(f"its answer is no XML ({type(error).__name__})") from None
    if not isinstance(root, Element):
        raise Unreadable("its answer is no XML")
    return root


def _clark(name: str) -> str:
    """Return expat's name with its namespace as ElementTree writes it: {namespace}name."""
    return re.sub(r"^(?=.*\})", "{", name)
