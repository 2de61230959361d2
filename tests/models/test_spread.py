"""Requests as tasks: on both fan-outs, and each reply written down once whatever dies."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import psutil
import pytest
from misbehaving_endpoint import Endpoint as Server
from misbehaving_endpoint import answer, completion, error, hang, trickle
from ray_kit import RayNode, kill, ray_node, skip_without_ray

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import EndpointError, ReplyError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal
from hpcscientist.history.journal import Journal
from hpcscientist.models.fanout.on_ray import RayCluster, RayFanOut
from hpcscientist.models.fanout.spread import Ask, Endpoint, SpreadModel
from hpcscientist.models.fanout.threads import ThreadFanOut
from hpcscientist.models.recorded import RecordedModel
from hpcscientist.models.serving import secrets
from hpcscientist.ports.fanout import FanOut
from hpcscientist.records.asked.model import Message, ModelReply, ModelRequest
from hpcscientist.records.events import ReplyRecorded
from hpcscientist.system import listeners

QUICK = ClientSettings(timeout_s=60, retries=1, backoff_s=0.001, backoff_max_s=0.002)
WIDTH = 6
LIMIT_S = 120.0


@pytest.fixture(scope="module")
def node() -> Iterator[RayNode]:
    skip_without_ray()
    with ray_node() as started:
        yield started


@pytest.fixture(params=["threads", pytest.param("ray", marks=pytest.mark.serving)])
async def fan_out(request: pytest.FixtureRequest) -> AsyncIterator[FanOut]:
    opened: FanOut = (
        ThreadFanOut(WIDTH)
        if request.param == "threads"
        else RayFanOut(request.getfixturevalue("node").cluster, WIDTH)
    )
    yield opened
    await opened.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as running:
        yield running


@pytest.fixture
def key(tmp_path: Path) -> Path:
    secrets.make(tmp_path / "key")
    return tmp_path / "key"


def endpoint(server: Server, key_file: str = "") -> Endpoint:
    return Endpoint(base_url=server.url, name="tiny", key_file=key_file, client=QUICK)


def ask(idea: int = 1, ordinal: int = 1) -> ModelRequest:
    return ModelRequest(
        idea_id=f"idea-{idea:04d}",
        stage="propose",
        ordinal=ordinal,
        messages=(Message(role="user", content=f"{idea}/{ordinal}"),),
    )


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not holds():  # noqa: ASYNC110 - the server and processes tell
            await asyncio.sleep(0.01)


def recorded(model: SpreadModel, root: Path) -> tuple[RecordedModel, Journal]:
    """As a campaign wires it: the reply to disk, then an event."""
    root.mkdir()
    events = Journal(root / "journal.jsonl", lambda event: None)

    def on_reply(request: ModelRequest, reply: ModelReply, asked: int) -> None:
        events.record(
            ReplyRecorded(
                idea_id=request.idea_id,
                call=request.key,
                prompt_tokens=reply.prompt_tokens,
                completion_tokens=reply.completion_tokens,
                tokens_estimated=reply.tokens_estimated,
                latency_s=reply.latency_s,
                role=request.role,
                asked=asked,
            )
        )

    return RecordedModel(model, RunPaths(root), on_reply), events


async def test_the_key_goes_by_file_alone(fan_out: FanOut, server: Server, key: Path) -> None:
    secret = key.read_text()
    asked = Ask(endpoint=endpoint(server, str(key)), request=ask())
    model = SpreadModel(fan_out, asked.endpoint)
    server.script = [hang]
    waiting = asyncio.create_task(model.complete(asked.request))
    await asyncio.wait_for(server.hanging.wait(), LIMIT_S)
    for process in psutil.process_iter(["cmdline"]):
        assert secret not in " ".join(process.info["cmdline"] or ())
    assert secret.encode() not in pickle.dumps(asked)
    assert server.posts[0].headers["authorization"] == f"Bearer {secret}"
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await model.close()


async def test_a_cancelled_request_lets_go_of_the_endpoint(fan_out: FanOut, server: Server) -> None:
    """The engine hears that nobody waits any more."""
    gone = asyncio.Event()

    async def notice(running: Server, writer: asyncio.StreamWriter) -> None:
        running.hanging.set()
        try:
            await trickle(running, writer)
        except ConnectionError:
            gone.set()
            raise

    server.script = [notice, answer(completion("ok"))]
    model = SpreadModel(fan_out, endpoint(server))
    waiting = asyncio.create_task(model.complete(ask()))
    await asyncio.wait_for(server.hanging.wait(), LIMIT_S)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await asyncio.wait_for(gone.wait(), LIMIT_S)
    assert (await model.complete(ask())).text == "ok"
    await model.close()


async def test_a_key_that_others_can_read_is_not_used(
    fan_out: FanOut, server: Server, key: Path
) -> None:
    key.chmod(0o644)
    model = SpreadModel(fan_out, endpoint(server, str(key)))
    with pytest.raises(EndpointError, match="others can read"):
        await model.complete(ask())
    assert not server.seen
    await model.close()


async def test_errors_come_from_afar_as_they_are(fan_out: FanOut, server: Server) -> None:
    model = SpreadModel(fan_out, endpoint(server))
    server.script = [error(400, "bad temperature")]
    with pytest.raises(ReplyError, match="bad temperature") as caught:
        await model.complete(ask())
    assert type(caught.value) is ReplyError
    assert len(server.posts) == 1
    await model.close()


async def test_a_cluster_that_is_not_there_is_no_idea_s_fault(server: Server) -> None:
    nowhere = RayCluster(address="127.0.0.1:1", python="/nonexistent/python")
    model = SpreadModel(RayFanOut(nowhere), endpoint(server))
    with pytest.raises(EndpointError, match="cannot be run"):
        await model.complete(ask())
    await model.close()


@pytest.mark.serving
async def test_each_reply_lands_once_though_processes_are_killed(
    node: RayNode, server: Server, tmp_path: Path
) -> None:
    """The process that asks is killed while requests are in flight, twice."""
    release = asyncio.Event()

    async def held(running: Server, writer: asyncio.StreamWriter) -> None:
        content = running.posts[-1].body["messages"][0]["content"]
        await release.wait()
        await answer(completion(f"reply to {content}"))(running, writer)

    server.script = [held]
    model, events = recorded(
        SpreadModel(RayFanOut(node.cluster, WIDTH), endpoint(server)), tmp_path / "run"
    )
    asked = [ask(idea, ordinal) for idea in (1, 2, 3) for ordinal in (1, 2)]
    replies = [asyncio.create_task(model.complete(one)) for one in asked]
    for killed in (1, 2):
        await until(lambda tries=killed: len(server.posts) == tries * len(asked))  # type: ignore[misc]
        (hand,) = node.hands()
        kill(hand)
    await until(lambda: len(server.posts) == 3 * len(asked))
    release.set()
    texts = [reply.text for reply in await asyncio.gather(*replies)]
    assert texts == [f"reply to {one.messages[0].content}" for one in asked]

    for idea in (1, 2, 3):
        lines = RunPaths(tmp_path / "run").idea(f"idea-{idea:04d}").chat.read_text().splitlines()
        assert sorted(json.loads(line)["key"] for line in lines) == ["propose/1", "propose/2"]
    events.close()
    written = journal.read(tmp_path / "run" / "journal.jsonl")
    assert len(written) == len(asked)
    assert len({event.key for event in written}) == len(asked)

    again = [(await model.complete(one)).text for one in asked]  # from the record
    assert (again, len(server.posts)) == (texts, 3 * len(asked))
    await model.close()


class Counted(BaseHTTPRequestHandler):
    """Keeps connections open, and counts them."""

    protocol_version = "HTTP/1.1"
    connections: set[tuple[str, int]]

    def do_POST(self) -> None:
        self.connections.add(self.client_address)
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps(completion("ok")).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


async def test_connections_outlive_tasks(fan_out: FanOut, monkeypatch: pytest.MonkeyPatch) -> None:
    # By itself it closes a connection that was idle for 5 s.
    monkeypatch.setattr(httpx, "Limits", partial(httpx.Limits, keepalive_expiry=None))
    seen: set[tuple[str, int]] = set()
    handler = type("Handler", (Counted,), {"connections": seen})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{serving.server_address[1]}/v1"
        model = SpreadModel(fan_out, Endpoint(base_url=url, name="tiny", client=QUICK))
        for ordinal in range(1, 21):
            assert (await model.complete(ask(ordinal=ordinal))).text == "ok"
        await model.close()
        serving.shutdown()
    assert len(seen) == 1


async def test_another_user_s_port_is_not_shown_the_key(
    server: Server, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = SpreadModel(ThreadFanOut(1), endpoint(server, str(key)))
    monkeypatch.setattr(listeners, "users", lambda port: {4_000_000})
    with pytest.raises(EndpointError, match=r"is another user's \(uid \d+\)"):
        await model.complete(ask())
    assert server.posts == []
    monkeypatch.undo()
    await model.complete(ask())
    assert len(server.posts) == 1
    await model.close()


async def test_nor_is_a_port_that_became_another_s_between_two_tries(
    server: Server, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def taken_over(server: Server, writer: asyncio.StreamWriter) -> None:
        monkeypatch.setattr(listeners, "users", lambda port: {4_000_000})
        await error(503, "busy")(server, writer)

    server.script = [taken_over, answer(completion("ok"))]
    model = SpreadModel(ThreadFanOut(1), endpoint(server, str(key)))
    with pytest.raises(EndpointError, match="is another user's"):
        await model.complete(ask())
    assert len(server.posts) == 1
    monkeypatch.undo()
    await model.close()
