"""A real HTTP server on loopback that answers as the three services do, and as badly as scripted.

The shapes are those of their public documentation: the Academic Graph API of Semantic Scholar
(paper/search), arXiv's query API (Atom), and OpenAlex (works).
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit
from xml.sax.saxutils import escape

Act = Callable[[socket.socket, "Imitation"], None]


@dataclass(frozen=True)
class Asked:
    path: str
    parameters: dict[str, str]
    headers: dict[str, str]


def raw(data: bytes) -> Act:
    """Send these bytes, whatever they are, and close."""

    def act(connection: socket.socket, server: Imitation) -> None:
        connection.sendall(data[:-1])
        server.leave(connection)  # who has the last byte may ask anew before we are told of it
        connection.sendall(data[-1:])

    return act


def answer(
    body: Any, status: int = 200, headers: dict[str, str] | None = None, missing: int = 0
) -> Act:
    """Send a body (JSON unless bytes); `missing` bytes are announced but never sent."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [
        f"HTTP/1.1 {status} X",
        f"Content-Length: {len(content) + missing}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
    ]
    return raw("\r\n".join(lines).encode() + b"\r\n\r\n" + content)


def hang(_: socket.socket, server: Imitation) -> None:
    """Say nothing, until the server closes."""
    server.closing.wait()


def trickle(start: bytes) -> Act:
    """Send one byte after the other, faster than any idle timeout, without an end."""

    def act(connection: socket.socket, server: Imitation) -> None:
        connection.sendall(start)
        while not server.closing.wait(0.005):
            connection.sendall(b"x")  # raises once the client has gone

    return act


def endless(_: bytes = b"") -> Act:
    """Send a body that does not end, as fast as it is read."""

    def act(connection: socket.socket, server: Imitation) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while not server.closing.is_set():
            connection.sendall(b" " * 65536)

    return act


@dataclass
class Imitation:
    """Use as `with Imitation() as server`. `script` holds one act a request; the last repeats.

    `routes` come first: an act for each request of a path.
    """

    script: list[Act] = field(default_factory=lambda: [answer({"total": 0, "offset": 0})])
    routes: dict[str, Act] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    active: set[socket.socket] = field(default_factory=set)
    most_active: int = 0
    closing: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def leave(self, connection: socket.socket) -> None:
        """Have a connection count as one that is answered. Idempotent."""
        with self._lock:
            self.active.discard(connection)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            head = b""
            while b"\r\n\r\n" not in head:
                data = connection.recv(65536)
                if not data:
                    return
                head += data
            with self._lock:
                asked = _asked(head.decode())
                scripted = self.script[min(len(self.asked), len(self.script) - 1)]
                act = self.routes.get(asked.path, scripted)
                self.asked.append(asked)
                self.active.add(connection)
                self.most_active = max(self.most_active, len(self.active))
            try:
                act(connection, self)
            except OSError:
                pass  # the client has gone
            finally:
                self.leave(connection)


def _asked(head: str) -> Asked:
    first, *lines = head.split("\r\n")
    target = urlsplit(first.split(" ")[1])
    pairs = (line.split(": ", 1) for line in lines if ": " in line)
    headers = {name.lower(): value for name, value in pairs}
    return Asked(target.path, dict(parse_qsl(target.query)), headers)


def s2(*papers: dict[str, Any], total: int | None = None, offset: int = 0) -> dict[str, Any]:
    """A page of Semantic Scholar's paper/search."""
    count = len(papers) if total is None else total
    page: dict[str, Any] = {"total": count, "offset": offset}
    if offset + len(papers) < count:
        page["next"] = offset + len(papers)
    return page | ({"data": list(papers)} if count else {})


def s2_paper(title: str = "Attention Is All You Need", **more: Any) -> dict[str, Any]:
    return {
        "paperId": "204e3073870fae3d05bcbc2f6a8e263d9b72e776",
        "externalIds": {"MAG": "2963403868", "DBLP": "conf/nips/VaswaniSPUJGKP17"}
        | {"ArXiv": "1706.03762", "CorpusId": 13756489},
        "url": "https://www.semanticscholar.org/paper/204e3073870fae3d05bcbc2f6a8e263d9b72e776",
        "title": title,
        "abstract": "The dominant sequence transduction models are based on recurrent networks.",
        "venue": "Neural Information Processing Systems",
        "year": 2017,
        "citationCount": 100000,
        "authors": [
            {"authorId": "40348417", "name": "Ashish Vaswani"},
            {"authorId": "1846258", "name": "Noam M. Shazeer"},
        ],
        **more,
    }


def s2_other(number: int, **more: Any) -> dict[str, Any]:
    """One of many papers, each another."""
    own = {"paperId": f"{number:040x}", "externalIds": {"DOI": f"10.1000/S2.{number}"}}
    title = f"A study of the matter numbered {number}"
    return s2_paper(title) | own | {"authors": [{"name": f"A. Number{number}"}]} | more


def arxiv(*entries: str, total: int | None = None, start: int = 0) -> bytes:
    """A feed of arXiv's API."""
    count = len(entries) if total is None else total
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">\n'
        '  <link href="http://arxiv.org/api/query?search_query%3Dall%3Aelectron" rel="self"/>\n'
        '  <title type="html">ArXiv Query: search_query=all:electron</title>\n'
        "  <id>http://arxiv.org/api/cHxbiOdZaP56ODnBPIenZhzg5f8</id>\n"
        '  <opensearch:totalResults xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/">'
        f"{count}</opensearch:totalResults>\n"
        '  <opensearch:startIndex xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/">'
        f"{start}</opensearch:startIndex>\n{''.join(entries)}</feed>"
    ).encode()


def arxiv_entry(
    title: str = "Attention Is All\n  You Need", number: str = "1706.03762v7", **more: str
) -> str:
    doi = f'<arxiv:doi xmlns:arxiv="{_ARXIV}">{more["doi"]}</arxiv:doi>' if "doi" in more else ""
    return (
        f"  <entry>\n    <id>http://arxiv.org/abs/{number}</id>\n"
        "    <updated>2023-08-02T00:41:18Z</updated>\n"
        "    <published>2017-06-12T17:57:34Z</published>\n"
        f"    <title>{escape(title)}</title>\n"
        f"    <summary>  {escape(more.get('summary', 'We propose the Transformer.'))}\n</summary>\n"
        "    <author><name>Ashish Vaswani</name></author>\n"
        "    <author><name>Noam Shazeer</name></author>\n"
        f"    {doi}\n"
        f'    <arxiv:comment xmlns:arxiv="{_ARXIV}">15 pages, 5 figures</arxiv:comment>\n'
        f'    <link href="http://arxiv.org/abs/{number}" rel="alternate" type="text/html"/>\n'
        f'    <arxiv:primary_category xmlns:arxiv="{_ARXIV}" term="cs.CL"/>\n'
        '    <category term="cs.CL" scheme="http://arxiv.org/schemas/atom"/>\n  </entry>\n'
    )


_ARXIV = "http://arxiv.org/schemas/atom"

ARXIV_ERROR = arxiv(
    "<entry><id>http://arxiv.org/api/errors#incorrect_id_format_for_1</id><title>Error</title>"
    "<summary>incorrect id format for 1</summary>"
    "<author><name>arXiv api core</name></author></entry>"
)


def openalex(*works: dict[str, Any], total: int | None = None, page: int = 1) -> dict[str, Any]:
    """A page of OpenAlex's works."""
    count = len(works) if total is None else total
    meta = {"count": count, "db_response_time_ms": 60, "page": page, "per_page": 50}
    return {"meta": meta, "results": list(works), "group_by": []}


def openalex_work(title: str = "Attention Is All You Need", **more: Any) -> dict[str, Any]:
    person = {"id": "https://openalex.org/A5019813234", "display_name": "Ashish Vaswani"}
    return {
        "id": "https://openalex.org/W2626778328",
        "doi": "https://doi.org/10.65215/2Q58A426",
        "display_name": title,
        "publication_year": 2017,
        "authorships": [{"author_position": "first", "author": person}],
        "primary_location": {
            "landing_page_url": "https://doi.org/10.65215/2q58a426",
            "source": {"display_name": "arXiv (Cornell University)", "type": "repository"},
        },
        "locations": [{"landing_page_url": "https://arxiv.org/abs/1706.03762"}],
        "abstract_inverted_index": {"models": [2, 6], "The": [0], "dominant": [1], "are": [3]}
        | {"recurrent": [4], "sequence": [5]},
        "cited_by_count": 6500,
        "referenced_works": ["https://openalex.org/W1514535095"],
        **more,
    }
