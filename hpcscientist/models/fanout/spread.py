"""A model whose requests are sent by tasks, from wherever there is room.

Who uses it: where a model plane serves, each node of the allocation has the endpoint on its own
loopback address at one port. A request is then a task that asks there, so what travels between
nodes takes Ray's channel, which the token guards, and no node's network has an open endpoint.
Where `serving.fan_out` is threads, it is a task of this process, on its event loop, that asks on
this node. A plain http endpoint is called by `OpenAIModel` itself.

The API key goes neither by command line nor inside the task's item, but by a file of mode 0600
that every node can read: Ray keeps items in shared memory and on disks, and its token says who
may speak but does not encipher what is said. It is shown to no other user's process that has taken
the port since (`secrets.require_own`).

Retries double nothing. A task whose process was killed asks again, and what the first try had
asked for is lost; the reply comes back once, and `models.recorded`, around this, writes it down.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import TypeVar
from weakref import WeakKeyDictionary

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import EndpointError, ServingError
from hpcscientist.models.endpoint.client import OpenAIModel
from hpcscientist.models.serving import secrets
from hpcscientist.ports.fanout import FanOut, Later
from hpcscientist.records.asked.model import ModelReply, ModelRequest
from hpcscientist.records.base import Record

A = TypeVar("A")
R = TypeVar("R")

_CLIENTS = 8  # endpoints that a process keeps connections to; a campaign has one a role


class Endpoint(Record):
    """An endpoint as every node reaches it. `key_file` is of mode 0600; "" means no key."""

    base_url: str
    name: str
    key_file: str = ""
    client: ClientSettings = ClientSettings()


class Ask(Record):
    """The item of one task."""

    endpoint: Endpoint
    request: ModelRequest


class SpreadModel:
    """Sends each request as one task. Belongs to one event loop."""

    def __init__(self, fan_out: FanOut, endpoint: Endpoint) -> None:
        """Take the fan-out over: `close` closes it."""
        self._fan_out, self._endpoint = fan_out, endpoint

    @property
    def name(self) -> str:
        """The name that the endpoint serves the model under."""
        return self._endpoint.name

    async def probe(self) -> None:
        """See that one node's endpoint answers. Raises EndpointError."""
        await self._run(probe, self._endpoint)

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer one request. Raises what `OpenAIModel` raises where the task runs.

        A cluster that is gone is an EndpointError too: no evidence against any idea.
        """
        return await self._run(ask, Ask(endpoint=self._endpoint, request=request))

    async def close(self) -> None:
        """Close the fan-out, and this loop's connections if it made any. Idempotent."""
        await self._fan_out.close()
        for client in _clients.pop(asyncio.get_running_loop(), {}).values():
            await client.close()

    async def _run(self, task: Later[A, R], item: A) -> R:
        try:
            return await self._fan_out.run(task, item)
        except ServingError as error:
            raise EndpointError(str(error)) from error


# Connections outlive tasks: a process keeps its clients, each for the loop that it belongs to.
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Endpoint, OpenAIModel]] = (
    WeakKeyDictionary()
)


async def ask(item: Ask) -> ModelReply:
    """Task: ask the endpoint once. Raises EndpointError, ReplyError; ServingError for the key."""
    async with _client(item.endpoint) as client:
        return await client.complete(item.request)


async def probe(endpoint: Endpoint) -> None:
    """Task: see that the endpoint answers. Raises EndpointError; ServingError for the key."""
    async with _client(endpoint) as client:
        await client.probe()


@contextlib.asynccontextmanager
async def _client(endpoint: Endpoint) -> AsyncIterator[OpenAIModel]:
    kept = _clients.setdefault(asyncio.get_running_loop(), {})
    client = kept.get(endpoint)
    if client is not None:
        yield client
        return
    client = _open(endpoint)
    if len(kept) < _CLIENTS:
        kept[endpoint] = client
        yield client
        return
    try:
        yield client
    finally:
        await client.close()


def _open(endpoint: Endpoint) -> OpenAIModel:
    url, name = endpoint.base_url, endpoint.name
    if not endpoint.key_file:
        return OpenAIModel(url, name, endpoint.client)
    key = secrets.read(Path(endpoint.key_file))
    return OpenAIModel(url, name, endpoint.client, key, partial(secrets.require_own, url))
