"""One HTTP exchange with an endpoint, within its deadline.

Proxy variables of the environment are not followed: clusters set them, and an endpoint on a
compute node is not behind them. The API key appears in no text that comes from here.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import EndpointError, ModelSpecError
from hpcscientist.files.text import one_line
from hpcscientist.models.endpoint import wire
from hpcscientist.models.endpoint.retry import Transient

_BODY_LIMIT = 64 * 2**20  # bytes; a server that never ends must not fill the driver's memory


@dataclass(frozen=True, slots=True)
class Answer:
    """What an endpoint answered; `seconds` from the request to its last byte."""

    status: int
    retry_after: str | None
    body: bytes
    seconds: float


class Exchange:
    """The connections to one endpoint, so many at once. Belongs to one event loop."""

    def __init__(
        self,
        base_url: str,
        settings: ClientSettings,
        api_key: str | None,
        before_each: Callable[[], None] = lambda: None,
    ) -> None:
        """Send nothing yet. What `before_each` raises keeps an exchange from being made.

        Raises ModelSpecError for an unusable address or key.
        """
        self._before_each = before_each
        self.base = wire.check_base_url(base_url)
        self._settings = settings
        self._key = (api_key or "").strip()
        if not self._key.isascii() or not self._key.isprintable():
            raise ModelSpecError("the API key has characters that no HTTP header can hold")
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=httpx.Timeout(
                settings.timeout_s, connect=settings.connect_timeout_s, pool=None
            ),
            # By itself it has 100 connections at most, and closes all but 20 after each request.
            limits=httpx.Limits(
                max_connections=settings.concurrency,
                max_keepalive_connections=settings.concurrency,
            ),
            trust_env=False,
            verify=_certificates(),
        )

    async def send(self, method: str, path: str, body: Any = None) -> Answer:
        """Make one exchange. Raises Transient, or EndpointError once closed."""
        if self._client.is_closed:
            raise EndpointError(f"the client of {self.base} is closed; open the model anew")
        try:
            async with self._slots, asyncio.timeout(self._settings.timeout_s):
                self._before_each()
                started = time.monotonic()
                async with self._client.stream(method, self.base + path, json=body) as response:
                    content = await _read(response)
                return Answer(
                    status=response.status_code,
                    retry_after=response.headers.get("Retry-After"),
                    body=content,
                    seconds=time.monotonic() - started,
                )
        except httpx.ConnectTimeout:
            limit = self._settings.connect_timeout_s
            raise Transient(f"not connected within {limit:g} s") from None
        except (TimeoutError, httpx.TimeoutException):
            limit = self._settings.timeout_s
            raise Transient(f"no complete reply within {limit:g} s (client.timeout_s)") from None
        except (httpx.RequestError, httpx.InvalidURL) as error:
            what = self.tidy(str(error)) or "the connection broke"
            raise Transient(f"{type(error).__name__}: {what}") from None

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        await self._client.aclose()

    def redacted(self, text: str) -> str:
        """Return a text without the key."""
        return text.replace(self._key, "***") if self._key else text

    def tidy(self, text: str) -> str:
        """Return what an endpoint said as one short line without the key."""
        return one_line(self.redacted(text))  # in this order, lest half a key is left


async def _read(response: httpx.Response) -> bytes:
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > _BODY_LIMIT:
            raise Transient(f"the reply is longer than {_BODY_LIMIT // 2**20} MiB")
    return bytes(content)


def _certificates() -> ssl.SSLContext | bool:
    # trust_env=False would also ignore a site's own certificate authority.
    if os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
        return ssl.create_default_context()
    return True
