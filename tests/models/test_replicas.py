"""An endpoint of several replicas, over real connections that are kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from misbehaving_endpoint import completion

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import EndpointError
from hpcscientist.models.endpoint.client import OpenAIModel
from hpcscientist.models.endpoint.exchange import EndpointExchange
from hpcscientist.models.serving import secrets
from hpcscientist.models.serving.order import Address, Endpoint, ServingPaths
from hpcscientist.models.serving.replicas import Replicas, open_served
from hpcscientist.records.model_calls import Message, ModelRequest

REQUEST = ModelRequest(
    subject="idea-0001", stage="propose", messages=(Message(role="user", content="a"),)
)
SETTINGS = ClientSettings(retries=1, backoff_s=0, concurrency=8)


class Keeping:
    """A server that keeps connections, answers once it may, and counts."""

    def __init__(self) -> None:
        self.connections = self.requests = self.in_flight = self.most = 0
        self.may_answer, self.full = asyncio.Event(), asyncio.Event()
        self.may_answer.set()
        self.wanted = 0  # `full` is set with so many in flight
        self.closes = False  # after each answer, without a word
        self._writers: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        finally:
            server.close()
            for writer in self._writers:
                writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length:")[2].split()[0])
                await reader.readexactly(length)
                await self._answer(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        self.requests += 1
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        if self.in_flight == self.wanted:
            self.full.set()
        await self.may_answer.wait()
        self.in_flight -= 1
        body = json.dumps(completion("ok")).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        if self.closes:
            raise ConnectionResetError


def asking(*urls: str, settings: ClientSettings = SETTINGS) -> OpenAIModel:
    exchange = EndpointExchange(urls[0], settings, None, replicas=lambda: urls)
    return OpenAIModel(urls[0], "tiny", settings, exchange=exchange)


async def test_connections_are_kept_and_checked_once_each() -> None:
    server, checked = Keeping(), list[str]()
    async with server.listening() as url:
        exchange = EndpointExchange(url, SETTINGS, None, before_each=checked.append)
        model = OpenAIModel(url, "tiny", SETTINGS, exchange=exchange)
        for _ in range(3):
            await asyncio.gather(*(model.complete(REQUEST) for _ in range(4)))
        await model.close()
    assert (server.requests, server.connections) == (12, 4)
    assert checked == [f"{url}/chat/completions"] * 4


async def test_a_connection_that_was_closed_meanwhile_is_not_used_again() -> None:
    server = Keeping()
    server.closes = True
    async with server.listening() as url:
        model = asking(url, settings=SETTINGS.model_copy(update={"retries": 0}))
        for number in range(1, 4):
            await model.complete(REQUEST)
            while server.connections == number and not _is_closed(model):  # noqa: ASYNC110
                await asyncio.sleep(0)  # until the end has come here
        await model.close()
    assert (server.requests, server.connections) == (3, 3)


def _is_closed(model: OpenAIModel) -> bool:
    (replica,) = model._exchange._replicas.values()
    return all(not connection.is_usable for connection in replica.resting)


async def test_each_request_goes_to_the_replica_with_the_fewest() -> None:
    one, other = Keeping(), Keeping()
    async with one.listening() as first, other.listening() as second:
        model = asking(first, second)
        for server in (one, other):
            server.may_answer.clear()
            server.wanted = 4
        asked = [asyncio.create_task(model.complete(REQUEST)) for _ in range(8)]
        await asyncio.gather(one.full.wait(), other.full.wait())
        for server in (one, other):
            server.may_answer.set()
        await asyncio.gather(*asked)
        await model.close()
    assert (one.most, other.most) == (4, 4)


async def test_a_replica_that_is_gone_costs_a_try_and_no_request() -> None:
    gone, there = Keeping(), Keeping()
    async with gone.listening() as first:
        pass
    async with there.listening() as second:
        model = asking(first, second)
        replies = await asyncio.gather(*(model.complete(REQUEST) for _ in range(8)))
        await model.complete(REQUEST)
        await model.close()
    assert [reply.text for reply in replies] == ["ok"] * 8
    assert (gone.requests, there.requests) == (0, 9)


def endpoint(*urls: str) -> Endpoint:
    return Endpoint(
        nonce="n",
        url=urls[0],
        replicas=tuple(Address(model="tiny", url=url) for url in urls),
        models=("tiny",),
        nodes=("n1",),
        head="n1",
        contexts={"tiny": 2048},
        started=0.0,
    )


async def test_a_replica_that_comes_back_elsewhere_is_found(tmp_path: Path) -> None:
    paths, now = ServingPaths(tmp_path), [0.0]
    replicas = Replicas(paths, lambda: now[0])
    assert replicas.of("tiny") == ()
    paths.endpoint.write_text(endpoint("http://a/v1", "http://b/v1").model_dump_json())
    assert replicas.of("tiny") == ()  # it was looked for just now
    now[0] += 1.0
    assert replicas.of("tiny") == ("http://a/v1", "http://b/v1")
    assert replicas.of("other") == ()
    paths.endpoint.write_text(endpoint("http://b/v1", "http://another/v1").model_dump_json())
    now[0] += 1.0
    assert replicas.of("tiny") == ("http://b/v1", "http://another/v1")
    paths.endpoint.unlink()  # a file system that does not answer for a moment looks so, too
    now[0] += 1.0
    assert replicas.of("tiny") == ("http://b/v1", "http://another/v1")


async def test_another_user_s_port_is_not_shown_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, server = ServingPaths(tmp_path), Keeping()
    secrets.make(paths.key)
    async with server.listening() as url:
        paths.endpoint.write_text(endpoint(url).model_dump_json())
        model = open_served(paths, endpoint(url), "tiny", SETTINGS)
        await model.complete(REQUEST)
        monkeypatch.setattr(secrets, "listening_users", lambda port: {12345})
        assert server.connections == 1
        await model.complete(REQUEST)  # by the connection that was checked
        stranger = open_served(paths, endpoint(url), "tiny", SETTINGS)
        with pytest.raises(EndpointError, match="uid 12345"):
            await stranger.complete(REQUEST)
        assert (server.connections, server.requests) == (1, 2)
        await model.close()
        await stranger.close()
