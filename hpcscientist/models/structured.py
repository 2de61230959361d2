"""Structured replies: extracts JSON from a model's text, validates it, and asks for repairs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from hpcscientist.errors import ContextOverflow, ReplyError
from hpcscientist.files.handed import is_too_deep
from hpcscientist.files.text import one_line
from hpcscientist.models.answers import (
    LONGEST_REPLY,
    find_objects,
    prompt_hash,
    split_reasoning,
    strip_reasoning,
)
from hpcscientist.models.odds import by_field
from hpcscientist.models.prompting.fitting import Fitted, Prompt, Window, fixed, shortened
from hpcscientist.models.prompting.prompts import render
from hpcscientist.models.reply_limits import Limits, in_forms, narrowed
from hpcscientist.ports import Model
from hpcscientist.records.base import Scored, misfit, place_of
from hpcscientist.records.idea import idea_seed
from hpcscientist.records.model_calls import ModelReply, ModelRequest

T = TypeVar("T", bound=BaseModel)

REPAIRS = 2
WARMER = 0.2  # rise of the temperature from one repair to the next
CUT_OFF = "length"  # the finish reason of endpoints for a reply that ended at max_tokens
_WRAPPED = 3  # objects around the one that is meant
_TORN = "the reply holds no complete JSON object; it is malformed or cut off"


class Unusable(Exception):
    """A text holds no reply of the wanted type; the message is one line."""


async def ask(
    model: Model,
    request: ModelRequest,
    reply_type: type[T],
    repairs: int = REPAIRS,
    prompt: Prompt | None = None,
    window: Window | None = None,
    limits: Limits | None = None,
) -> T:
    """Ask for a reply of a type, and ask again with the error, at most `repairs` times.

    `prompt` replaces the request's messages. Each request sends as much of it as fits into `window`
    beside the answer. The type's JSON schema, narrowed by `limits`, goes with the request, and also
    into the prompt where the endpoint may ignore it. Raises ReplyError after the last repair or
    where the shortest prompt does not fit, and what `model` raises.
    """
    schema = _schema(reply_type)
    window = window or Window()
    asked = with_format(prompt or fixed(request.messages), reply_type, window, limits)
    now, problem = asked, ""
    for repair in range(repairs + 1):
        call = request.model_copy(
            update={
                "schema_name": reply_type.__name__,
                "reply_schema": narrowed(schema, limits or {}),
                "repair": repair,
                # Small models give the same reply again if nothing changes.
                "temperature": warmer(request.temperature, repair * WARMER),
                "seed": idea_seed(request.seed, repair)
                if request.seed and repair
                else request.seed,
                "scale": reply_type.highest if issubclass(reply_type, Scored) else 0,
            }
        )
        try:
            reply = await complete(model, call, now, window)
        except ReplyError as error:
            if not repair:
                raise
            # A playbook has no repair for an unusable reply: name the problem of the reply itself.
            raise ReplyError(
                f"{request.subject}: no usable reply for {request.key}: {problem}; "
                f"nor for its repair: {error}"
            ) from error
        try:
            return _expected(read(reply, reply_type), reply)
        except Unusable as error:
            problem = str(error)
        if reply.finish == CUT_OFF:
            problem = f"{problem}; {_cut_off(reply)}"
        # Only the latest reply is shown, so the prompt does not grow with each repair.
        said = render(
            "repair",
            problem=problem,
            cut_off=reply.finish == CUT_OFF,
            thought_only=not reply.text,
        )
        now = asked.answered(shortened(reply.text), said)
    count = "1 repair" if repairs == 1 else f"{repairs} repairs"
    raise ReplyError(
        f"{request.subject}: no usable reply for {request.key} after {count}: {problem}"
    )


def with_format(
    prompt: Prompt, reply_type: type[BaseModel], window: Window, limits: Limits | None = None
) -> Prompt:
    """Return a prompt as it is sent: with the format that its answer must have."""
    told = json.dumps(in_forms(_schema(reply_type), limits or {}), ensure_ascii=False)
    told = "" if window.holds_schemas else told
    return prompt.noted(render("reply_format", schema=told))


def warmer(temperature: float, by: float) -> float:
    """Return a temperature raised by `by`, but not above 1 unless it was higher already."""
    return max(temperature, min(1.0, temperature + by))


@cache
def _schema(reply_type: type[BaseModel]) -> dict[str, Any]:
    """Return a type's JSON schema. It is cached, so callers must not change it."""
    return reply_type.model_json_schema()


async def complete(
    model: Model, request: ModelRequest, prompt: Prompt, window: Window
) -> ModelReply:
    """Send as much of a prompt as fits; if the server refuses it as too long, refit and retry once.

    Raises ReplyError where the shortest prompt does not fit, and what `model` raises.
    """
    call = f"{request.subject}: {request.key}"
    request = request.model_copy(update={"question": prompt_hash(prompt.at(0))})
    fitted = await window.fit(prompt, request.max_tokens, call)
    try:
        return await model.complete(request.model_copy(update=_of(fitted)))
    except ContextOverflow as error:
        window.refused(fitted.messages, error)
        again = await window.fit(prompt, request.max_tokens, call)
        if again == fitted:
            raise
        return await model.complete(request.model_copy(update=_of(again)))


def _of(fitted: Fitted) -> dict[str, Any]:
    return {"messages": fitted.messages, "max_tokens": fitted.max_tokens}


def _cut_off(reply: ModelReply) -> str:
    where = "" if reply.text else " while still thinking"
    return f"it was cut off{where} after {reply.completion_tokens} tokens, the most it may take"


def read(reply: ModelReply, reply_type: type[T]) -> T:
    """Return the object that a reply holds. Raises Unusable.

    Some servers put the whole reply into the reasoning when a reasoning model does not think. So
    the object is taken from the reasoning if the answer holds none. A reply that was cut off is an
    exception: the model was still thinking, and an object in there is a draft.
    """
    cut_off = reply.finish == CUT_OFF
    try:
        return parse(reply.text, reply_type, cut_off)
    except Unusable:
        inside, answer = split_reasoning(reply.text)
        if cut_off or "{" in answer:
            raise
        for thought in (inside, reply.reasoning):
            with suppress(Unusable):
                return _valid(find_objects(thought[-LONGEST_REPLY:]).values, reply_type)
        raise


def _expected(found: T, reply: ModelReply) -> T:
    """Give a reply with scores its odds, if the server returned probabilities."""
    if isinstance(found, Scored) and reply.odds:
        objects = find_objects(reply.text)
        for value, span in zip(reversed(objects.values), reversed(objects.spans), strict=True):
            with suppress(Unusable):
                if _valid([value], type(found)) == found:
                    found.expect(by_field(reply.text, span, reply.odds))
                    break
    return found


def parse(text: str, reply_type: type[T], cut_off: bool = False) -> T:
    """Return the last JSON object in a text's answer that is a `reply_type`.

    Models write drafts and correct themselves, so the last object counts. A reply that was
    `cut_off` within an object did not reach its last one: the objects before are drafts, unless the
    model only began to repeat one of them. Raises Unusable, with the problem of the longest object.
    """
    if len(text) > LONGEST_REPLY:
        raise Unusable(f"it is longer than {LONGEST_REPLY} characters")
    answer = strip_reasoning(text)
    objects = find_objects(answer)
    if cut_off and objects.torn is not None and not _repeats(answer, objects.torn):
        raise Unusable(_TORN)
    if objects.values:
        return _valid(objects.values, reply_type)
    if not answer:
        raise Unusable("the reply is empty")
    raise Unusable(_TORN if "{" in text else "the reply holds no JSON object")


def _valid(objects: Sequence[dict[str, Any]], reply_type: type[T]) -> T:
    """Return the last of some objects that is a `reply_type`. Raises Unusable."""
    problems: list[tuple[int, str]] = [(-1, "the reply holds no JSON object")]
    for found in (o for last in reversed(objects) for o in _with_wrapped(last, reply_type)):
        if is_too_deep(found):
            problems.append((0, "it is nested too deeply"))
            continue
        # Validate as JSON: strict records accept arrays for tuples only from JSON.
        source = json.dumps(found)
        odd = misfit(found, infinite=True)  # the estimate's reader handles infinite values
        if odd is not None:
            problems.append((len(source), odd))
            continue
        try:
            return reply_type.model_validate_json(source)
        except ValidationError as error:
            problems.append((len(source), _first_problems(error)))
    raise Unusable(max(problems, key=lambda problem: problem[0])[1])


def _with_wrapped(found: dict[str, Any], reply_type: type[BaseModel]) -> Iterator[dict[str, Any]]:
    """Yield an object, and the ones within it that it may only wrap.

    Models that were trained on calls of tools, or shown a schema, write the reply into `arguments`,
    `properties` or the like, beside names alone. What is in a field of the reply is a part of it.
    """
    yield found
    for _ in range(_WRAPPED):
        inside = [name for name, value in found.items() if not isinstance(value, str)]
        if len(inside) != 1 or inside[0] in reply_type.model_fields:
            return
        found = found[inside[0]]
        if not isinstance(found, dict) or not found:
            return
        yield found


def _repeats(answer: str, torn: int) -> bool:
    """Return whether the torn object at the end is the beginning of an earlier one."""
    return answer[torn:].strip() in answer[:torn]


def _first_problems(error: ValidationError) -> str:
    parts = []
    for problem in error.errors(include_url=False)[:3]:
        where = place_of(problem["loc"])
        parts.append(f"{where}: {problem['msg']}" if where else problem["msg"])
    more = error.error_count() - len(parts)
    return one_line("; ".join(parts) + (f"; and {more} more" if more > 0 else ""))
