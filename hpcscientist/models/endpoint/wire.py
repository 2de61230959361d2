"""The chat-completions format: addresses, payloads, replies. No input or output happens here."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlsplit

from hpcscientist.errors import ModelSpecError
from hpcscientist.files.text import one_line
from hpcscientist.models.endpoint.retry import Transient
from hpcscientist.models.text import estimate_tokens, split_reasoning
from hpcscientist.records.asked.model import ModelReply, ModelRequest
from hpcscientist.records.bounds import MOST

_SCHEMA_REFUSED = re.compile(
    r"response_format|json[ _]schema|structured[ _]outputs?|guided[ _](json|decoding)", re.I
)
_RAY_CONTEXT = "max_request_context_length"
_FORM = "http://HOST:PORT/v1#NAME"


def check_base_url(url: str) -> str:
    """Return an endpoint's base address without its last slash.

    Raises ModelSpecError. Addresses with credentials are refused, and not repeated in the
    message, because the address is recorded and shown.
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


def payload(request: ModelRequest, name: str, structured: bool) -> dict[str, Any]:
    """Return the body of a chat-completions request; with its JSON schema if `structured`."""
    body: dict[str, Any] = {
        "model": name,
        "messages": [message.model_dump() for message in request.messages],
        "temperature": request.temperature,
        "top_p": request.top_p,  # left out, vLLM takes it from the model's own files
        "max_tokens": request.max_tokens,
        "stream": False,
    }
    if request.seed is not None:
        body["seed"] = request.seed
    if request.ignore_eos:
        body["ignore_eos"] = True
    if structured and request.reply_schema is not None:
        # Not `strict`: that dialect refuses optional fields and bounds, which ours have.
        schema = {"name": request.schema_name or request.stage, "schema": request.reply_schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def refuses_schema(status: int, body: bytes) -> bool:
    """Tell whether an endpoint without structured replies has refused `response_format`."""
    return status in {400, 422} and _SCHEMA_REFUSED.search(error_text(body)) is not None


def read_reply(body: bytes, request: ModelRequest, name: str, latency_s: float) -> ModelReply:
    """Read a successful response. Raises Transient where it is none, whatever its status.

    Reasoning is kept apart from the text, wherever the server put it, and is part of the
    counted tokens.
    """
    parsed = _parse(body)
    if not isinstance(parsed, dict):
        raise Transient("the reply's body is no JSON object")
    choice = _choice(parsed)
    message = choice.get("message")
    if not isinstance(message, dict):
        detail = error_text(body) if "error" in parsed else "it has no choices"
        raise Transient(f"the reply's body is no completion: {detail}")
    content, apart = _text(message.get("content")), _reasoning(message)
    inside, answer = split_reasoning(content)
    finish = choice.get("finish_reason")
    usage = parsed.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    prompt, completion = _count(counts, "prompt_tokens"), _count(counts, "completion_tokens")
    asked = "".join(m.content for m in request.messages)
    served = parsed.get("model")
    return ModelReply(
        text=answer,
        reasoning="\n\n".join(part for part in (apart.strip(), inside) if part),
        finish=one_line(_clean(finish)) if isinstance(finish, str) else "",
        model=_clean(served) if isinstance(served, str) and served else name,
        prompt_tokens=estimate_tokens(asked) if prompt is None else prompt,
        completion_tokens=estimate_tokens(apart + content) if completion is None else completion,
        tokens_estimated=prompt is None or completion is None,
        latency_s=latency_s,
    )


def error_text(body: bytes) -> str:
    """Return what a server says is wrong, be its body JSON of any known shape or plain text."""
    parsed = _parse(body)
    for key in ("error", "detail", "message"):
        while isinstance(parsed, dict) and key in parsed:
            parsed = parsed[key]
    if isinstance(parsed, dict) and "message" in parsed:
        parsed = parsed["message"]
    if isinstance(parsed, str):
        return parsed
    return body.decode("utf-8", "replace") if parsed is None else json.dumps(parsed)


def served_context(body: bytes, name: str) -> int:
    """Return a model's context length in the reply to GET /models; 0 where it is not told.

    vLLM gives `max_model_len`, Ray Serve LLM puts its own name for it into `metadata`.
    """
    for entry in _served(body) or []:
        if entry.get("id") in {name, f"{name}:latest"}:
            metadata = entry.get("metadata")
            below = metadata if isinstance(metadata, dict) else {}
            return _count(entry, "max_model_len") or _count(below, _RAY_CONTEXT) or 0
    return 0


def served_names(body: bytes) -> list[str] | None:
    """Return the names in the reply to GET /models; None where it is no such list."""
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


def _text(content: Any) -> str:
    if isinstance(content, list):  # content in parts
        parts = (part.get("text") for part in content if isinstance(part, dict))
        content = "".join(part for part in parts if isinstance(part, str))
    return _clean(content) if isinstance(content, str) else ""


def _reasoning(message: dict[str, Any]) -> str:
    found = message.get("reasoning_content") or message.get("reasoning")
    return _clean(found) if isinstance(found, str) else ""


def _count(usage: dict[str, Any], key: str) -> int | None:
    """Return a count of tokens; None where there is none, or one that cannot be true."""
    value = usage.get(key)
    usable = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST
    return value if usable else None


def _clean(text: str) -> str:
    # JSON escapes can smuggle in half a surrogate pair, which no file can hold.
    return text.encode("utf-8", "replace").decode()
