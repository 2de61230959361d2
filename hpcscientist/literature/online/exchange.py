"""One GET of a public service, within its deadline, whatever the other side does.

Unlike an endpoint of a model, a public service may well be behind the site's proxy, so the
environment's proxy variables hold here. Keys are added below the client, where neither its log
nor its errors see them. Answers are untrusted: their size, their time and where they send us
are bounded.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import urllib.request
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx

from hpcscientist import __version__
from hpcscientist.errors import ConfigError
from hpcscientist.files.text import one_line, printable
from hpcscientist.models.endpoint.retry import Transient

USER_AGENT = f"hpcscientist/{__version__} (python-httpx/{httpx.__version__})"
BODY_LIMIT = 16 * 2**20  # bytes; a page of 100 papers is well below 1 MiB
_CONNECT_S = 10.0
_REDIRECTS = 3
_GRACE_S = 5.0  # for what no cancelling ends, such as a look-up of a name


class NoNetwork(Transient):
    """No connection to the service, so most likely none to any other."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service answered."""

    status: int
    retry_after: str | None
    body: bytes


@dataclass(frozen=True, slots=True)
class Exchange:
    """How one service is reached. `headers` and `parameters` hold keys and are never shown."""

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

    def get(self, path: str, parameters: Mapping[str, str], seconds: float) -> Answer:
        """Make one request. Raises Transient; NoNetwork where nothing answers at all.

        It runs in a thread of its own: the deadline then holds for whatever a request waits for,
        and callers may have an event loop of their own or none.
        """
        found: queue.SimpleQueue[Answer | Exception] = queue.SimpleQueue()

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

    async def _get(self, path: str, parameters: Mapping[str, str], seconds: float) -> Answer:
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

    async def _follow(self, client: httpx.AsyncClient, url: httpx.URL) -> Answer:
        """Get a page; redirects are followed as long as they stay with the same server."""
        for _ in range(1 + _REDIRECTS):
            async with client.stream("GET", url) as response:
                target = response.next_request.url if response.next_request else None
                if target is None:
                    return Answer(
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
        # Unpacked here, with a bound: a few packed kilobytes can hold gigabytes.
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

    def __init__(self, exchange: Exchange) -> None:
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
    """Return the proxy that the environment names for an address; None for none."""
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
