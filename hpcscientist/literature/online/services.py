"""The supported services, one class each: how to request a page, and how to parse the reply."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from pydantic import ValidationError

from hpcscientist.literature.sources import text
from hpcscientist.literature.sources.records.arxiv import item_of as arxiv_item
from hpcscientist.literature.sources.records.openalex import paper_of
from hpcscientist.literature.sources.records.semantic_scholar import item_of
from hpcscientist.records.literature import Paper

# The interface of a service, and helpers for all services.

R = TypeVar("R")
ServiceName = Literal["semantic_scholar", "arxiv", "openalex"]


class UnreadableReply(Exception):
    """Raised if a reply is not as the service documents it: cut short, or from something else."""


class QueryRefused(Exception):
    """Raised if the service rejects this one query."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of search results, best first; `more` if there is another page."""

    papers: tuple[Paper, ...]
    more: bool


class Service(Protocol):
    """One service. Pages count from 0 and have `page_size` papers, at most `most` in total."""

    name: ServiceName
    base: str
    headers: Mapping[str, str]
    secrets: Mapping[str, str]  # parameters that are never shown
    interval_s: float
    page_size: int
    most: int
    key_variable: str

    def request(self, query: str, page: int) -> tuple[str, dict[str, str]]:
        """Return path and parameters of the request for a page."""
        ...

    def read(self, body: bytes, page: int) -> Page:
        """Parse a reply. Raises Unreadable and QueryRefused."""
        ...


def words_of(query: str) -> list[str]:
    """Return the words of a query, without anything that is query syntax for some service."""
    return re.findall(r"[^\W_]+(?:['’.+#-]+[^\W_]+)*[+#]*", query)


def json_object(body: bytes) -> dict[str, Any]:
    """Parse a JSON object. Raises Unreadable."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UnreadableReply(f"its answer is no JSON ({type(error).__name__})") from None
    if not isinstance(found, dict):
        raise UnreadableReply("its answer is no JSON object")
    return found


def listed(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the records that a reply lists under a name. Raises Unreadable."""
    value = found.get(name)
    if not isinstance(value, list):
        raise UnreadableReply(f"its answer holds no list {name!r}")
    return [record for record in value if isinstance(record, dict)]


def count(value: object) -> int:
    """Return a total in a reply. Raises Unreadable."""
    try:
        total = int(str(value))
    except ValueError:
        raise UnreadableReply("its answer names no total") from None
    return max(0, total)


def online_papers(records: Iterable[R], read: Callable[[R], object]) -> tuple[Paper, ...]:
    """Return the papers that `read` makes from a reply's records; other results are left out."""
    papers = []
    for record in records:
        try:
            found = read(record)
        except ValidationError:
            continue
        if isinstance(found, Paper):
            papers.append(found.model_copy(update={"source": "online"}))
    return tuple(papers)


# arXiv: the query API, which replies in Atom (info.arxiv.org/help/api/user-manual.html).
#
# One request every three seconds, one connection at a time (terms of use). A paper's record must
# contain all words; only the first few are sent, or no paper would match. The replies are untrusted
# XML: a document type, and with it every entity, is refused.

_ATOM = "{http://www.w3.org/2005/Atom}"
_TOTAL = "{http://a9.com/-/spec/opensearch/1.1/}totalResults"
_WORDS = 6
_DEPTH = 50
# Words that arXiv treats as operators, or that are in every abstract.
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
        """Return path and parameters of the request for a page."""
        words = words_of(query)
        kept = list(dict.fromkeys(w for w in words if w not in _COMMON.split())) or words
        return "/query", {
            # Quotes make arXiv search a word with a hyphen or point as it is.
            "search_query": " AND ".join(f'all:"{word}"' for word in kept[:_WORDS]),
            "start": str(page * self.page_size),
            "max_results": str(self.page_size),
            "sortBy": "relevance",
            "sortOrder": "descending",
        }

    def read(self, body: bytes, page: int) -> Page:
        """Parse a reply. Raises Unreadable and QueryRefused."""
        feed = _parsed(body)
        if feed.tag != f"{_ATOM}feed":
            raise UnreadableReply("its answer is no Atom feed")
        entries = feed.findall(f"{_ATOM}entry")
        for entry in entries:
            if "/api/errors" in _text(entry, f"{_ATOM}id"):
                raise QueryRefused(_text(entry, f"{_ATOM}summary"))
        total = min(count(_text(feed, _TOTAL)), self.most)
        if not entries and page * self.page_size < total:
            raise UnreadableReply(
                "its answer is empty though it names hits"
            )  # arXiv does this at times
        return Page(
            online_papers(entries, lambda entry: arxiv_item(entry, self.name)),
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
            raise UnreadableReply("its answer is nested too deeply")
        builder.start(_clark(name), attributes)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(_clark(name))

    def doctype(*_: object) -> None:
        raise UnreadableReply("its answer has a document type, which could hold anything")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(body, True)
        root = builder.close()
    except (expat.ExpatError, ValueError, LookupError, AssertionError) as error:
        raise UnreadableReply(f"its answer is no XML ({type(error).__name__})") from None
    if not isinstance(root, Element):
        raise UnreadableReply("its answer is no XML")
    return root


def _clark(name: str) -> str:
    """Return an expat name with its namespace in ElementTree's notation: {namespace}name."""
    return re.sub(r"^(?=.*\})", "{", name)


# OpenAlex: search among works (developers.openalex.org).
#
# It allows a hundred requests a second, and limits them per day: a few without a key, a thousand
# searches with one, which is free. The address in HPCSCI_MAILTO identifies the user.

_SELECT = (
    "id,doi,display_name,publication_year,authorships,primary_location,locations,"
    "abstract_inverted_index,cited_by_count,referenced_works"
)


class OpenAlex:
    """The adapter to OpenAlex."""

    name: ServiceName = "openalex"
    interval_s = 0.2  # five requests a second: far below the limit, and enough
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
        """Return path and parameters of the request for a page."""
        return "/works", {
            "search": " ".join(words_of(query)),  # queries are in lower case: no AND, OR, NOT
            "per_page": str(self.page_size),
            "page": str(page + 1),
            "select": _SELECT,
        }

    def read(self, body: bytes, page: int) -> Page:
        """Parse a reply. Raises Unreadable."""
        found = json_object(body)
        meta = found.get("meta")
        if not isinstance(meta, dict):
            raise UnreadableReply("its answer names no total")
        more = (page + 1) * self.page_size < min(count(meta.get("count")), self.most)
        works = listed(found, "results")
        return Page(online_papers(works, lambda work: paper_of(work, self.name)), more)


# Semantic Scholar: the Academic Graph API's relevance search (api.semanticscholar.org/api-docs).
#
# Without a key, all users share one pool of requests, and HTTP 429 is common; with a key, the limit
# is one request a second. Words with a hyphen find nothing there, so hyphens become spaces.

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
        """Return path and parameters of the request for a page."""
        return "/paper/search", {
            "query": " ".join(words_of(query.replace("-", " "))),
            "offset": str(page * self.page_size),
            "limit": str(self.page_size),
            "fields": _FIELDS,
        }

    def read(self, body: bytes, page: int) -> Page:
        """Parse a reply. Raises Unreadable."""
        found = json_object(body)
        total = min(count(found.get("total")), self.most)
        if total == 0:  # the reply then has no list
            return Page((), more=False)
        more = (page + 1) * self.page_size < total
        records = listed(found, "data")
        return Page(online_papers(records, lambda record: item_of(record, self.name)), more)


NAMES: tuple[ServiceName, ...] = ("semantic_scholar", "arxiv", "openalex")


def service_named(name: ServiceName, environment: Mapping[str, str]) -> Service:
    """Return the adapter to a service, with its key and address from the environment."""
    match name:
        case "semantic_scholar":
            return SemanticScholar(environment)
        case "arxiv":
            return Arxiv(environment)
        case "openalex":
            return OpenAlex(environment)
