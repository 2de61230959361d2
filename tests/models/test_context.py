"""Contexts, cut-off replies and endless ones, against a real HTTP server that has a context."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from misbehaving_endpoint import Act, Endpoint, answer, completion, error, hang

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import ContextOverflow, EndpointError, ReplyError
from hpcscientist.models.endpoint.client import OpenAIModel
from hpcscientist.models.prompting.fitting import Prompt, Window, entries, of_template
from hpcscientist.models.role_client import Roles
from hpcscientist.models.structured import ask
from hpcscientist.records.base import Record
from hpcscientist.records.model_calls import ModelRequest

QUICK = ClientSettings(timeout_s=300, retries=0, backoff_s=0.001, backoff_max_s=0.002)
CONTEXT = 3000
WORDS = [f"word{n:04d}" for n in range(2000)]


class Reply(Record):
    note: str


REQUEST = ModelRequest(subject="idea-0001", stage="code", role="code", messages=(), max_tokens=1024)
GOOD = '{"note": "n"}'


def long_prompt() -> Prompt:
    return of_template("rejected", (entries("problem", WORDS),))


def tokens(body: dict[str, Any], per_byte: float) -> int:
    return round(per_byte * sum(len(m["content"].encode()) for m in body["messages"])) + 20


def with_context(
    *texts: str, per_byte: float = 1.0, listed: bool = True, exact: bool = True
) -> Act:
    """A server like vLLM: it refuses what exceeds its context, and counts what does not."""
    replies = list(texts)

    async def act(endpoint: Endpoint, writer: asyncio.StreamWriter) -> None:
        body = endpoint.posts[-1].body
        size = tokens(body, per_byte)
        if size + body["max_tokens"] > CONTEXT:
            room = CONTEXT - body["max_tokens"]
            counted = f"{size}" if exact else f"at least {room + 1}"
            said = (
                f"This model's maximum context length is {CONTEXT} tokens. However, your prompt "
                f"contains {counted} input tokens, which exceeds this limit even without any "
                "output tokens. Please reduce the length of the input prompt."
            )
            await error(400, said)(endpoint, writer)
            return
        text = replies.pop(0) if len(replies) > 1 else replies[0]
        usage = {"prompt_tokens": size, "completion_tokens": 9}
        finish = "stop" if text.endswith("}") else "length"
        choice = {"message": {"content": text}, "finish_reason": finish}
        await answer(completion(None, choices=[choice], usage=usage))(endpoint, writer)

    return act


def listing(**more: Any) -> Act:
    return answer({"object": "list", "data": [{"id": "other"}, {"id": "tiny", **more}]})


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with Endpoint() as server:
        yield server


@pytest.fixture
async def model(endpoint: Endpoint) -> AsyncIterator[OpenAIModel]:
    client = OpenAIModel(endpoint.url, "tiny", QUICK)
    yield client
    await client.close()


@pytest.mark.parametrize(
    ("entry", "context"),
    [
        ({"max_model_len": 3000}, 3000),
        ({"metadata": {"max_request_context_length": 2000}}, 2000),
        ({}, 0),
        ({"max_model_len": None, "metadata": None}, 0),
        ({"max_model_len": "long"}, 0),
    ],
)
async def test_the_endpoint_tells_its_context(
    endpoint: Endpoint, model: OpenAIModel, entry: dict[str, Any], context: int
) -> None:
    endpoint.models = listing(**entry)
    assert [await model.context(), await model.context()] == [context] * 2
    assert len(endpoint.seen) == 1


@pytest.mark.parametrize("listed", [error(404, "no"), answer(b"<html>"), answer([])])
async def test_an_endpoint_without_a_list_tells_none(
    endpoint: Endpoint, model: OpenAIModel, listed: Act
) -> None:
    endpoint.models = listed
    assert await model.context() == 0


async def test_an_endpoint_that_does_not_answer(endpoint: Endpoint, model: OpenAIModel) -> None:
    endpoint.models = error(503, "loading")
    with pytest.raises(EndpointError, match="503"):
        await model.context()
    endpoint.models = listing(max_model_len=7)
    assert await model.context() == 7


async def test_a_long_prompt_fits_by_the_listed_context(
    endpoint: Endpoint, model: OpenAIModel
) -> None:
    endpoint.models = listing(max_model_len=CONTEXT)
    endpoint.script = [with_context(GOOD, per_byte=0.3)]
    window = Window(ask=model.context)
    assert await ask(model, REQUEST, Reply, prompt=long_prompt(), window=window) == Reply(note="n")
    (seen,) = endpoint.posts
    content = seen.body["messages"][0]["content"]
    assert WORDS[-1] in content
    assert WORDS[0] not in content
    assert seen.body["max_tokens"] >= 1024


@pytest.mark.parametrize("exact", [True, False])
async def test_a_refusal_is_answered_with_what_fits(
    endpoint: Endpoint, model: OpenAIModel, exact: bool
) -> None:
    # No context is listed, and the tokenizer knows bytes alone.
    endpoint.script = [with_context(GOOD, exact=exact)]
    window = Window(ask=model.context)
    assert await ask(model, REQUEST, Reply, prompt=long_prompt(), window=window) == Reply(note="n")
    first, second = endpoint.posts
    assert WORDS[0] in first.body["messages"][0]["content"]
    assert tokens(second.body, 1.0) + second.body["max_tokens"] <= CONTEXT
    assert second.body["messages"][0]["content"].count("word") > 50
    await ask(model, REQUEST, Reply, prompt=long_prompt(), window=window)
    assert len(endpoint.posts) == 3  # what it has learnt holds for the next


async def test_a_refusal_that_nothing_can_be_done_about(
    endpoint: Endpoint, model: OpenAIModel
) -> None:
    endpoint.script = [error(400, "the maximum context length is 8 tokens")]
    with pytest.raises(ReplyError, match="context has 8"):
        await ask(model, REQUEST, Reply, prompt=long_prompt(), window=Window())
    endpoint.script = [error(400, "prompt exceeds the context length 90000")]
    with pytest.raises(ContextOverflow, match="90000"):
        await ask(model, REQUEST, Reply, prompt=long_prompt(), window=Window())
    assert len(endpoint.posts) <= 3


async def test_repairs_fit_too(endpoint: Endpoint, model: OpenAIModel) -> None:
    endpoint.models = listing(max_model_len=CONTEXT)
    endpoint.script = [with_context("x" * 15_000 + "}", "y" * 15_000 + "}", GOOD, per_byte=0.4)]
    roles = Roles({"code": model}, {"code": Window(ask=model.context)})
    window = roles.windows["code"]
    assert await ask(roles, REQUEST, Reply, prompt=long_prompt(), window=window) == Reply(note="n")
    assert len(endpoint.posts) == 3
    for seen in endpoint.posts:
        assert tokens(seen.body, 0.4) + seen.body["max_tokens"] <= CONTEXT
    shown = [message["content"] for message in endpoint.posts[2].body["messages"]]
    assert len(shown) == 3
    assert len(shown[1]) < 15_000  # the earlier reply went before the prompt's own material
    assert WORDS[-1] in shown[0]


async def test_counts_that_come_by_calibrate(endpoint: Endpoint, model: OpenAIModel) -> None:
    endpoint.models = listing(max_model_len=CONTEXT)
    endpoint.script = [with_context(GOOD, per_byte=0.2)]
    roles = Roles({"code": model}, {"code": Window(ask=model.context)})
    for _ in range(2):
        await ask(roles, REQUEST, Reply, prompt=long_prompt(), window=roles.windows["code"])
    first, second = (seen.body["messages"][0]["content"] for seen in endpoint.posts)
    assert first.count("word") * 1.5 < second.count("word")
    assert tokens(endpoint.posts[1].body, 0.2) + 1024 <= CONTEXT


@pytest.mark.parametrize(
    ("content", "said"),
    [('{"note": "and so on', "every text"), ("<think>hm, wait", "few sentences")],
)
async def test_a_reply_that_was_cut_off_is_told_so(
    endpoint: Endpoint, model: OpenAIModel, content: str, said: str
) -> None:
    endpoint.script = [with_context(content, GOOD, per_byte=0.1)]
    request = ModelRequest.model_validate(
        {**REQUEST.model_dump(), "messages": long_prompt().at(1990)}
    )
    assert await ask(model, request, Reply) == Reply(note="n")
    told = endpoint.posts[1].body["messages"][-1]["content"]
    assert "cut off" in told
    assert "after 9 tokens" in told
    assert said in told


async def test_a_reply_that_is_whole_though_cut_off_counts(
    endpoint: Endpoint, model: OpenAIModel
) -> None:
    endpoint.script = [with_context(f"{GOOD} and then I", per_byte=0.1)]
    request = REQUEST.model_copy(update={"messages": long_prompt().at(1990)})
    assert await ask(model, request, Reply) == Reply(note="n")
    assert len(endpoint.posts) == 1


async def test_a_model_that_never_stops_is_bounded(endpoint: Endpoint, model: OpenAIModel) -> None:
    # By max_tokens where the server counts them …
    request = REQUEST.model_copy(update={"messages": long_prompt().at(1990)})
    endpoint.script = [with_context("on and on", per_byte=0.1)]
    with pytest.raises(ReplyError, match=r"\b2 repairs: .* cut off .*\b9 tokens"):
        await ask(model, request, Reply)
    assert [seen.body["max_tokens"] for seen in endpoint.posts] == [1024] * 3
    # … and by the client's patience where it does not.
    endpoint.script = [hang]
    impatient = OpenAIModel(endpoint.url, "tiny", QUICK.model_copy(update={"timeout_s": 0.2}))
    with pytest.raises(EndpointError, match=r" 0\.2 s \(client\.timeout_s\)"):
        await ask(impatient, request, Reply)
    await impatient.close()


async def test_context_and_schema_are_refused_apart(endpoint: Endpoint, model: OpenAIModel) -> None:
    endpoint.script = [error(400, "unknown field: response_format"), with_context(GOOD)]
    assert await ask(model, REQUEST, Reply, prompt=long_prompt(), window=Window()) == Reply(
        note="n"
    )
    sent = ["response_format" in seen.body for seen in endpoint.posts]
    assert sent == [True, False, False]
    assert (
        json.dumps(Reply.model_json_schema()) in endpoint.posts[-1].body["messages"][0]["content"]
    )
