"""Where the replicas of a plane answer now, as its endpoint file says."""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Callable
from functools import partial

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import EndpointError, ServingError
from hpcscientist.models.endpoint.client import OpenAIModel
from hpcscientist.models.endpoint.exchange import Exchange
from hpcscientist.models.serving import secrets
from hpcscientist.models.serving.order import Endpoint, ServingPaths
from hpcscientist.models.serving.plane import read_endpoint

_LOOK_S = 1.0  # a replica that was lost answers at another port when it is back


class Replicas:
    """What a plane's endpoint file says, looked at again once a second where it has changed."""

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
        """Return the models that are served, with the context of each in tokens; {} of none."""
        endpoint = self._now()
        return endpoint.contexts if endpoint else {}

    def believed(self) -> ssl.SSLContext:
        """Return what tells the plane's own servers from others. Raises OSError."""
        if self._believed is None:
            self._believed = secrets.believed(self._paths)
        return self._believed

    def _now(self) -> Endpoint | None:
        if self._clock() >= self._next:
            self._next = self._clock() + _LOOK_S
            with contextlib.suppress(OSError):  # the last that was seen is likely still true
                found = self._paths.endpoint.stat()
                seen = (found.st_mtime_ns, found.st_ino)
                if seen != self._seen:
                    self._endpoint, self._seen = read_endpoint(self._paths), seen
        return self._endpoint


# A client of a plane's own models, which asks their replicas without anything in between.


def open_served(
    paths: ServingPaths, endpoint: Endpoint, name: str, settings: ClientSettings
) -> OpenAIModel:
    """Return what asks a model of a plane that answers. Raises ServingError, OSError."""
    replicas = Replicas(paths)
    exchange = Exchange(
        endpoint.url,
        settings,
        secrets.read(paths.key),
        before_each=_require_own,
        replicas=partial(replicas.of, name),
        believed=replicas.believed() if len(endpoint.nodes) > 1 else None,
    )
    return OpenAIModel(endpoint.url, name, settings, exchange=exchange)


def _require_own(url: str) -> None:
    """Raise EndpointError where a port of this machine is another user's."""
    if url.startswith("https:"):
        return  # the certificate tells
    try:
        secrets.require_own(url)
    except ServingError as error:
        raise EndpointError(str(error)) from error
