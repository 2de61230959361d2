from __future__ import annotations

import pickle

import pytest

from hpcscientist.models.endpoint.client import read_overflow


@pytest.mark.parametrize(
    ("said", "context", "prompt_tokens"),
    [
        (
            "This model's maximum context length is 2048 tokens. However, your prompt contains "
            "2100 input tokens, which exceeds this limit even without any output tokens.",
            2048,
            2100,
        ),
        (
            "This model's maximum context length is 2048 tokens. However, your prompt contains at "
            "least 1537 input tokens, which exceeds this limit even without any output tokens.",
            2048,
            0,
        ),
        (
            "This model's maximum context length is 2048 tokens. However, your prompt contains "
            "99000 characters (more than 24576 characters, which is the upper bound for 1536 "
            "input tokens). Please reduce the length of the input prompt.",
            2048,
            0,
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum "
            "context length is 2048 tokens and your request has 27 input tokens (4096 > 2048 - "
            "27).",
            2048,
            27,
        ),
        (
            "Input length (3000) exceeds model's maximum context length (2048).",
            2048,
            3000,
        ),
        (
            "The decoder prompt (length 3000) is longer than the maximum model length of 2048. "
            "Make sure that `max_model_len` is no smaller than the number of text tokens.",
            2048,
            3000,
        ),
        (
            "This model's maximum context length is 4096 tokens. However, you requested 5023 "
            "tokens (927 in the messages, 4096 in the completion).",
            4096,
            927,
        ),
        ("the request exceeds the available context size (4096 tokens)", 4096, 0),
        ("request (5000 tokens) exceeds the available context size (4096 tokens)", 4096, 5000),
        ("input (5000 tokens) is longer than the model's context length (4096 tokens)", 4096, 5000),
        (
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: "
            "5000 `inputs` tokens and 1000 `max_new_tokens`",
            4096,
            5000,
        ),
        ("`inputs` must have less than 1024 tokens. Given: 2000", 1024, 2000),
        (
            "Requested token count exceeds the model's maximum context length of 4096 tokens. You "
            "requested a total of 5000 tokens: 1000 tokens from the input messages and 4000 tokens "
            "for the completion.",
            4096,
            1000,
        ),
    ],
)  # fmt: skip
def test_what_servers_say(said: str, context: int, prompt_tokens: int) -> None:
    error = read_overflow("refused", said)
    assert error is not None
    assert (error.context, error.prompt_tokens) == (context, prompt_tokens)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.context, again.prompt_tokens) == ("refused", context, prompt_tokens)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "bad temperature",
        "max_tokens must be positive",
        "no context given",
        "in context 7",
        "Input validation error: `max_new_tokens` must be <= 512. Given: 8192",
    ],
)
def test_other_refusals(said: str) -> None:
    assert read_overflow("refused", said) is None
