"""A model server that answers oddly, asked by a whole campaign."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from hypothesis import strategies as st
from odd_campaigns import campaign, recorded
from odd_parts import Part, parts, rewritten
from odd_values import BYTES, JSON_VALUES
from try_out import ground

from hpcscientist.campaign import stages

Header = tuple[str, str]
MODELS = json.dumps({"object": "list", "data": [{"id": "m", "max_model_len": 32768}]})
BODY = json.dumps(
    {
        "id": "x",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "@content@", "reasoning": "so"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }
)


@dataclass(frozen=True)
class Reply:
    """An answer: what is odd in the model's text, in the body around it, and about both.

    `bytes`: start, end and what is there instead.
    """

    content: tuple[Part, ...] = ()
    body: tuple[Part, ...] = ()
    status: int = 200
    headers: tuple[Header, ...] = ()
    bytes: tuple[int, int, bytes] | None = None

    def of(self, sound: str, text: str) -> bytes:
        """The bytes to send where `sound` is the body, and `text` what the model says."""
        said = json.dumps(rewritten(text, self.content))
        whole = rewritten(sound, self.body).replace('"@content@"', said)
        data = whole.encode("utf-8", "surrogatepass")
        if self.bytes is None:
            return data
        start, end, put = self.bytes
        return data[:start] + put + data[end:]


@dataclass(frozen=True)
class Server:
    """`odd`: which answer to which schema is which, such as ("Proposal", 1): the first proposal.

    `always`: it is so for all from that one on. `models`: the answer to GET /models.
    """

    odd: tuple[tuple[str, int, Reply], ...]
    whole: bool = False
    always: bool = False
    models: Reply = Reply()


# -- what may be odd

_HEADERS = (
    *(("Retry-After", said) for said in ("nan", "inf", "-1", "1e400", "soon", "9" * 400, "0")),
    ("Retry-After", "Fri, 31 Dec 9999 23:59:59 -1200"),
    *(("Content-Encoding", name) for name in ("gzip", "br", "nonsense", "deflate, gzip")),
    *(("Content-Type", said) for said in ("text/html; charset=nonsense", "\u202e", "")),
    *(("Content-Length", said) for said in ("0", "3", "99999", "-1", "x")),
    *(("Transfer-Encoding", "chunked"), ("Location", "/elsewhere"), ("X-Odd", "a" * 70_000)),
    *(("Set-Cookie", "a=b; Max-Age=999999999999999999999"), ("X\u0000", "x"), ("X Y", "z")),
)
_STATUSES = (100, 201, 204, 206, 301, 304, 400, 401, 404, 413, 418, 422, 429, 500, 503, 599, 999)


@st.composite
def replies(draw: st.DrawFn, sound: str, text: str = "") -> Reply:
    """An odd answer whose body would be `sound`."""
    how = draw(st.sampled_from(("body", "body", "bytes", "status", "headers", *["content"] * 4)))
    if how == "content" and text:
        return Reply(content=draw(parts(text, JSON_VALUES)))
    if how == "bytes":
        start = draw(st.integers(0, len(sound)))
        return Reply(bytes=(start, draw(st.integers(start, len(sound) + 50)), draw(BYTES)))
    if how == "status":
        said = draw(parts('{"error": {"message": "no context for max_tokens"}}', JSON_VALUES))
        plain = (Part((), '{"error": {"message": "no"}}'), *said) if draw(st.booleans()) else ()
        return Reply(status=draw(st.sampled_from(_STATUSES)), body=plain)
    if how == "headers":
        headers = draw(st.lists(st.sampled_from(_HEADERS), min_size=1, max_size=2))
        return Reply(status=draw(st.sampled_from((200, 429, 503))), headers=tuple(headers))
    return Reply(body=draw(parts(sound, JSON_VALUES)))


@st.composite
def servers(draw: st.DrawFn) -> Server:
    whole = draw(st.sampled_from((False,) * 5 + (True,)))
    texts = _texts(whole)
    odd = []
    for schema in draw(st.lists(st.sampled_from(sorted(texts)), min_size=1, max_size=3)):
        at = draw(st.integers(1, 3))
        text = texts[schema][(at - 1) % len(texts[schema])]
        odd.append((schema, at, draw(replies(BODY, text))))
    models = draw(replies(MODELS)) if draw(st.integers(0, 5)) == 5 else Reply()
    return Server(tuple(odd), whole, draw(st.booleans()), models)


def _texts(whole: bool) -> dict[str, list[str]]:
    """What the model says, by the name of the schema that is asked for, in order."""
    found: dict[str, list[str]] = {}
    for entry in recorded(whole).values():
        if "reply" in entry:
            name = stages.replies()[entry["stage"]].__name__
            found.setdefault(name, []).append(json.dumps(entry["reply"]))
    return found


# -- the server


class Handler(BaseHTTPRequestHandler):
    """Answers each question with the recorded reply of its kind, but for the odd ones."""

    server: OddServer

    def do_GET(self) -> None:
        reply = self.server.case.models
        self._answer(reply, reply.of(MODELS, ""))

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        form = asked.get("response_format", {}).get("json_schema", {}).get("name", "")
        reply, text = self.server.next(form)
        self._answer(reply, reply.of(BODY, text))

    def _answer(self, reply: Reply, body: bytes) -> None:
        named = {name for name, _ in reply.headers}
        lines = [f"HTTP/1.1 {reply.status} Odd"]
        lines += [f"{name}: {value}" for name, value in reply.headers]
        if not named & {"Content-Length", "Transfer-Encoding"}:
            lines.append(f"Content-Length: {len(body)}")
        lines.append("Connection: close")
        head = "\r\n".join(lines) + "\r\n\r\n"
        with contextlib.suppress(OSError):  # who asked has read enough
            self.wfile.write(head.encode("utf-8") + body)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class OddServer(ThreadingHTTPServer):
    """A server of odd replies. `case` is set before it is asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self._lock = threading.Lock()
        self.play(Server(()))

    @property
    def spec(self) -> str:
        """How a campaign is told of it."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1#m"

    def play(self, case: Server) -> None:
        self.case, self._texts = case, _texts(case.whole)
        self._asked: dict[str, int] = {}

    def next(self, form: str) -> tuple[Reply, str]:
        """The answer to the next question of this form: what is odd about it, and the text."""
        with self._lock:
            number = self._asked[form] = self._asked.get(form, 0) + 1
        texts = self._texts.get(form, ["{}"])
        found = Reply()
        for schema, at, reply in self.case.odd:
            if schema == form and (number == at or (self.case.always and number > at)):
                found = reply
        return found, texts[(number - 1) % len(texts)]


@contextlib.contextmanager
def running() -> Iterator[OddServer]:
    """A server that answers."""
    with OddServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def try_server(case: Server, server: OddServer) -> None:
    server.play(case)
    with ground() as folder:
        campaign(folder, server.spec, whole=case.whole)
