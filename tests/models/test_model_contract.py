"""The contract of ports.model.Model, run on every adapter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from misbehaving_endpoint import Endpoint, answer, completion, error

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import EndpointError, PlaybookExhausted, ReplyError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.models.endpoint.client import OpenAIModel
from hpcscientist.models.playbook import PlaybookModel
from hpcscientist.models.recorded import RecordedModel
from hpcscientist.ports import Model
from hpcscientist.records.model_calls import Message, ModelRequest

REPLIES = {
    (1, "propose", 1, 0): "one",
    (1, "propose", 1, 1): "one, repaired",
    (1, "debug", 2, 0): "fix two",
    (2, "propose", 1, 0): "two",
}
QUICK = ClientSettings(
    timeout_s=300, retries=1, backoff_s=0.001, backoff_max_s=0.002, concurrency=2
)


def request(idea: int, stage: str = "propose", ordinal: int = 1, repair: int = 0) -> ModelRequest:
    call = json.dumps([idea, stage, ordinal, repair])  # what the endpoint looks the reply up by
    return ModelRequest(
        subject=f"idea-{idea:04d}",
        stage=stage,
        ordinal=ordinal,
        repair=repair,
        messages=(Message(role="user", content=call),),
    )


async def _look_up(endpoint: Endpoint, writer: asyncio.StreamWriter) -> None:
    call: Any = tuple(json.loads(endpoint.posts[-1].body["messages"][0]["content"]))
    usage = {"prompt_tokens": 11, "completion_tokens": 5}
    known = call in REPLIES
    body = completion(REPLIES.get(call, ""), usage=usage)
    await (answer(body) if known else error(400, "no such call"))(endpoint, writer)


def _playbook(folder: Path) -> PlaybookModel:
    path = folder / "playbook.jsonl"
    lines = (
        {"idea": i, "stage": s, "ordinal": o, "repair": r, "text": text, "prompt_tokens": 11}
        | {"completion_tokens": 5}
        for (i, s, o, r), text in REPLIES.items()
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return PlaybookModel(path)


@pytest.fixture(params=["endpoint", "playbook", "recorded endpoint", "recorded playbook"])
async def model(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Model]:
    async with Endpoint() as endpoint:
        endpoint.script = [_look_up]
        inner: Model = (
            OpenAIModel(endpoint.url, "tiny", QUICK)
            if "endpoint" in request.param
            else _playbook(tmp_path)
        )
        if "recorded" in request.param:
            inner = RecordedModel(inner, RunPaths(tmp_path / "run"), lambda *_: None)
        yield inner
        await inner.close()


async def test_has_a_name(model: Model) -> None:
    assert model.name in {"tiny", "playbook:playbook.jsonl"}


async def test_can_be_asked(model: Model) -> None:
    await model.probe()


@pytest.mark.parametrize("call", REPLIES)
async def test_each_call_has_its_reply(model: Model, call: tuple[int, str, int, int]) -> None:
    reply = await model.complete(request(*call))
    assert reply.text == REPLIES[call]
    assert reply.model == model.name
    assert (reply.prompt_tokens, reply.completion_tokens) == (11, 5)
    assert reply.tokens_estimated is False
    assert reply.latency_s >= 0


async def test_concurrent_calls_keep_apart(model: Model) -> None:
    calls = list(REPLIES) * 5
    replies = await asyncio.gather(*(model.complete(request(*call)) for call in calls))
    assert [reply.text for reply in replies] == [REPLIES[call] for call in calls]


async def test_is_cancellable(model: Model) -> None:
    call = asyncio.create_task(model.complete(request(1)))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await model.complete(request(1))).text == "one"


async def test_raises_its_own_errors_alone(model: Model, tmp_path: Path) -> None:
    for missing in (
        request(3),
        request(1, "review"),
        request(2, "propose", 2),
        request(2, repair=1),
    ):
        with pytest.raises((EndpointError, ReplyError, PlaybookExhausted)) as caught:
            await model.complete(missing)
        assert "\n" not in str(caught.value)
        # Ideas' notes keep it for candidates to read, and a launched playbook lies beside labels.
        assert str(tmp_path) not in str(caught.value)


async def test_close_is_idempotent(model: Model) -> None:
    assert (await model.complete(request(1))).text
    await model.close()
    await model.close()
