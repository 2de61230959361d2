"""One HTTP exchange with an endpoint, within its deadline.

Proxy variables of the environment are not followed: clusters set them, and an endpoint on a
compute node is not behind them. The API key appears in no text that comes from here.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import EndpointError, ModelSpecError
from hpcscientist.files.text import one_line
from hpcscientist.models.endpoint import wire
from hpcscientist.models.endpoint.connection import BrokenConnection, Connection, Response, TooLong
from hpcscientist.models.endpoint.retry import Transient

_BODY_LIMIT = 64 * 2**20  # bytes; a server that never ends must not fill the driver's memory
_SHUNNED_S = 5.0  # a replica that failed, while there are others


@dataclass(frozen=True, slots=True)
class Answer:
    """What an endpoint answered; `seconds` from the request to its last byte."""

    status: int
    retry_after: str | None
    body: bytes
    seconds: float

    @property
    def is_ok(self) -> bool:
        """Whether the endpoint did what it was asked for."""
        return 200 <= self.status < 300


@dataclass(slots=True)
class _Replica:
    """One address of an endpoint: connections that rest, and how many requests are in flight."""

    resting: list[Connection] = field(default_factory=list)
    in_flight: int = 0
    shunned_until: float = 0.0


class Exchange:
    """The connections to one endpoint, so many at once. Belongs to one event loop.

    An endpoint may be several replicas. Each request goes to the one with the fewest of ours in
    flight; one that failed is left out for some seconds, so another try goes to another.
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
        """Send nothing yet.

        `before_each` is called with the address before each connection is made, and what it raises
        keeps it from being made. `replicas` is asked before each request for the addresses that
        stand for `base_url`. `believed` says which servers are, where not the usual ones.

        Raises ModelSpecError for an unusable address or key.
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

    async def send(self, method: str, path: str, body: Any = None) -> Answer:
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
        """Return what an endpoint said as one short line without the key."""
        return one_line(self.redacted(text))  # in this order, lest half a key is left

    def _pick(self) -> tuple[str, _Replica]:
        listed = self._listed()
        known = {url: self._replicas.setdefault(url, _Replica()) for url in listed or (self.base,)}
        now = time.monotonic()
        good = {url: one for url, one in known.items() if one.shunned_until <= now} or known
        return min(good.items(), key=lambda item: item[1].in_flight)

    async def _send(self, replica: _Replica, method: str, url: str, content: bytes) -> Answer:
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
            raise Transient(f"no complete reply within {limit:g} s (client.timeout_s)") from None
        except TooLong:
            raise Transient(f"the reply is longer than {_BODY_LIMIT // 2**20} MiB") from None
        except (OSError, BrokenConnection) as error:
            what = self.tidy(str(error)) or "the connection broke"
            raise Transient(f"{type(error).__name__}: {what}") from None

    async def _connection(self, replica: _Replica, url: str) -> Connection:
        while replica.resting:
            connection = replica.resting.pop()  # the last one used: it is the least likely closed
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
    """The servers that a site's own variables (SSL_CERT_FILE) name, else those of all browsers."""
    import httpx  # noqa: PLC0415 (heavy, and of no use without TLS)

    return httpx.create_ssl_context()


def _answer(response: Response, seconds: float) -> Answer:
    coding = response.headers.get(b"content-encoding", b"identity").decode("latin-1")
    if coding != "identity":
        raise Transient(f"the reply is encoded as {coding}, which was not asked for")
    retry_after = response.headers.get(b"retry-after")
    return Answer(
        status=response.status,
        retry_after=retry_after.decode("latin-1") if retry_after else None,
        body=response.body,
        seconds=seconds,
    )
