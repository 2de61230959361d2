"""Log-probabilities of scores: asked for, read, or done without."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
from misbehaving_endpoint import Endpoint, answer, completion, error

from hpcscientist.config.settings import REVIEW, ClientSettings
from hpcscientist.models.endpoint.client import OpenAIModel
from hpcscientist.models.prompting.fitting import fixed
from hpcscientist.models.role_client import CallPurpose, RoleClient
from hpcscientist.records.literature import RankReply
from hpcscientist.records.model_calls import Message
from hpcscientist.records.proposing import FeasibilityReply

QUICK = ClientSettings(timeout_s=300, retries=1, backoff_s=0.001, backoff_max_s=0.002)
TEXT = '{"topic": 8, "attributes": 10, "reason": "r"}'
ASKED = fixed((Message(role="user", content="How well does it fit?"),))


def told(likely: dict[str, float]) -> list[dict[str, Any]]:
    return [
        {"token": piece, "bytes": list(piece.encode()), "logprob": math.log(odds)}
        for piece, odds in likely.items()
    ]


def entry(piece: str, **likely: float) -> dict[str, Any]:
    """A token as vLLM tells it."""
    (own,) = told({piece: likely.get(piece, 1.0)})
    return {**own, "top_logprobs": told(likely)}


TOKENS = [
    entry('{"topic": '),
    entry("8", **{"8": 0.5, "6": 0.25, "7": 0.25}),
    entry(', "attributes": '),
    entry("1", **{"1": 1.0}),
    entry("0", **{"0": 0.5, ",": 0.5}),
    entry(', "reason": "r"}'),
    {"token": "", "bytes": [], "logprob": -9999.0, "top_logprobs": []},
]


def scored(text: str = TEXT, tokens: Any = TOKENS) -> dict[str, Any]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "logprobs": {"content": tokens},
    }
    return completion(None, choices=[choice])


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with Endpoint() as server:
        yield server


@pytest.fixture
async def model(endpoint: Endpoint) -> AsyncIterator[OpenAIModel]:
    client = OpenAIModel(endpoint.url, "tiny", QUICK)
    yield client
    await client.close()


async def rank(model: Any, ordinal: int = 1) -> RankReply:
    client = RoleClient(model, "review", REVIEW)
    return await client.ask(CallPurpose("survey", 0, "rank", ordinal), RankReply, ASKED)


async def test_probabilities_are_asked_for_with_scores_and_with_nothing_else(
    endpoint: Endpoint, model: OpenAIModel
) -> None:
    endpoint.script = [answer(scored())]
    reply = await rank(model)
    assert (reply.topic, reply.attributes) == (8, 10)
    assert reply.expectation("topic") == pytest.approx(7.25)
    assert reply.expectation("attributes") == pytest.approx(5.5)
    fits = {"seconds": 1, "memory_mb": 1, "fits": True, "reason": "r"}
    endpoint.script = [answer(completion(json.dumps(fits)))]
    await RoleClient(model, "review", REVIEW).ask(
        CallPurpose("idea-0001", 1, "feasibility"), FeasibilityReply, ASKED
    )
    bodies = [seen.body for seen in endpoint.posts]
    assert [(b.get("logprobs"), b.get("top_logprobs")) for b in bodies] == [(True, 20), (None,) * 2]


async def test_tokens_of_reasoning_kept_apart_are_no_part_of_the_answer(
    endpoint: Endpoint, model: OpenAIModel
) -> None:
    drafted = [entry("<think>"), *TOKENS[:-1], entry("</think>"), entry("\n\n")]
    drafted[2] = entry("8", **{"8": 1.0})
    endpoint.script = [answer(scored(tokens=[*drafted, *TOKENS]))]
    assert (await rank(model)).expectation("topic") == pytest.approx(7.25)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "logprobs is not supported with this model"),
        (422, "[{'type': 'extra_forbidden', 'loc': ['body', 'top_logprobs'], 'input': 20}]"),
        (400, "Unrecognized request argument supplied: logprobs"),
        (500, "logprobs is not supported for models created with logits_all=False"),
    ],
)
async def test_an_endpoint_that_refuses_probabilities_is_asked_without_and_that_is_said_once(
    endpoint: Endpoint,
    model: OpenAIModel,
    caplog: pytest.LogCaptureFixture,
    status: int,
    message: str,
) -> None:
    endpoint.script = [error(status, message), answer(completion(TEXT))]
    with caplog.at_level(logging.WARNING):
        replies = [await rank(model, n) for n in (1, 2)]
    assert [(r.topic, r.expectation("topic")) for r in replies] == [(8, None)] * 2
    asked = ["logprobs" in seen.body for seen in endpoint.posts]
    assert asked == [True, False, False]
    assert all("response_format" in seen.body for seen in endpoint.posts)
    assert len(caplog.messages) == 1
    assert "logprobs" in caplog.messages[0]


@pytest.mark.parametrize(
    "message",
    [
        "Input validation error: `top_n_tokens` must be >= 0 and <= 5. Given: 20",
        "Requested sample logprobs of 20, which is greater than max allowed: 5",
    ],
)
async def test_an_endpoint_that_tells_fewer_tokens_is_asked_for_those(
    endpoint: Endpoint, model: OpenAIModel, message: str
) -> None:
    endpoint.script = [error(422, message), answer(scored())]
    replies = [await rank(model, n) for n in (1, 2)]
    assert [r.expectation("topic") for r in replies] == [pytest.approx(7.25)] * 2
    assert [seen.body["top_logprobs"] for seen in endpoint.posts] == [20, 5, 5]


@pytest.mark.parametrize("given", [None, {}, {"content": None}, {"tokens": ["{"]}, "none"])
async def test_an_endpoint_that_answers_without_probabilities_is_not_asked_for_them_again(
    endpoint: Endpoint, model: OpenAIModel, caplog: pytest.LogCaptureFixture, given: Any
) -> None:
    body = scored()
    body["choices"][0]["logprobs"] = given
    endpoint.script = [answer(body)]
    with caplog.at_level(logging.WARNING):
        replies = [await rank(model, n) for n in (1, 2, 3)]
    assert [(r.topic, r.expectation("topic")) for r in replies] == [(8, None)] * 3
    assert ["logprobs" in seen.body for seen in endpoint.posts] == [True, False, False]
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    "odd",
    [
        {"logprob": None}, {"logprob": "x"}, {"logprob": math.inf}, {"bytes": [999]},
        {"bytes": "x"}, {"top_logprobs": [None, 3, {"token": 5}]}, {"top_logprobs": {}},
        {"logprob": -(10**400)},
    ],
)  # fmt: skip
async def test_odd_probabilities_spoil_no_reply(
    endpoint: Endpoint, model: OpenAIModel, odd: dict[str, Any]
) -> None:
    tokens = [{**token, **odd} for token in TOKENS]
    endpoint.script = [answer(scored(tokens=tokens))]
    assert (await rank(model)).topic == 8
