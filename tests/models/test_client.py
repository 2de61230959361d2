"""The client against a real HTTP server that misbehaves."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

import pytest
from misbehaving_endpoint import (
    Act,
    Endpoint,
    Seen,
    answer,
    completion,
    error,
    hang,
    models,
    raw,
    reset,
    trickle,
)
from tenacity import Future, RetryCallState

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import EndpointError, ModelSpecError, ReplyError
from hpcscientist.models.endpoint.client import OpenAIModel
from hpcscientist.models.endpoint.exchange import Connection
from hpcscientist.models.endpoint.retry import RetryBackoff, Transient, retry_after_s
from hpcscientist.records.model_calls import Message, ModelRequest

KEY = "sk-secret-123"
# Quick to try again, and patient: what is to be given up is asked for by `impatient`.
QUICK = ClientSettings(
    timeout_s=300, retries=2, backoff_s=0.001, backoff_max_s=0.002, concurrency=4
)
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
OK = answer(completion("ok"))


def request(schema: bool = False) -> ModelRequest:
    return ModelRequest(
        subject="idea-0001",
        stage="propose",
        messages=(Message(role="user", content="12345678"),),
        schema_name="Thing" if schema else None,
        reply_schema=SCHEMA if schema else None,
        seed=4,
    )


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with Endpoint() as server:
        yield server


@pytest.fixture
async def model(endpoint: Endpoint) -> AsyncIterator[OpenAIModel]:
    client = OpenAIModel(endpoint.url, "tiny", QUICK, KEY)
    yield client
    await client.close()


def impatient(endpoint: Endpoint, timeout_s: float, retries: int = 1) -> OpenAIModel:
    own = {"timeout_s": timeout_s, "retries": retries}
    return OpenAIModel(endpoint.url, "tiny", QUICK.model_copy(update=own), KEY)


@pytest.fixture
def deadlines(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.Timeout]:
    """The deadlines of all tries so far."""
    timeout, found = asyncio.timeout, list[asyncio.Timeout]()

    def noted(seconds: float | None) -> asyncio.Timeout:
        found.append(timeout(seconds))
        return found[-1]

    monkeypatch.setattr("hpcscientist.models.endpoint.exchange.asyncio.timeout", noted)
    return found


async def failure(
    model: OpenAIModel, schema: bool = False, kind: type[Exception] = EndpointError
) -> str:
    with pytest.raises(kind) as caught:
        await model.complete(request(schema))
    message = str(caught.value)
    assert "\n" not in message
    assert KEY not in message
    return message


async def test_what_is_sent(endpoint: Endpoint, model: OpenAIModel) -> None:
    await model.complete(request(schema=True))
    seen: Seen = endpoint.posts[0]
    assert seen.path == "/v1/chat/completions"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.body == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "12345678"}],
        "temperature": 0.7,
        "max_tokens": 4096,
        "stream": False,
        "seed": 4,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "Thing", "schema": SCHEMA},
        },
    }


async def test_a_reply_of_full_length_is_asked_for_where_it_is_wanted(
    endpoint: Endpoint, model: OpenAIModel
) -> None:
    await model.complete(request().model_copy(update={"ignore_eos": True}))
    assert endpoint.posts[0].body["ignore_eos"] is True


async def test_no_key_no_header(endpoint: Endpoint) -> None:
    model = OpenAIModel(endpoint.url, "tiny", QUICK)
    await model.complete(request())
    await model.close()
    assert "authorization" not in endpoint.posts[0].headers


@pytest.mark.parametrize(
    "bad",
    [
        error(500, "boom"),
        error(503, "loading"),
        error(429, "slow down", {"Retry-After": "7200"}),
        error(429, "slow down", {"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}),
        error(429, "slow down", {"Retry-After": "whenever"}),
        error(408, "slow"),
        error(424, "Request failed during generation: Server error: out of memory"),
        answer({"object": "error", "message": "worker lost", "code": 50002}),
        error(409, "conflict"),
        reset,
        raw(b""),
        raw(b"this is not HTTP\r\n\r\n"),
        answer(b'{"choices": [{"message": {"con'),
        answer(completion("ok"), missing=40),
        answer(b"<html>log in</html>"),
        answer([1, 2]),
        answer({}),
        answer({"choices": []}),
        answer({"choices": [{"text": "an old completion"}]}),
        answer({"error": {"message": "out of memory"}}),
        answer(b"[" * 200_000),
        answer(completion("ok"), headers={"Content-Encoding": "gzip"}),
    ],
)
async def test_a_try_that_may_be_repeated_is(
    endpoint: Endpoint, model: OpenAIModel, bad: Act
) -> None:
    endpoint.script = [bad, bad, OK]
    assert (await model.complete(request())).text == "ok"
    assert len(endpoint.posts) == 3
    endpoint.seen.clear()
    endpoint.script = [bad]
    message = await failure(model)
    assert len(asked(endpoint)) == 3
    assert endpoint.url in message
    assert "3 times" in message


def asked(endpoint: Endpoint) -> list[Seen]:
    """The requests that were ours: an endpoint that fails is also asked whether it answers."""
    return [s for s in endpoint.posts if s.body["messages"][0]["content"] == "12345678"]


def failing_at(endpoint: Endpoint, bad: Act, fails: Callable[[Seen], bool]) -> None:
    """Have an endpoint fail at some requests, whenever they come, and answer all others."""

    async def act(endpoint: Endpoint, writer: asyncio.StreamWriter) -> None:
        await (bad if fails(endpoint.posts[-1]) else OK)(endpoint, writer)

    endpoint.script = [act]


@pytest.mark.parametrize("bad", [error(500, "boom"), error(503, "full"), reset, hang])
async def test_a_request_at_which_the_endpoint_fails_is_not_the_endpoints_fault(
    endpoint: Endpoint, deadlines: list[asyncio.Timeout], bad: Act
) -> None:
    async def acts(server: Endpoint, writer: asyncio.StreamWriter) -> None:
        if bad is hang:  # its time is up when it hangs, and that of no other request
            deadlines[-1].reschedule(asyncio.get_running_loop().time())
        await bad(server, writer)

    model = impatient(endpoint, 300)
    failing_at(endpoint, acts, lambda seen: seen.body["messages"][0]["content"] == "12345678")
    message = await failure(model, kind=ReplyError)
    assert "tried 2 times" in message and "answers others" in message
    assert len(asked(endpoint)) == 2
    assert len(endpoint.posts) == 3, "the question whether it answers is asked once"
    other = request().model_copy(update={"messages": (Message(role="user", content="else"),)})
    assert (await model.complete(other)).text == "ok"
    await model.close()


async def test_many_such_requests_in_a_row_are_the_endpoints(
    endpoint: Endpoint, model: OpenAIModel
) -> None:
    failing_at(
        endpoint, error(500, "boom"), lambda seen: seen.body["messages"][0]["content"] == "12345678"
    )
    other = request().model_copy(update={"messages": (Message(role="user", content="else"),)})
    for _ in range(2):  # what is answered in between starts the count anew
        await failure(model, kind=ReplyError)
        await failure(model, kind=ReplyError)
        await model.complete(other)
    await failure(model, kind=ReplyError)
    await failure(model, kind=ReplyError)
    assert "server runs" in await failure(model, kind=EndpointError)


@pytest.mark.parametrize("bad", [hang, trickle])
async def test_the_deadline_bounds_a_whole_try(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture, bad: Act
) -> None:
    caplog.set_level(logging.INFO)
    endpoint.script = [bad]
    timeout_s = 0.05
    while len(asked(endpoint)) < 2:  # a try may end before the endpoint has heard of it
        timeout_s *= 2
        caplog.clear()
        model = impatient(endpoint, timeout_s)
        message = await failure(model)
        await model.close()
        late = f" {timeout_s:g} s (client.timeout_s)"
        assert "2 times" in message and late in message
        assert caplog.text.count(f"{late}; trying again") == 1


async def test_a_hang_is_got_over(endpoint: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    model = impatient(endpoint, 1.0, retries=50)  # a slow machine may be late with some
    endpoint.script = [hang, hang, OK]
    reply = await model.complete(request().model_copy(update={"max_tokens": 2**20}))
    assert reply.text == "ok"
    assert endpoint.hanging.is_set()
    # The same question with the same seed would hang again, if it is a reply without an end.
    sent = [seen.body for seen in asked(endpoint)]
    assert len({body["seed"] for body in sent}) == len(sent)
    assert sent[0]["max_tokens"] >= 2 * sent[1]["max_tokens"] >= 4 * sent[2]["max_tokens"]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    await model.close()


async def test_a_reply_out_of_time_is_not_asked_for_with_too_few_tokens(endpoint: Endpoint) -> None:
    model = impatient(endpoint, 1.0, retries=50)
    endpoint.script = [hang, OK]
    await model.complete(request().model_copy(update={"max_tokens": 300}))
    assert [seen.body["max_tokens"] for seen in asked(endpoint)][-1] == 256
    await model.close()


async def test_an_endless_reply_is_cut(
    endpoint: Endpoint, model: OpenAIModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpcscientist.models.endpoint.exchange._BODY_LIMIT", 2**20)
    endpoint.script = [answer(completion("x" * 2**20))]
    assert "longer than 1 MiB" in await failure(model)


@pytest.mark.parametrize(
    ("status", "fix"),
    [(400, "server's log"), (401, "HPCSCI_API_KEY"), (403, "HPCSCI_API_KEY"), (307, "redirects")],
)
async def test_refusals_are_final(
    endpoint: Endpoint, model: OpenAIModel, status: int, fix: str
) -> None:
    endpoint.script = [error(status, f"no good:\nBearer {KEY}")]
    kind = ReplyError if status == 400 else EndpointError
    message = await failure(model, kind=kind)
    assert fix in message
    assert "no good: Bearer ***" in message
    assert len(endpoint.posts) == 1


async def test_a_key_cut_in_half_is_hidden_too(endpoint: Endpoint, model: OpenAIModel) -> None:
    endpoint.script = [error(401, "x" * 292 + KEY)]
    assert KEY[:4] not in await failure(model)


async def test_a_prompt_that_is_too_long(endpoint: Endpoint, model: OpenAIModel) -> None:
    endpoint.script = [error(400, "the maximum context length is 8 tokens")]
    assert "longer context" in await failure(model, kind=ReplyError)


async def test_retries_are_logged_without_the_key(
    endpoint: Endpoint, model: OpenAIModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    endpoint.script = [
        error(500, f"bad {KEY}"),
        answer({"error": f"bad {KEY}"}),
        OK,
    ]
    await model.complete(request())
    assert "HTTP 500: bad ***; trying again" in caplog.text
    assert KEY not in caplog.text


async def test_404_names_what_is_served(endpoint: Endpoint, model: OpenAIModel) -> None:
    endpoint.script = [error(404, "The model `tiny` does not exist.")]
    endpoint.models = models("org/tiny-7b", "zebra")
    message = await failure(model)
    assert re.search(r"'tiny'; .*: org/tiny-7b, zebra; .*'org/tiny-7b'\?$", message)
    assert len(endpoint.seen) == 2


@pytest.mark.parametrize(
    "listing", [error(404, "Not Found"), error(500, "boom"), reset, models("tiny")]
)
async def test_404_where_the_list_is_of_no_help(
    endpoint: Endpoint, model: OpenAIModel, listing: Act
) -> None:
    endpoint.script = [error(404, "Not Found")]
    endpoint.models = listing
    assert "end in /v1" in await failure(model)


async def test_an_endpoint_without_structured_replies(
    endpoint: Endpoint, model: OpenAIModel
) -> None:
    endpoint.script = [error(400, "unknown field: response_format"), OK]
    assert (await model.complete(request(schema=True))).text == "ok"
    await model.complete(request(schema=True))
    sent = ["response_format" in seen.body for seen in endpoint.posts]
    assert sent == [True, False, False]


async def test_the_fallback_happens_once(endpoint: Endpoint, model: OpenAIModel) -> None:
    endpoint.script = [error(400, "unknown field: response_format")]
    assert "unknown field" in await failure(model, schema=True, kind=ReplyError)
    assert len(endpoint.posts) == 2


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "Failed to initialize samplers: failed to parse grammar"),
        (422, "Input validation error: grammar is not valid: Grammar must have a 'properties'"),
        (422, "Input validation error: cannot compile regex from schema: no such type"),
        (424, "Request failed during generation: Server error: grammar is not supported"),
        (500, 'Grammar error: Unimplemented keys: ["uniqueItems"]'),
        (400, "The provided JSON schema contains features not supported by xgrammar."),
        (400, "Request is specified with GuidedDecodingParams, but GuidedDecoder is not setup."),
        (501, "not here"),
    ],
)
async def test_a_schema_that_cannot_be_enforced_is_left_out_from_then_on(
    endpoint: Endpoint,
    model: OpenAIModel,
    caplog: pytest.LogCaptureFixture,
    status: int,
    said: str,
) -> None:
    endpoint.script = [error(status, f"{said} {KEY}"), OK]
    asked = request(schema=True)
    for _ in range(2):
        assert (await model.complete(asked)).text == "ok"
    sent = ["response_format" in seen.body for seen in endpoint.posts]
    assert sent == [True, False, False]
    told = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 1
    assert KEY not in caplog.text
    # The server may know how to enforce another.
    await model.complete(asked.model_copy(update={"schema_name": "Other"}))
    assert "response_format" in endpoint.posts[-1].body


async def test_refused_schemas_are_said_once(
    endpoint: Endpoint, model: OpenAIModel, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = error(400, "failed to parse grammar")
    endpoint.script = [refusal, OK, refusal, OK]
    asked = request(schema=True)
    await model.complete(asked)
    await model.complete(asked.model_copy(update={"schema_name": "Other"}))
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_a_schema_is_blamed_only_if_the_request_is_answered_without_it(
    endpoint: Endpoint, model: OpenAIModel
) -> None:
    refusal = error(400, "json_schema: the prompt is odd")
    endpoint.script = [refusal, refusal, OK]
    await failure(model, schema=True, kind=ReplyError)
    await model.complete(request(schema=True))
    assert ["response_format" in seen.body for seen in endpoint.posts] == [True, False, True]


@pytest.mark.parametrize(
    ("said", "field", "newer"),
    [
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            "max_tokens",
            {"max_completion_tokens": 4096},
        ),
        (
            '[{"type": "extra_forbidden", "loc": ["body", "max_tokens"], "msg": "Extra inputs are '
            'not permitted"}]',
            "max_tokens",
            {"max_completion_tokens": 4096},
        ),
        ("litellm.UnsupportedParamsError: x does not support parameters: ['seed']", "seed", {}),
    ],
)
async def test_a_field_that_the_endpoint_does_not_know_is_left_out_from_then_on(
    endpoint: Endpoint, model: OpenAIModel, said: str, field: str, newer: dict[str, int]
) -> None:
    endpoint.script = [error(400, said), OK]
    await model.complete(request())
    await model.complete(request())
    first, *rest = (seen.body for seen in endpoint.posts)
    assert field in first
    assert len(rest) == 2
    for body in rest:
        assert body == {key: first[key] for key in first if key != field} | newer


async def test_a_reply_goes_on_from_its_beginning(endpoint: Endpoint, model: OpenAIModel) -> None:
    endpoint.script = [answer(completion("    return 1"))]
    reply = await model.complete(request().model_copy(update={"begun": "def f():\n"}))
    assert reply.text == "    return 1"
    body = endpoint.posts[0].body
    assert body["messages"][-1] == {"role": "assistant", "content": "def f():\n"}
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)


@pytest.mark.parametrize(
    "said",
    [
        "Extra inputs are not permitted: continue_final_message",
        "Unrecognized request argument supplied: add_generation_prompt",
        "Expected last role User or Tool for serving but got assistant",
    ],
)
async def test_a_server_that_takes_no_beginning_is_asked_without_from_then_on(
    endpoint: Endpoint, model: OpenAIModel, said: str
) -> None:
    endpoint.script = [error(400, said), OK]
    asked = request().model_copy(update={"begun": "def f():\n"})
    await model.complete(asked)
    await model.complete(asked)
    assert [len(seen.body["messages"]) for seen in endpoint.posts] == [2, 1, 1]
    assert all("add_generation_prompt" not in seen.body for seen in endpoint.posts[1:])


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("max_tokens is too large: 100000. This model supports at most 16384.", "set max_tokens"),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", "set max_tokens"),
        (
            "`max_tokens` must be less than or equal to `32768`, the maximum value for "
            "`max_tokens` is less than the `context_window` for this model",
            "set max_tokens",
        ),
        ("`max_new_tokens` must be <= 512. Given: 4096", "set max_tokens"),
        ("`top_p` must be > 0.0 and < 1.0", "set top_p"),
        ("'max_tokens' is too large. This model's maximum context length is 9", "longer context"),
    ],
)
async def test_the_setting_that_is_refused_is_named(
    endpoint: Endpoint, model: OpenAIModel, said: str, fix: str
) -> None:
    endpoint.script = [error(422, said)]
    assert fix in await failure(model, kind=ReplyError)
    assert len(endpoint.posts) == 1


async def test_another_400_is_no_reason_to_fall_back(
    endpoint: Endpoint, model: OpenAIModel
) -> None:
    endpoint.script = [error(400, "bad temperature")]
    await failure(model, schema=True, kind=ReplyError)
    assert len(endpoint.posts) == 1


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (None, (2, 1, True)),
        ({"prompt_tokens": 5}, (5, 1, True)),
        ({"prompt_tokens": "5", "completion_tokens": -1}, (2, 1, True)),
        ({"prompt_tokens": True, "completion_tokens": None}, (2, 1, True)),
        ("lots", (2, 1, True)),
        ({"prompt_tokens": 10**30, "completion_tokens": 10**19}, (2, 1, True)),
        ({"prompt_tokens": 2**53, "completion_tokens": 2**53 + 1}, (2**53, 1, True)),
        ({"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11}, (5, 6, False)),
    ],
)
async def test_token_counts(
    endpoint: Endpoint, model: OpenAIModel, usage: object, counts: tuple[int, int, bool]
) -> None:
    endpoint.script = [answer(completion("ok", usage=usage))]
    reply = await model.complete(request())
    assert (reply.prompt_tokens, reply.completion_tokens, reply.tokens_estimated) == counts


@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        ({"content": "<think>a {b}</think>\n\n{}"}, "{}", "a {b}"),
        ({"content": "so {b}\n</think>\nanswer"}, "answer", "so {b}"),
        ({"content": "<think>never ends"}, "", "never ends"),
        ({"content": '{"a": "</think>"}'}, '{"a": "</think>"}', ""),
        ({"content": "{}", "reasoning_content": "hm"}, "{}", "hm"),
        ({"content": "{}", "reasoning": "hm\n"}, "{}", "hm"),
        ({"content": "{}", "reasoning": {"no": "text"}}, "{}", ""),
        ({"content": "<think>b</think>{}", "reasoning": "a"}, "{}", "a\n\nb"),
        ({"content": None, "reasoning_content": "hm \ud83d"}, "", "hm ?"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab", ""),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "a"}]},
                    {"type": "text", "text": "b"},
                ]
            },
            "b",
            "a",
        ),
        (
            {"content": "b", "reasoning_details": [{"type": "reasoning.text", "text": "a"}]},
            "b",
            "a",
        ),
        ({"content": "b", "thinking_blocks": [{"type": "thinking", "thinking": "a"}]}, "b", "a"),
        (
            {"content": None, "tool_calls": [{"function": {"arguments": '{"a": 1}'}}]},
            '{"a": 1}',
            "",
        ),
        ({"content": "b", "reasoning": [[[[[[["deep"]]]]]]]}, "b", ""),
        ({"content": "half \ud83d pair"}, "half ? pair", ""),
        ({}, "", ""),
    ],
)
async def test_reasoning_is_kept_apart(
    endpoint: Endpoint,
    model: OpenAIModel,
    message: dict[str, object],
    text: str,
    reasoning: str,
) -> None:
    endpoint.script = [answer({"choices": [{"message": message}]})]
    reply = await model.complete(request())
    assert (reply.text, reply.reasoning) == (text, reasoning)
    assert reply.model == "tiny"


async def test_reasoning_counts_as_tokens(endpoint: Endpoint, model: OpenAIModel) -> None:
    message = {"content": "<think>45678</think>1234", "reasoning_content": "abcd"}
    endpoint.script = [answer({"choices": [{"message": message}]})]
    assert (await model.complete(request())).completion_tokens == 7


@pytest.mark.parametrize(
    ("said", "finish"), [("stop", "stop"), ("length", "length"), (None, ""), (3, "")]
)
async def test_why_a_reply_ended(
    endpoint: Endpoint, model: OpenAIModel, said: object, finish: str
) -> None:
    choice = {"message": {"content": "ok"}, "finish_reason": said}
    endpoint.script = [answer({"choices": [choice]})]
    assert (await model.complete(request())).finish == finish


@pytest.mark.parametrize("finish", ["abort", "error"])
async def test_a_reply_that_the_server_ended_is_asked_for_again(
    endpoint: Endpoint, model: OpenAIModel, finish: str
) -> None:
    choice = {"message": {"content": ""}, "finish_reason": finish, "error": {"message": "oops"}}
    endpoint.script = [answer({"choices": [choice]}), OK]
    assert (await model.complete(request())).text == "ok"


@pytest.mark.parametrize(("top_p", "sent"), [(None, False), (1.0, True)])
async def test_what_is_not_set_is_not_sent(
    endpoint: Endpoint, model: OpenAIModel, top_p: float | None, sent: bool
) -> None:
    await model.complete(request().model_copy(update={"top_p": top_p}))
    assert ("top_p" in endpoint.posts[0].body) is sent


async def test_sampling_is_sent_whatever_the_models_files_say(
    endpoint: Endpoint, model: OpenAIModel
) -> None:
    sampling = {"temperature": 0.0, "top_p": 0.5, "max_tokens": 7}
    await model.complete(request().model_copy(update=sampling))
    body = endpoint.posts[0].body
    assert {key: body[key] for key in sampling} == sampling


async def test_as_many_are_in_flight_as_are_allowed(endpoint: Endpoint) -> None:
    many = 120  # more than httpx allows by itself
    full = asyncio.Event()

    async def slow(server: Endpoint, writer: asyncio.StreamWriter) -> None:
        if server.active == many:
            full.set()
        await full.wait()
        await OK(server, writer)

    endpoint.script = [slow]
    model = OpenAIModel(endpoint.url, "tiny", QUICK.model_copy(update={"concurrency": many}), KEY)
    await asyncio.gather(*(model.complete(request()) for _ in range(many)))
    assert endpoint.most_active == many
    await model.close()


async def test_concurrency_is_bounded(endpoint: Endpoint, model: OpenAIModel) -> None:
    full, release = asyncio.Event(), asyncio.Event()

    async def slow(server: Endpoint, writer: asyncio.StreamWriter) -> None:
        if server.active == QUICK.concurrency:
            full.set()
        await release.wait()
        await OK(server, writer)

    endpoint.script = [slow]
    calls = asyncio.gather(*(model.complete(request()) for _ in range(12)))
    await full.wait()
    release.set()
    assert len(await calls) == 12
    assert endpoint.most_active == QUICK.concurrency


async def test_a_cancelled_call_frees_its_slot(endpoint: Endpoint) -> None:
    model = OpenAIModel(endpoint.url, "tiny", QUICK.model_copy(update={"concurrency": 1}))
    endpoint.script = [hang, OK]
    call = asyncio.create_task(model.complete(request()))
    await endpoint.hanging.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await model.complete(request())).text == "ok"
    await model.close()


async def test_proxies_are_not_followed(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    model = OpenAIModel(endpoint.url, "tiny", QUICK)
    assert (await model.complete(request())).text == "ok"
    await model.close()


async def test_unreachable_port() -> None:
    with socket.socket() as taken:  # bound but not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        model = OpenAIModel(url, "tiny", QUICK)
        message = await failure(model)
        assert url in message
        assert "reachable" in message
        with pytest.raises(EndpointError, match="2 times"):
            await model.probe()
        await model.close()


async def test_probe(endpoint: Endpoint, model: OpenAIModel) -> None:
    await model.probe()
    assert [(seen.method, seen.path) for seen in endpoint.seen] == [("GET", "/v1/models")]
    endpoint.models = models("tiny:latest")
    await model.probe()


@pytest.mark.parametrize(
    ("listing", "said"),
    [
        (models("tinny"), r"'tiny'; .*: tinny; .*'tinny'\?$"),
        (models(), "it serves: none$"),
        (error(401, "no key"), "HPCSCI_API_KEY"),
        (error(404, "Not Found"), "end in /v1"),
        (answer(b"<html>"), "end in /v1"),
        (answer({"data": 3}), "end in /v1"),
        (error(500, "boom"), "HTTP 500: boom"),
    ],
)
async def test_probe_fails(endpoint: Endpoint, model: OpenAIModel, listing: Act, said: str) -> None:
    endpoint.models = listing
    with pytest.raises(EndpointError) as caught:
        await model.probe()
    assert re.search(said, str(caught.value))


async def test_a_closed_client_says_so(model: OpenAIModel) -> None:
    await model.close()
    assert "closed" in await failure(model)


@pytest.mark.parametrize("key", ["né", "a\nb"])
def test_a_key_that_no_header_can_hold(key: str) -> None:
    with pytest.raises(ModelSpecError) as caught:
        OpenAIModel("http://h/v1", "tiny", QUICK, key)
    assert key not in str(caught.value)


async def test_white_space_around_a_key_is_no_part_of_it(endpoint: Endpoint) -> None:
    model = OpenAIModel(endpoint.url, "tiny", QUICK, f" {KEY}\n")
    await model.complete(request())
    await model.close()
    assert endpoint.posts[0].headers["authorization"] == f"Bearer {KEY}"


NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("3", 3.0),
        ("0.5", 0.5),
        ("Tue, 01 Jan 2030 12:00:10 GMT", 10.0),
        ("Tue, 01 Jan 2030 12:00:10 -0000", 10.0),
        ("Tue, 01 Jan 2030 11:00:00 GMT", None),
        ("0", None),
        ("-4", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("9" * 400, None),
        ("Tue, 01 Jan 99999999999999999999 12:00:10 GMT", None),
        ("Tue, 01 Jan 2030 12:00:10 +99999999999999", None),
        (None, None),
    ],
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    assert retry_after_s(header, NOW) == seconds


def waits(settings: ClientSettings, retry_after: float | None) -> list[float]:
    found = []
    for number in (1, 2, 3, 20):
        state = RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]
        state.attempt_number = number
        state.outcome = Future(number)
        state.outcome.set_exception(Transient("x", retry_after))
        found.append(RetryBackoff(settings)(state))
    return found


def test_backoff_doubles_with_jitter_up_to_its_cap() -> None:
    first, second, third, last = waits(ClientSettings(backoff_s=1, backoff_max_s=10), None)
    assert 1 <= first <= 2 <= second <= 3
    assert 4 <= third <= 5
    assert last == 10


def test_retry_after_is_honoured_up_to_the_cap() -> None:
    assert waits(ClientSettings(backoff_max_s=10), 3.5) == [3.5] * 4
    assert waits(ClientSettings(backoff_max_s=10), 3600.0) == [10] * 4


def test_settings_round_trip() -> None:
    settings = ClientSettings()
    assert ClientSettings.model_validate_json(settings.model_dump_json()) == settings
    assert json.loads(settings.model_dump_json())["retries"] == 5


async def test_a_cancellation_is_not_lost_while_it_connects() -> None:
    """The loop's steps up to the cancellation are counted, until it is connected before."""
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    cancelled = 0
    for steps in range(100):
        opening = asyncio.create_task(Connection.open(url, None, 20.0))
        for _ in range(steps):
            await asyncio.sleep(0)
        if not opening.cancel():
            opening.result().close()
            break
        with pytest.raises(asyncio.CancelledError):
            await opening
        cancelled += 1
    server.close()
    assert 0 < cancelled < 100
