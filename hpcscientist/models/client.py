"""A client of OpenAI-compatible endpoints.

Proxy variables of the environment are not followed: clusters set them, and an endpoint on a
compute node is not behind them. The API key appears in no error and no log.
It does not cover streaming, tools or several choices.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
import os
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import EndpointError, ModelSpecError, ReplyError
from hpcscientist.files.text import one_line
from hpcscientist.models import wire
from hpcscientist.models.retry import Backoff, Transient, is_transient, retry_after_s
from hpcscientist.records.model import ModelReply, ModelRequest

R = TypeVar("R")

_LOG = logging.getLogger(__name__)
_BODY_LIMIT = 64 * 2**20  # bytes; a server that never ends must not fill the driver's memory
# Bad request, too large, unprocessable: about one request, such as one beyond the context.
REFUSES_ONE_REQUEST = frozenset({400, 413, 422})
_PROBE_RETRIES = 1  # who has mistyped an address wants to know at once


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    retry_after: str | None
    body: bytes
    seconds: float


class OpenAIModel:
    """The adapter to an endpoint. Belongs to one event loop."""

    def __init__(
        self, base_url: str, name: str, settings: ClientSettings, api_key: str | None = None
    ) -> None:
        """Make a client; nothing is sent yet. Raises ModelSpecError for an unusable address."""
        self._base = wire.check_base_url(base_url)
        self._name = name
        self._settings = settings
        self._key = (api_key or "").strip()
        if not self._key.isascii() or not self._key.isprintable():
            raise ModelSpecError("the API key has characters that no HTTP header can hold")
        self._structured = True
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=httpx.Timeout(
                settings.timeout_s, connect=settings.connect_timeout_s, pool=None
            ),
            trust_env=False,
            verify=_certificates(),
        )

    @property
    def name(self) -> str:
        """The name that the endpoint serves the model under."""
        return self._name

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer one request; `latency_s` is that of the try that succeeded.

        Raises EndpointError: at once where trying again is of no use, else out of retries.
        """
        return await self._retried(lambda: self._complete_once(request), self._settings.retries)

    async def probe(self) -> None:
        """See that the endpoint answers and serves the model. Raises EndpointError."""
        served = await self._retried(
            lambda: self._served(strict=True), min(_PROBE_RETRIES, self._settings.retries)
        )
        if self._name not in served and f"{self._name}:latest" not in served:
            raise EndpointError(self._not_served(served))

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        await self._client.aclose()

    async def _retried(self, call: Callable[[], Awaitable[R]], retries: int) -> R:
        policy = AsyncRetrying(
            stop=stop_after_attempt(1 + retries),
            wait=Backoff(self._settings),
            retry=retry_if_exception_type(Transient),
            before_sleep=self._log_retry,
            reraise=True,
        )

        async def once() -> R:
            return await call()

        try:
            return await policy(once)
        except Transient as error:
            tries = "once" if retries == 0 else f"{1 + retries} times"
            raise EndpointError(
                f"{self._base} was tried {tries}, the last time: {error}; "
                "see that the server runs and is reachable from this host"
            ) from error

    async def _complete_once(self, request: ModelRequest) -> ModelReply:
        structured = self._structured and request.reply_schema is not None
        body = wire.payload(request, self._name, structured)
        answer = await self._exchange("POST", "/chat/completions", body)
        if structured and wire.refuses_schema(answer.status, wire.error_text(answer.body)):
            self._structured = False
            _LOG.info("%s knows no response_format; replies are checked here alone", self._base)
            return await self._complete_once(request)
        if answer.status == 404:
            raise await self._explain_404(answer)
        self._raise_for(answer)
        try:
            return wire.read_reply(answer.body, request, self._name, answer.seconds)
        except Transient as error:
            raise Transient(self._tidy(str(error))) from None

    async def _exchange(self, method: str, path: str, body: Any = None) -> _Answer:
        """Make one HTTP exchange within the deadline. Raises Transient or EndpointError."""
        if self._client.is_closed:
            raise EndpointError(f"the client of {self._base} is closed; open the model anew")
        try:
            async with self._slots, asyncio.timeout(self._settings.timeout_s):
                started = time.monotonic()
                async with self._client.stream(method, self._base + path, json=body) as response:
                    content = await _read(response)
                return _Answer(
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
            raise Transient(f"no complete reply within {limit:g} s") from None
        except (httpx.RequestError, httpx.InvalidURL) as error:
            what = self._tidy(str(error)) or "the connection broke"
            raise Transient(f"{type(error).__name__}: {what}") from None

    def _raise_for(self, answer: _Answer) -> None:
        status, said = answer.status, self._tidy(wire.error_text(answer.body))
        if 200 <= status < 300:
            return
        if is_transient(status):
            wait = retry_after_s(answer.retry_after, datetime.now(UTC))
            raise Transient(f"HTTP {status}: {said}", wait)
        if status in {401, 403}:
            mend = "set HPCSCI_API_KEY to a key that it accepts"
        elif 300 <= status < 400:
            mend = "give the address that it redirects to"
        elif "context" in said or "max_tokens" in said:
            mend = "serve the model with a longer context, or ask for fewer tokens"
        else:
            mend = "see the server's log for why it refuses the request"
        error = ReplyError if status in REFUSES_ONE_REQUEST else EndpointError
        raise error(f"{self._base} answered HTTP {status} ({said}); {mend}")

    async def _served(self, strict: bool) -> list[str]:
        """Return the names of GET /models; without `strict`, none where they cannot be had."""
        answer = await self._exchange("GET", "/models")
        if strict and answer.status not in {404, 405}:
            self._raise_for(answer)
        names = wire.served_names(answer.body) if answer.status == 200 else None
        if names is None and strict:
            raise EndpointError(
                f"{self._base} lists no models (HTTP {answer.status} for /models); "
                "does the address end in /v1?"
            )
        return names or []

    async def _explain_404(self, answer: _Answer) -> EndpointError:
        try:
            served = await self._served(strict=False)
        except Transient:
            served = []
        if served and self._name not in served:
            return EndpointError(self._not_served(served))
        said = self._tidy(wire.error_text(answer.body))
        return EndpointError(
            f"{self._base}/chat/completions is not found ({said}); "
            f"does the address end in /v1, and does it serve {self._name!r}?"
        )

    def _not_served(self, served: list[str]) -> str:
        near = difflib.get_close_matches(self._name, served, n=1, cutoff=0.3)
        listed = one_line(self._redacted(", ".join(served)), 500) or "none"
        hint = f"; did you mean {self._redacted(near[0])!r}?" if near else ""
        return f"{self._base} serves no model {self._name!r}; it serves: {listed}{hint}"

    def _redacted(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text

    def _tidy(self, text: str) -> str:
        return one_line(self._redacted(text))  # in this order, lest half a key is left

    def _log_retry(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        wait = state.next_action.sleep if state.next_action else 0.0
        _LOG.info("%s: %s; trying again in %.1f s", self._base, error, wait)


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
