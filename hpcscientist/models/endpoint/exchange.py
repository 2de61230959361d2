"""Sends one HTTP request to an endpoint and reads the response, within its deadline.

Proxy variables of the environment are ignored: clusters set them, and an endpoint on a compute node
is not behind a proxy. The API key appears in no text that comes from here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import h11

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import EndpointError, ModelSpecError
from hpcscientist.files.text import one_line
from hpcscientist.models.endpoint import wire
from hpcscientist.models.endpoint.retry import OutOfTime, Transient

# One HTTP/1.1 connection, reused for further requests: asyncio's streams, parsed by h11.
#
# httpx (0.28) would do, except for its pool: for each request it checks every connection with a
# system call. With 64 requests in flight that took 3 ms a request of the driver's one thread, with
# 256 it took 20 ms; this takes 0.3 ms with any number.

_CHUNK = 2**16  # bytes


@dataclass(frozen=True, slots=True)
class Response:
    """A whole response; header names are in lower case."""

    status: int
    headers: Mapping[bytes, bytes]
    body: bytes


class BrokenConnection(Exception):
    """The server closed the connection too early, or sent something that is no HTTP."""


class TooLong(Exception):
    """A response has more bytes than allowed."""


class Connection:
    """A connection to the server of a URL. One request at a time; belongs to one event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT)

    @classmethod
    async def open(cls, url: str, believed: ssl.SSLContext | None, timeout_s: float) -> Connection:
        """Connect; `believed` verifies the server, None means no TLS. Raises OSError.

        After `timeout_s` it raises TimeoutError, which is an OSError.
        """
        parts = urlsplit(url)
        port = parts.port or (443 if believed else 80)
        # Not `wait_for`: before Python 3.12 it loses a cancellation that comes as it connects.
        async with asyncio.timeout(timeout_s):
            return cls(*await asyncio.open_connection(parts.hostname, port, ssl=believed))

    @property
    def is_usable(self) -> bool:
        """Return whether another request can be sent, as far as is known."""
        return self._http.our_state is h11.IDLE and not self._reader.at_eof()

    async def ask(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, most: int
    ) -> Response:
        """Send one request and return the response, of at most `most` bytes.

        A caller that is interrupted here must close the connection. Raises OSError,
        BrokenConnection, TooLong.
        """
        parts = urlsplit(url)
        length = {"Content-Length": str(len(body))} if body else {}
        sent = [("Host", parts.netloc), *headers.items(), *length.items()]
        request = h11.Request(method=method, target=parts.path or "/", headers=sent)
        try:
            pieces = [self._http.send(request)]
            pieces += [self._http.send(h11.Data(body))] if body else []
            pieces.append(self._http.send(h11.EndOfMessage()))
            self._writer.write(b"".join(piece for piece in pieces if piece))
            return await self._answer(most)
        except h11.ProtocolError as error:
            raise BrokenConnection(str(error)) from error

    def close(self) -> None:
        """Close the connection without notifying the server."""
        with contextlib.suppress(RuntimeError):  # its loop has been closed
            self._writer.close()

    async def _answer(self, most: int) -> Response:
        status, headers, content = 0, dict[bytes, bytes](), bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(_CHUNK))
            elif isinstance(event, h11.Response):
                status, headers = event.status_code, dict(event.headers)
            elif isinstance(event, h11.Data):
                content += event.data
                if len(content) > most:
                    raise TooLong
            elif isinstance(event, h11.EndOfMessage):
                break
            elif isinstance(event, h11.ConnectionClosed):
                raise BrokenConnection("it was closed before an answer came")
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        return Response(status, headers, bytes(content))


_BODY_LIMIT = 64 * 2**20  # bytes; an endless response must not fill the driver's memory
_SHUNNED_S = 5.0  # how long a failed replica is avoided while there are others


@dataclass(frozen=True, slots=True)
class EndpointAnswer:
    """An endpoint's answer; `seconds` are from the request to the answer's last byte."""

    status: int
    retry_after: str | None
    body: bytes
    seconds: float

    @property
    def is_ok(self) -> bool:
        """Return whether the status is 2xx."""
        return 200 <= self.status < 300


@dataclass(slots=True)
class _Replica:
    """One address of an endpoint: its idle connections, and the number of requests in flight."""

    resting: list[Connection] = field(default_factory=list)
    in_flight: int = 0
    shunned_until: float = 0.0


class EndpointExchange:
    """The connections to one endpoint, limited in number. Belongs to one event loop.

    An endpoint may be several replicas. Each request goes to the replica with the fewest of our
    requests in flight. A replica that failed is avoided for some seconds, so a retry goes to
    another.
    """

    def __init__(
        self,
        base_url: str,
        settings: ClientSettings,
        api_key: str | None,
        before_each: Callable[[str], None] = lambda url: None,
        replicas: Callable[[], tuple[str, ...]] | None = None,
        believed: ssl.SSLContext | None = None,
    ) -> None:
        """Prepare without sending. Raises ModelSpecError for an unusable address or key.

        `before_each` is called with the address before each new connection; if it raises, no
        connection is made. `replicas` is called before each request and returns the addresses
        behind `base_url`. `believed` verifies servers in place of the usual certificates.
        """
        self._before_each = before_each
        self.base = wire.check_base_url(base_url)
        self._listed = replicas or (lambda: (self.base,))
        self._replicas: dict[str, _Replica] = {}
        self._settings = settings
        self._key = (api_key or "").strip()
        if not self._key.isascii() or not self._key.isprintable():
            raise ModelSpecError("the API key has characters that no HTTP header can hold")
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._headers |= {"Accept": "application/json", "User-Agent": "hpcscientist"}
        self._believed = believed
        self._is_closed = False

    async def send(self, method: str, path: str, body: Any = None) -> EndpointAnswer:
        """Make one exchange. Raises Transient, or EndpointError once closed."""
        if self._is_closed:
            raise EndpointError(f"the client of {self.base} is closed; open the model anew")
        content = b"" if body is None else json.dumps(body).encode()
        async with self._slots:
            base, replica = self._pick()
            replica.in_flight += 1
            try:
                return await self._send(replica, method, base + path, content)
            except Transient:
                replica.shunned_until = time.monotonic() + _SHUNNED_S
                raise
            finally:
                replica.in_flight -= 1

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        self._is_closed = True
        for replica in self._replicas.values():
            while replica.resting:
                replica.resting.pop().close()

    def redacted(self, text: str) -> str:
        """Return a text without the key."""
        return text.replace(self._key, "***") if self._key else text

    def tidy(self, text: str) -> str:
        """Return an endpoint's message as one short line without the key."""
        return one_line(self.redacted(text))  # shortening first could leave half a key

    def _pick(self) -> tuple[str, _Replica]:
        listed = self._listed()
        known = {url: self._replicas.setdefault(url, _Replica()) for url in listed or (self.base,)}
        now = time.monotonic()
        good = {url: one for url, one in known.items() if one.shunned_until <= now} or known
        return min(good.items(), key=lambda item: item[1].in_flight)

    async def _send(
        self, replica: _Replica, method: str, url: str, content: bytes
    ) -> EndpointAnswer:
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                connection = await self._connection(replica, url)
                started = time.monotonic()
                headers = self._headers | ({"Content-Type": "application/json"} if content else {})
                try:
                    response = await connection.ask(method, url, headers, content, _BODY_LIMIT)
                except BaseException:
                    connection.close()
                    raise
                self._rest(replica, connection)
                return _answer(response, time.monotonic() - started)
        except TimeoutError:
            limit = self._settings.timeout_s
            raise OutOfTime(f"no complete reply within {limit:g} s (client.timeout_s)") from None
        except TooLong:
            raise Transient(f"the reply is longer than {_BODY_LIMIT // 2**20} MiB") from None
        except (OSError, BrokenConnection) as error:
            what = self.tidy(str(error)) or "the connection broke"
            raise Transient(f"{type(error).__name__}: {what}") from None

    async def _connection(self, replica: _Replica, url: str) -> Connection:
        while replica.resting:
            connection = replica.resting.pop()  # the last one used is the least likely to be closed
            if connection.is_usable:
                return connection
            connection.close()
        self._before_each(url)
        if self._believed is None and url.startswith("https:"):
            self._believed = _usual()
        limit = self._settings.connect_timeout_s
        try:
            return await Connection.open(url, self._believed, limit)
        except TimeoutError:
            raise Transient(f"not connected within {limit:g} s") from None

    def _rest(self, replica: _Replica, connection: Connection) -> None:
        if connection.is_usable and not self._is_closed:
            replica.resting.append(connection)
        else:
            connection.close()


def _usual() -> ssl.SSLContext:
    """Return a context that trusts the site's certificates (SSL_CERT_FILE), else public ones."""
    import httpx  # noqa: PLC0415 (heavy, and of no use without TLS)

    return httpx.create_ssl_context()


def _answer(response: Response, seconds: float) -> EndpointAnswer:
    coding = response.headers.get(b"content-encoding", b"identity").decode("latin-1")
    if coding != "identity":
        raise Transient(f"the reply is encoded as {coding}, which was not asked for")
    retry_after = response.headers.get(b"retry-after")
    return EndpointAnswer(
        status=response.status,
        retry_after=retry_after.decode("latin-1") if retry_after else None,
        body=response.body,
        seconds=seconds,
    )
