"""The services that can be asked, a module each: how a page is asked for, how it is read."""

from __future__ import annotations

from collections.abc import Mapping

from hpcscientist.literature.online.services.arxiv import Arxiv
from hpcscientist.literature.online.services.base import Service, ServiceName
from hpcscientist.literature.online.services.openalex import OpenAlex
from hpcscientist.literature.online.services.semantic_scholar import SemanticScholar

NAMES: tuple[ServiceName, ...] = ("semantic_scholar", "arxiv", "openalex")


def service_named(name: ServiceName, environment: Mapping[str, str]) -> Service:
    """Return the adapter to a service, with the key and address that the environment names."""
    match name:
        case "semantic_scholar":
            return SemanticScholar(environment)
        case "arxiv":
            return Arxiv(environment)
        case "openalex":
            return OpenAlex(environment)
