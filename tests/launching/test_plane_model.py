"""What becomes of requests in flight when the plane that serves them ends."""

from __future__ import annotations

import asyncio

import pytest

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import EndpointError, PlaneLost, ReplyError
from hpcscientist.launching.serving import plane_model
from hpcscientist.launching.serving.plane_model import PlaneModel
from hpcscientist.models.endpoint.client import OpenAIModel
from hpcscientist.records.asked.model import Message, ModelReply, ModelRequest

REQUEST = ModelRequest(
    idea_id="idea-0001",
    stage="propose",
    ordinal=1,
    messages=(Message(role="user", content="a"),),
)
REPLY = ModelReply(
    text="b", model="m", prompt_tokens=1, completion_tokens=1, tokens_estimated=False, latency_s=0.0
)
ONCE = ClientSettings(retries=0, backoff_s=0)


class Scripted:
    """A model that fails as told, in order, and then answers."""

    name = "scripted"

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked = 0

    async def probe(self) -> None: ...

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return REPLY

    async def close(self) -> None: ...


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plane_model, "_HEARD_S", 0.0)
    monkeypatch.setattr(plane_model, "_POLL_S", 0.0)


async def test_refused_connections_of_a_plane_that_ends_are_the_plane_s_loss() -> None:
    """Nothing listens at port 1; that the plane has ended is known only later."""
    client = OpenAIModel("http://127.0.0.1:1/v1", "m", ONCE)
    looks = iter(["", "", "", *["it ended on n1"] * 9])
    model = PlaneModel(client, lambda: next(looks))
    with pytest.raises(PlaneLost, match="it ended on n1"):
        await model.complete(REQUEST)
    await model.close()


async def test_who_waits_for_the_plane_can_be_cancelled() -> None:
    inner = Scripted(EndpointError("refused"))
    looked = asyncio.Event()

    def lost() -> str:
        looked.set()
        return ""

    waiting = asyncio.create_task(PlaneModel(inner, lost).complete(REQUEST))
    await looked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_plane_that_stands_is_asked_once_more() -> None:
    inner = Scripted(EndpointError("refused"))
    assert await PlaneModel(inner, lambda: "", patience_s=0).complete(REQUEST) == REPLY
    inner = Scripted(EndpointError("refused"), EndpointError("refused again"))
    with pytest.raises(EndpointError, match="refused again"):
        await PlaneModel(inner, lambda: "", patience_s=0).complete(REQUEST)


async def test_a_request_s_own_fault_is_told_at_once() -> None:
    inner = Scripted(ReplyError("too long"))
    with pytest.raises(ReplyError, match="too long"):
        await PlaneModel(inner, lambda: "never asked").complete(REQUEST)
    assert inner.asked == 1
