"""Asks one service politely: reads the cache, waits for a turn, retries after pauses, gives up.

A service that is overloaded or broken is tried a few times within `PATIENCE_S`, and then set aside:
for some time no process asks it. So the time that a campaign can lose to it is bounded, and its
papers are simply not found.
"""

from __future__ import annotations

import asyncio
import queue
import random
import threading
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlsplit

import httpx

from hpcscientist import __version__
from hpcscientist.errors import ConfigError, OutOfReach
from hpcscientist.files.text import one_line, printable
from hpcscientist.literature.online import cache as caching
from hpcscientist.literature.online.cache import Cache, CachedPage
from hpcscientist.literature.online.services import (
    Page,
    QueryRefused,
    Service,
    UnreadableReply,
    words_of,
)
from hpcscientist.literature.online.turns import NoTurn, Turn, Turns
from hpcscientist.models.endpoint.retry import Transient, is_transient, retry_after_s
from hpcscientist.ports import Tell

# One GET request to a public service, within its deadline, whatever the service does.
#
# Unlike a model's endpoint, a public service may be reachable only through the site's proxy, so the
# environment's proxy variables apply here. Keys are added below the client, where neither its log
# nor its errors contain them. Replies are untrusted: their size, time and redirects are bounded.

USER_AGENT = f"hpcscientist/{__version__} (python-httpx/{httpx.__version__})"
BODY_LIMIT = 16 * 2**20  # bytes; a page of 100 papers is well below 1 MiB
_CONNECT_S = 10.0
_REDIRECTS = 3
_GRACE_S = 5.0  # for operations that cannot be cancelled, such as a DNS lookup


class NoNetwork(Transient):
    """Raised if there is no connection to the service, and so most likely to no other."""


@dataclass(frozen=True, slots=True)
class ServiceReply:
    """The HTTP reply of a service."""

    status: int
    retry_after: str | None
    body: bytes


@dataclass(frozen=True, slots=True)
class ServiceClient:
    """A client of one service. `headers` and `parameters` contain keys and are never shown."""

    base: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    body_limit: int = BODY_LIMIT

    def __post_init__(self) -> None:
        """Check address and keys. Raises ConfigError."""
        parts = urlsplit(self.base)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise ConfigError(f"{self.base!r} is no address of a service; give http(s)://HOST/PATH")
        for secret in (*self.headers.values(), *self.parameters.values()):
            if not secret.isascii() or not secret.isprintable():
                raise ConfigError("a key of a service has characters that no request can hold")

    def get(self, path: str, parameters: Mapping[str, str], seconds: float) -> ServiceReply:
        """Make one request. Raises Transient, and NoNetwork if nothing answers at all.

        The request runs in its own thread. So the deadline applies to everything that a request
        waits for, and callers may or may not have an event loop.
        """
        found: queue.SimpleQueue[ServiceReply | Exception] = queue.SimpleQueue()

        def work() -> None:
            try:
                found.put(asyncio.run(self._get(path, parameters, seconds)))
            except Exception as error:  # noqa: BLE001 (raised again by who waits for it)
                found.put(error)

        threading.Thread(target=work, name="literature online", daemon=True).start()
        try:
            outcome = found.get(timeout=seconds + _GRACE_S)
        except queue.Empty:
            raise NoNetwork(f"no answer within {seconds:g} s") from None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _get(self, path: str, parameters: Mapping[str, str], seconds: float) -> ServiceReply:
        try:
            async with (
                asyncio.timeout(seconds),
                httpx.AsyncClient(
                    headers={"User-Agent": USER_AGENT, "Accept-Encoding": "gzip"},
                    timeout=httpx.Timeout(seconds, connect=min(seconds, _CONNECT_S)),
                    transport=_Keyed(self),
                ) as client,
            ):
                return await self._follow(client, httpx.URL(self.base + path, params=parameters))
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            raise NoNetwork(_what(error)) from None
        except (TimeoutError, httpx.TimeoutException):
            raise Transient(f"no complete answer within {seconds:g} s") from None
        except (httpx.RequestError, httpx.InvalidURL) as error:
            raise Transient(_what(error)) from None
        except (OSError, ValueError, ImportError) as error:  # certificates, a proxy of odd kind
            raise NoNetwork(_what(error)) from None

    async def _follow(self, client: httpx.AsyncClient, url: httpx.URL) -> ServiceReply:
        """Get a page, following redirects that stay on the same server."""
        for _ in range(1 + _REDIRECTS):
            async with client.stream("GET", url) as response:
                target = response.next_request.url if response.next_request else None
                if target is None:
                    return ServiceReply(
                        status=response.status_code,
                        retry_after=response.headers.get("Retry-After"),
                        body=await self._read(response),
                    )
            if _server(target) != _server(url):
                raise Transient(f"it sends us to another server, {one_line(target.host, 100)}")
            url = target
        raise Transient("it sends us round in circles")

    async def _read(self, response: httpx.Response) -> bytes:
        packing = response.headers.get("Content-Encoding", "identity").lower()
        if packing not in ("identity", "gzip"):
            raise Transient(f"its answer is packed by {one_line(printable(packing), 50)}")
        # Unpacked here, within a limit: a few packed kilobytes can become gigabytes.
        unpack = zlib.decompressobj(wbits=31) if packing == "gzip" else None
        content = bytearray()
        try:
            async for chunk in response.aiter_raw():
                room = self.body_limit + 1 - len(content)
                content += unpack.decompress(chunk, room) if unpack else chunk
                if len(content) > self.body_limit:
                    raise Transient(f"its answer is longer than {self.body_limit} bytes")
        except zlib.error as error:
            raise Transient(_what(error)) from None
        if unpack and not unpack.eof:
            raise Transient("its answer is cut short")
        return bytes(content)


class _Keyed(httpx.AsyncBaseTransport):
    """Adds the keys to a request on its way out."""

    def __init__(self, exchange: ServiceClient) -> None:
        self._exchange = exchange
        secure = urlsplit(exchange.base).scheme == "https"  # else there is nothing to verify
        self._inner = httpx.AsyncHTTPTransport(verify=secure, proxy=_proxy(exchange.base))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        keyed = httpx.Request(
            request.method,
            request.url.copy_merge_params(self._exchange.parameters),
            headers=[*request.headers.raw, *httpx.Headers(self._exchange.headers).raw],
            extensions=request.extensions,
        )
        return await self._inner.handle_async_request(keyed)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _proxy(base: str) -> str | None:
    """Return the proxy for an address from the environment; None if there is none."""
    parts = urlsplit(base)
    if urllib.request.proxy_bypass(parts.netloc):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


def _server(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _what(error: Exception) -> str:
    return one_line(printable(f"{type(error).__name__}: {error}".removesuffix(": ")))


PATIENCE_S = 45.0  # for one page, all tries together
TRY_S = 20.0
_TRIES = 4
_TRIES_WITHOUT_NETWORK = 2
_PAUSE_S = 2.0  # before the second try, doubled before each further one
_REFUSED_S = 900.0
_NO = frozenset({401, 403})


class Asker:
    """Asks one service. Any thread may use it."""

    def __init__(
        self,
        service: Service,
        cache: Cache,
        turns: Turns,
        *,
        jitter: Callable[[], float] = random.random,
        note: Tell = lambda _: None,
    ) -> None:
        """`jitter` returns numbers in [0, 1); `note` is called once if replies cannot be stored."""
        self.service = service
        self._exchange = ServiceClient(service.base.rstrip("/"), service.headers, service.secrets)
        self._cache, self._turns, self._jitter, self._note = cache, turns, jitter, note
        self._told = False
        self._barred_until = float("-inf")  # not shared: another process may have a better key

    def ask(self, words: str, page: int = 0) -> CachedPage:
        """Return one page of the service's reply to a query, from the cache if it is there.

        Raises OutOfReach, and QueryRefused if the service rejects these words.
        """
        query = caching.normalised(words)
        found = self._cache.get(self.service.name, query, page)
        if found is None and not words_of(query):
            found = self._answered(query, page, Page((), more=False))
        if found is not None:
            return found
        try:
            with self._turns.take() as turn:
                # Another thread or process may have asked it meanwhile.
                return self._cache.get(self.service.name, query, page) or self._fetch(
                    turn, query, page
                )
        except NoTurn:
            raise OutOfReach("others ask it all the time") from None

    def _fetch(self, turn: Turn, query: str, page: int) -> CachedPage:
        alone = max(turn.left_alone_s, self._barred_until - self._turns.clock())
        if alone > 0:
            raise OutOfReach(f"it failed a while ago and is left alone for another {alone:.0f} s")
        answered = self._answered(query, page, self._persist(turn, query, page))
        try:
            self._cache.put(answered)
        except OSError as error:
            if not self._told:  # safe: only the holder of the turn gets here
                self._note(f"answers are not kept: {error.filename}: {error.strerror}")
            self._told = True
        return answered

    def _persist(self, turn: Turn, query: str, page: int) -> Page:
        until = self._turns.clock() + PATIENCE_S
        tries = 0
        while True:
            turn.begin()
            left = until - self._turns.clock()
            try:
                found = self._try(turn, query, page, min(TRY_S, max(1.0, left)))
                turn.succeed()
                return found
            except Transient as error:
                tries += 1
                lost = isinstance(error, NoNetwork)
                pause = error.retry_after or self._pause(tries)
                patient = self._turns.clock() + pause < until
                if not patient or tries >= (_TRIES_WITHOUT_NETWORK if lost else _TRIES):
                    turn.set_aside(error.retry_after)
                    raise OutOfReach(str(error), lost) from None
                self._turns.sleep(pause)

    def _try(self, turn: Turn, query: str, page: int, seconds: float) -> Page:
        path, parameters = self.service.request(query, page)
        answer = self._exchange.get(path, parameters, seconds)
        status = answer.status
        if status in _NO:
            self._barred_until = self._turns.clock() + _REFUSED_S
            variable = self.service.key_variable
            fix = f"; see that {variable} holds a valid key" if variable else ""
            raise OutOfReach(f"HTTP {status}{fix}")
        if 400 <= status < 500 and not is_transient(status):
            turn.succeed()
            raise QueryRefused(f"HTTP {status}{_said(answer)}")
        if status != 200:
            asked = retry_after_s(answer.retry_after, datetime.now(UTC))
            raise Transient(f"HTTP {status}", asked)
        try:
            return self.service.read(answer.body, page)
        except UnreadableReply as error:
            raise Transient(str(error)) from None

    def _pause(self, tries: int) -> float:
        """Return the pause after a number of tries: doubled each time, half of it random."""
        return _PAUSE_S * 2.0 ** (tries - 1) * (0.5 + self._jitter() / 2)

    def _answered(self, query: str, page: int, found: Page) -> CachedPage:
        return CachedPage(
            service=self.service.name,
            query=query,
            page=page,
            papers=found.papers,
            more=found.more,
        )


def _said(answer: ServiceReply) -> str:
    words = one_line(printable(answer.body[:500].decode("utf-8", "replace")), 150)
    return f": {words}" if words else ""
