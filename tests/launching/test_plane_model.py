"""What becomes of requests in flight when the plane that serves them ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import EndpointError, PlaneLost, ReplyError, ServingError
from hpcscientist.launching.serving import driver_sidecar
from hpcscientist.launching.serving.driver_sidecar import PlaneModel
from hpcscientist.models.endpoint.client import OpenAIModel
from hpcscientist.ports import Model
from hpcscientist.records.model_calls import Message, ModelReply, ModelRequest

REQUEST = ModelRequest(
    subject="idea-0001",
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


def of(inner: Model, lost: Callable[[], str], patience_s: float = 90.0) -> PlaneModel:
    async def opened() -> Model:
        return inner

    return PlaneModel("m", opened, lost, patience_s)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_sidecar, "_HEARD_S", 0.0)
    monkeypatch.setattr(driver_sidecar, "_POLL_S", 0.0)


async def test_refused_connections_of_a_plane_that_ends_are_the_plane_s_loss() -> None:
    """Nothing listens at port 1; that the plane has ended is known only later."""
    client = OpenAIModel("http://127.0.0.1:1/v1", "m", ONCE)
    looks = iter(["", "", "", *["it ended on n1"] * 9])
    model = of(client, lambda: next(looks))
    with pytest.raises(PlaneLost, match="it ended on n1"):
        await model.complete(REQUEST)
    await model.close()


async def test_who_waits_for_the_plane_can_be_cancelled() -> None:
    inner = Scripted(EndpointError("refused"))
    looked = asyncio.Event()

    def lost() -> str:
        looked.set()
        return ""

    waiting = asyncio.create_task(of(inner, lost).complete(REQUEST))
    await looked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_plane_that_stands_is_asked_once_more() -> None:
    inner = Scripted(EndpointError("refused"))
    assert await of(inner, lambda: "", patience_s=0).complete(REQUEST) == REPLY
    inner = Scripted(EndpointError("refused"), EndpointError("refused again"))
    with pytest.raises(EndpointError, match="refused again"):
        await of(inner, lambda: "", patience_s=0).complete(REQUEST)


async def test_a_request_s_own_fault_is_told_at_once() -> None:
    inner = Scripted(ReplyError("too long"))
    with pytest.raises(ReplyError, match="too long"):
        await of(inner, lambda: "never asked").complete(REQUEST)
    assert inner.asked == 1


async def test_requests_wait_until_the_model_answers_and_open_it_once() -> None:
    inner, answers, opened = Scripted(), asyncio.Event(), list[str]()

    async def opening() -> Model:
        opened.append("once")
        await answers.wait()
        return inner

    model = PlaneModel("m", opening, lambda: "")
    asked = [asyncio.create_task(model.complete(REQUEST)) for _ in range(3)]
    await asyncio.sleep(0)
    assert (opened, inner.asked) == (["once"], 0)
    answers.set()
    assert await asyncio.gather(*asked) == [REPLY] * 3
    assert (opened, inner.asked) == (["once"], 3)


async def test_who_gives_up_waiting_does_not_keep_others_from_the_model() -> None:
    inner, answers = Scripted(), asyncio.Event()

    async def opening() -> Model:
        await answers.wait()
        return inner

    model = PlaneModel("m", opening, lambda: "")
    first, second = (asyncio.create_task(model.complete(REQUEST)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    answers.set()
    assert await second == REPLY


async def test_models_that_never_come_to_answer_are_the_plane_s_loss() -> None:
    async def opening() -> Model:
        raise ServingError("no memory")

    with pytest.raises(PlaneLost, match="no memory"):
        await PlaneModel("m", opening, lambda: "").complete(REQUEST)
