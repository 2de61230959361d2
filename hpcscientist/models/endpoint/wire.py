"""The chat-completions format: addresses, payloads, replies. No input or output happens here."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from hpcscientist.errors import ModelSpecError
from hpcscientist.files.text import one_line
from hpcscientist.models.answers import estimate_tokens, split_reasoning
from hpcscientist.models.endpoint.retry import Transient
from hpcscientist.models.odds import TokenOdds, of_numbers
from hpcscientist.records.base import MOST
from hpcscientist.records.model_calls import ModelReply, ModelRequest

# How servers refer to a reply's schema, and how they refuse one that they cannot enforce.
_SCHEMA = re.compile(
    r"(?:response|output)[ _]?(?:format|schema)|json[ _-]?(?:schema|object|mode)"
    r"|structured[ _-]?(?:output|generation)"
    r"|(?:guided|constrained|grammar)[ _-]?(?:json|decod|generation)|guided ?decod"
    r"|grammar|xgrammar|outlines|llguidance|lm[ _-]?format[ _-]?enforcer"
    r"|unimplemented keys|regex from schema|schema .{0,40}(?:invalid|not valid|unsupported)"
    r"|(?:invalid|unsupported) .{0,40}schema|schema produces",
    re.I | re.S,
)
_REFUSES_SCHEMA = frozenset({400, 422, 424, 500})  # and 501, with any message
_UNKNOWN = (
    r"(?:unsupported|not support|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed"
    r"|extra[ _](?:input|field|forbidden)|deprecated)"
)
# A server that does not know a field says so near the field's name.
_UNKNOWN_FIELD = r"{unknown}[^.;]{{0,80}}\b{name}\b|\b{name}\b[^.;]{{0,80}}{unknown}"
MAX_TOKENS, NEW_MAX_TOKENS = "max_tokens", "max_completion_tokens"
SCHEMA, SEED = "response_format", "seed"
BEGUN = "continue_final_message"
_WITH_BEGUN = "add_generation_prompt"
# Servers that require the last turn to be the user's: Mistral's, Anthropic's.
_LAST_TURN = re.compile(r"\blast (?:role|message|turn)\b|\bprefill", re.I)
LOGPROBS, TOP_LOGPROBS = "logprobs", "top_logprobs"
INSTEAD = {  # what happens without a field
    SCHEMA: "replies are checked here alone",
    MAX_TOKENS: f"{NEW_MAX_TOKENS} is sent in its place",
    SEED: "the same question may have another answer",
    BEGUN: "replies begin as the model likes",
    LOGPROBS: "scores are what was sampled",
    TOP_LOGPROBS: "those of fewer tokens are asked for",
}
_MOST_TOKENS, _FEWER_TOKENS = 20, 5  # likeliest tokens requested for each place
_PROBABILITIES = re.compile(r"\blog_?prob(?:abilitie)?s\b|\btop_(?:logprobs|n_tokens)\b", re.I)
_TOO_MANY = re.compile(
    r"(?:logprobs|n_tokens)[^.;]{0,80}(?:<=?|at most|max|between|range|less than|greater than"
    r"|exceed|up to)",
    re.I,
)
_REFUSES_LOGPROBS = frozenset({400, 422, 500, 501})  # 500: llama-cpp-python
_CONTEXT = re.compile(r"context (?:length|size|window)|max(?:imum)?[ _]model[ _]len|`inputs`", re.I)
_SETTING = re.compile(r"\b(max_(?:new_|completion_|output_)?tokens|temperature|top_p)\b", re.I)
_RAY_CONTEXT = "max_request_context_length"
_ERRORS = ("error", "detail", "message")
_BESIDE = ("param", "n_prompt_tokens", "n_ctx")  # OpenAI's and others'; llama.cpp's
_FAILED = frozenset({"abort", "error"})  # finish reasons for a reply that the server broke off
# Where servers put a model's reasoning, and the types of message parts that hold it.
_REASONING = ("reasoning_content", "reasoning", "thinking", "reasoning_details", "thinking_blocks")
_THOUGHTS = frozenset({"thinking", "reasoning"})
_PART = ("text", "thinking", "reasoning", "content")
_FORM = "http://HOST:PORT/v1#NAME"


def check_base_url(url: str) -> str:
    """Return an endpoint's base address without its last slash.

    Raises ModelSpecError. An address with credentials is refused and not repeated in the message,
    because addresses are recorded and shown.
    """
    if "@" in url or "?" in url:
        raise ModelSpecError(
            f"the model's address holds credentials or a query; give {_FORM} "
            "and put the key into HPCSCI_API_KEY"
        )
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:  # a port that is no number, or half an IPv6 address
        usable = False
    if not usable or not url.isascii() or not url.isprintable() or " " in url:
        raise ModelSpecError(f"{url!r} is no address of an endpoint; give {_FORM}")
    base = url.rstrip("/")
    if base.endswith("/chat/completions"):
        base = base.removesuffix("/chat/completions")
        raise ModelSpecError(f"leave /chat/completions out of the model's address: {base}#NAME")
    return base


def payload(request: ModelRequest, name: str, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the body of a chat-completions request, with only the fields that are set.

    `without` names fields that the endpoint refused. `max_tokens` is then sent under its newer name
    and `top_logprobs` with a lower value; other fields are omitted.
    """
    body: dict[str, Any] = {
        "model": name,
        "messages": [message.model_dump() for message in request.messages],
        "temperature": request.temperature,
        NEW_MAX_TOKENS if MAX_TOKENS in without else MAX_TOKENS: request.max_tokens,
        "stream": False,
    }
    if request.top_p is not None:  # Text Generation Inference refuses 1.0, the neutral value
        body["top_p"] = request.top_p
    if request.seed is not None and SEED not in without:
        body[SEED] = request.seed
    if request.scale and LOGPROBS not in without:
        body[LOGPROBS] = True
        body[TOP_LOGPROBS] = _FEWER_TOKENS if TOP_LOGPROBS in without else _MOST_TOKENS
    if request.ignore_eos:
        body["ignore_eos"] = True
    if request.begun and BEGUN not in without:
        # For vLLM, SGLang and llama.cpp; other servers see a finished last turn and start anew.
        body["messages"].append({"role": "assistant", "content": request.begun})
        body |= {BEGUN: True, _WITH_BEGUN: False}
    if request.reply_schema is not None and SCHEMA not in without:
        # Not `strict`: that dialect refuses optional fields and bounds, which our schemas have.
        schema = {"name": request.schema_name or request.stage, "schema": request.reply_schema}
        body[SCHEMA] = {"type": "json_schema", "json_schema": schema}
    return body


def refused_field(status: int, said: str, body: Mapping[str, object]) -> str | None:
    """Return the field of a request's body that an endpoint refuses and can do without, if any.

    Such fields are the schema, which not every server enforces and none enforces completely;
    log-probabilities, or so many of them; the old name of `max_tokens`; the seed; and the reply's
    beginning. `said` is the endpoint's error message.
    """
    if LOGPROBS in body and status in _REFUSES_LOGPROBS and _PROBABILITIES.search(said):
        fewer = body[TOP_LOGPROBS] != _FEWER_TOKENS and _TOO_MANY.search(said)
        return TOP_LOGPROBS if fewer else LOGPROBS
    if SCHEMA in body and (
        status == 501 or (status in _REFUSES_SCHEMA and _SCHEMA.search(said) is not None)
    ):
        return SCHEMA
    if status in {400, 422}:
        if BEGUN in body and _LAST_TURN.search(said):
            return BEGUN
        for name in (MAX_TOKENS, SEED, BEGUN, _WITH_BEGUN):
            pattern = _UNKNOWN_FIELD.format(unknown=_UNKNOWN, name=name)
            if name in body and re.search(pattern, said, re.I):
                return BEGUN if name == _WITH_BEGUN else name
    return None


def fix_of(said: str) -> str:
    """Return advice for a refused request, from the endpoint's error message."""
    if _CONTEXT.search(said):
        return "serve the model with a longer context, or ask for fewer tokens"
    named = _SETTING.search(said)
    if named is None:
        return "see the server's log for why it refuses the request"
    name = named[1].lower()
    setting = MAX_TOKENS if name.endswith("tokens") else name
    return (
        f"set {setting} of the role that asks ([ideation], [code] or [review] in hpcsci.toml) to "
        "a value that it takes"
    )


def read_reply(body: bytes, request: ModelRequest, name: str, latency_s: float) -> ModelReply:
    """Parse a successful response. Raises Transient if it is no completion, whatever its status.

    Reasoning is separated from the text, wherever the server put it, and is part of the counted
    tokens.
    """
    parsed = _parse(body)
    if not isinstance(parsed, dict):
        raise Transient("the reply's body is no JSON object")
    choice = _choice(parsed)
    message = choice.get("message")
    if not isinstance(message, dict):
        told = any(key in parsed for key in _ERRORS)
        detail = error_text(body) if told else "it has no choices"
        raise Transient(f"the reply's body is no completion: {detail}")
    content, apart = _content(message)
    inside, answer = split_reasoning(content)
    if request.begun and not inside:
        answer = content  # it may begin within a line, so keep its whitespace
    finish = choice.get("finish_reason")
    if isinstance(finish, str) and finish in _FAILED and not content:
        raise Transient(f"the server ended the reply ({finish}): {_told(choice)}")
    usage = parsed.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    prompt, completion = _count(counts, "prompt_tokens"), _count(counts, "completion_tokens")
    asked = "".join(m.content for m in request.messages)
    served = parsed.get("model")
    return ModelReply(
        text=answer,
        reasoning="\n\n".join(part for part in (apart, inside) if part),
        finish=one_line(_clean(finish)) if isinstance(finish, str) else "",
        model=_clean(served) if isinstance(served, str) and served else name,
        prompt_tokens=estimate_tokens(asked) if prompt is None else prompt,
        completion_tokens=estimate_tokens(apart + content) if completion is None else completion,
        tokens_estimated=prompt is None or completion is None,
        latency_s=latency_s,
        odds=of_numbers(answer, _tokens(choice), request.scale) if request.scale else (),
    )


def tells_probabilities(body: bytes) -> bool:
    """Return whether a successful response holds probabilities of tokens."""
    parsed = _parse(body)
    return bool(isinstance(parsed, dict) and _tokens(_choice(parsed)))


def _tokens(choice: dict[str, Any]) -> list[TokenOdds]:
    """Return a reply's tokens; [] if the server sends none, or in an unknown form."""
    told = choice.get("logprobs")
    content = told.get("content") if isinstance(told, dict) else None
    tokens = []
    for entry in content if isinstance(content, list) else ():
        if not isinstance(entry, dict) or not isinstance(entry.get("token"), str):
            return []
        top = entry.get("top_logprobs")
        # The sampled token need not be among the likeliest.
        alike = [entry, *(top if isinstance(top, list) else ())]
        likely = {_piece(e): _probability(e) for e in alike if isinstance(e, dict)}
        tokens.append(TokenOdds(_piece(entry), likely))
    return tokens


def _piece(entry: dict[str, Any]) -> bytes:
    given = entry.get("bytes")
    if isinstance(given, list):
        with contextlib.suppress(ValueError, TypeError):
            return bytes(given)
    return str(entry.get("token", "")).encode("utf-8", "replace")


def _probability(entry: dict[str, Any]) -> float:
    value = entry.get("logprob")
    if not isinstance(value, int | float) or not value <= math.inf:  # NaN is not
        return 0.0
    return math.exp(max(min(value, 0.0), -1e4))


def error_text(body: bytes) -> str:
    """Return a server's error message, from JSON of any known shape or from plain text.

    Some servers name the field at fault, or the context's length, only beside the message: these
    follow it in brackets.
    """
    parsed = _parse(body)
    if isinstance(parsed, list) and len(parsed) == 1:  # Google's
        parsed = parsed[0]
    beside: dict[str, Any] = {}
    for key in _ERRORS:
        while isinstance(parsed, dict) and key in parsed:
            beside |= {name: parsed[name] for name in _BESIDE if parsed.get(name)}
            parsed = parsed[key]
    if isinstance(parsed, str):
        told = [f"{name}: {value}" for name, value in beside.items() if str(value) not in parsed]
        return f"{parsed} ({', '.join(told)})" if told else parsed
    return body.decode("utf-8", "replace") if parsed is None else json.dumps(parsed)


def served_context(body: bytes, name: str) -> int:
    """Return a model's context length from the reply to GET /models; 0 if it is missing.

    vLLM gives `max_model_len`; Ray Serve LLM puts a name of its own into `metadata`.
    """
    for entry in _served(body) or []:
        if entry.get("id") in {name, f"{name}:latest"}:
            metadata = entry.get("metadata")
            below = metadata if isinstance(metadata, dict) else {}
            return _count(entry, "max_model_len") or _count(below, _RAY_CONTEXT) or 0
    return 0


def served_names(body: bytes) -> list[str] | None:
    """Return the names in the reply to GET /models; None if it is no such list."""
    served = _served(body)
    if served is None:
        return None
    names = (entry.get("id") for entry in served)
    return sorted({_clean(name) for name in names if isinstance(name, str)})


def _served(body: bytes) -> list[dict[str, Any]] | None:
    parsed = _parse(body)
    entries = parsed.get("data") if isinstance(parsed, dict) else None
    if not isinstance(entries, list):
        return None
    return [entry for entry in entries if isinstance(entry, dict)]


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _choice(parsed: dict[str, Any]) -> dict[str, Any]:
    choices = parsed.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


def _content(message: dict[str, Any]) -> tuple[str, str]:
    """Return a message's content, and the reasoning that the server keeps separate.

    A server that enforces a schema through a tool call puts the object into the call's arguments.
    """
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    thoughts = [part for part in parts if isinstance(part, dict) and part.get("type") in _THOUGHTS]
    text = "".join(_texts([part for part in parts if part not in thoughts]))
    calls = message.get("tool_calls")
    if not text and isinstance(calls, list):
        functions = [call.get("function") for call in calls if isinstance(call, dict)]
        given = [one.get("arguments") for one in functions if isinstance(one, dict)]
        told = (json.dumps(one) if isinstance(one, dict) else one for one in given)
        text = "\n".join(one for one in told if isinstance(one, str))
    apart = [message.get(key) for key in _REASONING if message.get(key)][:1]
    return _clean(text), _clean("".join(_texts([*apart, *thoughts]))).strip()


def _texts(value: Any, depth: int = 4) -> Iterator[str]:
    """Yield the texts of a message part: a text, a list of parts, or a typed part."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and depth:
        for part in value:
            yield from _texts(part, depth - 1)
    elif isinstance(value, dict) and "type" in value and depth:
        yield from _texts(next((value[key] for key in _PART if key in value), None), depth - 1)


def _told(choice: dict[str, Any]) -> str:
    error = choice.get("error")
    said = error.get("message") if isinstance(error, dict) else error
    return said if isinstance(said, str) else "it says no reason"


def _count(usage: dict[str, Any], key: str) -> int | None:
    """Return a count of tokens; None if it is missing or impossible."""
    value = usage.get(key)
    usable = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST
    return value if usable else None


def _clean(text: str) -> str:
    # JSON escapes can carry half a surrogate pair, which no file can hold.
    return text.encode("utf-8", "replace").decode()
