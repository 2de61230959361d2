"""What servers say when a request is longer than the model's context."""

from __future__ import annotations

import re

from hpcscientist.errors import ContextOverflow

# vLLM (of several years), SGLang, llama.cpp, TGI, OpenAI.
_CONTEXT = re.compile(
    r"(?:context (?:length|window|size)|model(?:'s maximum)? length|max_model_len)"
    r"(?: is| of| \(| limit)*(?: only)?[ :=(]*(?P<after>[0-9]+)"
    r"|context size \((?P<llama>[0-9]+)"
    r"|max_new_tokens`? must be <= (?P<tgi>[0-9]+)\. Given: [0-9]+ `inputs`"
    r"|`inputs` must have less than (?P<input>[0-9]+) tokens",
    re.I,
)
_PROMPT = re.compile(
    r"(?:contains|has|passed|Given:) (?P<least>at least )?(?P<a>[0-9]+) (?:`inputs` |input )tokens"
    r"|prompt \(length (?P<b>[0-9]+)\)"
    r"|input length \((?P<c>[0-9]+)\)"
    r"|input \((?P<d>[0-9]+) tokens\)"
    r"|\((?P<e>[0-9]+) in the messages"
    r"|request \((?P<f>[0-9]+) tokens\)"
    r"|(?P<g>[0-9]+) tokens from the input"
    r"|`inputs` must have less than [0-9]+ tokens\. Given: (?P<h>[0-9]+)",
    re.I,
)


def read_overflow(message: str, said: str) -> ContextOverflow | None:
    """Return the error with `message` if a server's words complain of a context's length.

    What it counts is left at 0 where it names no number, or only a lower bound.
    """
    found = _CONTEXT.search(said)
    if found is None:
        return None
    prompt = _PROMPT.search(said)
    exact = prompt is not None and not prompt.group("least")
    return ContextOverflow(
        message,
        context=_number(found),
        prompt_tokens=_number(prompt) if prompt is not None and exact else 0,
    )


def _number(match: re.Match[str]) -> int:
    return next(int(text) for text in match.groups() if text and text.isdigit())
