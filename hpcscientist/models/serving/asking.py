"""A client of a plane's own models, which asks their replicas without anything in between."""

from __future__ import annotations

from functools import partial

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import EndpointError, ServingError
from hpcscientist.models.endpoint.client import OpenAIModel
from hpcscientist.models.endpoint.exchange import Exchange
from hpcscientist.models.serving import secrets
from hpcscientist.models.serving.order import Endpoint
from hpcscientist.models.serving.paths import ServingPaths
from hpcscientist.models.serving.replicas import Replicas


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
