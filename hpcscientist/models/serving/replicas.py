"""Reads from a plane's endpoint file where its replicas answer now, and opens clients for them."""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Callable
from functools import partial

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import EndpointError, ServingError
from hpcscientist.models.endpoint.client import OpenAIModel
from hpcscientist.models.endpoint.exchange import EndpointExchange
from hpcscientist.models.serving import secrets
from hpcscientist.models.serving.order import Endpoint, ServingPaths
from hpcscientist.models.serving.plane import read_endpoint

_LOOK_S = 1.0  # a lost replica answers at another port once it is back


class Replicas:
    """A plane's endpoint file, checked for changes once a second."""

    def __init__(self, paths: ServingPaths, clock: Callable[[], float] = time.monotonic) -> None:
        self._paths, self._clock = paths, clock
        self._endpoint: Endpoint | None = None
        self._seen, self._next = (0, 0), clock()
        self._believed: ssl.SSLContext | None = None

    def of(self, name: str) -> tuple[str, ...]:
        """Return the addresses at which a model answers, each ending in /v1."""
        endpoint = self._now()
        return tuple(one.url for one in endpoint.replicas if one.model == name) if endpoint else ()

    def contexts(self) -> dict[str, int]:
        """Return the context in tokens of each served model, by name; {} if none is served."""
        endpoint = self._now()
        return endpoint.contexts if endpoint else {}

    def believed(self) -> ssl.SSLContext:
        """Return a context that trusts only the plane's own servers. Raises OSError."""
        if self._believed is None:
            self._believed = secrets.believed(self._paths)
        return self._believed

    def _now(self) -> Endpoint | None:
        if self._clock() >= self._next:
            self._next = self._clock() + _LOOK_S
            with contextlib.suppress(OSError):  # keep the last content, which is likely still true
                found = self._paths.endpoint.stat()
                seen = (found.st_mtime_ns, found.st_ino)
                if seen != self._seen:
                    self._endpoint, self._seen = read_endpoint(self._paths), seen
        return self._endpoint


# A client of a plane's own models, which connects to their replicas directly.


def open_served(
    paths: ServingPaths, endpoint: Endpoint, name: str, settings: ClientSettings
) -> OpenAIModel:
    """Return a client for a model of a running plane. Raises ServingError, OSError."""
    replicas = Replicas(paths)
    exchange = EndpointExchange(
        endpoint.url,
        settings,
        secrets.read(paths.key),
        before_each=_require_own,
        replicas=partial(replicas.of, name),
        believed=replicas.believed() if len(endpoint.nodes) > 1 else None,
    )
    return OpenAIModel(endpoint.url, name, settings, exchange=exchange)


def _require_own(url: str) -> None:
    """Raise EndpointError if another user listens at a port of this machine."""
    if url.startswith("https:"):
        return  # the certificate identifies the server
    try:
        secrets.require_own(url)
    except ServingError as error:
        raise EndpointError(str(error)) from error
