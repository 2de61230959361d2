"""Structured replies: JSON out of whatever a model wraps around it, checked, with repair."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from hpcscientist.errors import ReplyError
from hpcscientist.files.text import one_line
from hpcscientist.models.prompts import render
from hpcscientist.models.text import strip_reasoning
from hpcscientist.ports.model import Model
from hpcscientist.records.model import Message, ModelRequest

T = TypeVar("T", bound=BaseModel)

_SHOWN = 16_000  # characters of an unusable reply that are shown again to the model


class Unusable(Exception):
    """A text holds no reply of the wanted type; the message is one line."""


async def ask(model: Model, request: ModelRequest, reply_type: type[T], repairs: int = 2) -> T:
    """Ask for a reply of a type, and again with what was wrong, at most `repairs` times.

    The type's JSON schema goes with the request and, because not every endpoint heeds it,
    into the prompt. Raises ReplyError after the last repair, and what `model` raises.
    """
    schema = reply_type.model_json_schema()
    asked = _with_format(request.messages, schema)
    messages, problem = asked, ""
    for repair in range(repairs + 1):
        reply = await model.complete(
            request.model_copy(
                update={
                    "messages": messages,
                    "schema_name": reply_type.__name__,
                    "reply_schema": schema,
                    "repair": repair,
                }
            )
        )
        try:
            return parse(reply.text, reply_type)
        except Unusable as error:
            problem = str(error)
        # The latest reply alone is shown, so the prompt does not grow with each repair.
        messages = (
            *asked,
            Message(role="assistant", content=_shortened(reply.text)),
            Message(role="user", content=render("repair", problem=problem)),
        )
    count = "1 repair" if repairs == 1 else f"{repairs} repairs"
    raise ReplyError(
        f"{request.idea_id}: no usable reply for {request.key} after {count}: {problem}"
    )


LONGEST_REPLY = 1_000_000  # characters; no honest reply is longer, and parsing blocks the loop


def parse(text: str, reply_type: type[T]) -> T:
    """Return the first JSON object in `text` that is a `reply_type`.

    Raises Unusable, with what is wrong with the longest object.
    """
    if len(text) > LONGEST_REPLY:
        raise Unusable(f"it is longer than {LONGEST_REPLY} characters")
    objects = find_objects(text) or find_objects(text, lenient=True)
    problems: list[tuple[int, str]] = []
    for found in objects:
        # Once more through JSON: strict records take arrays for tuples from there alone.
        source = json.dumps(found)
        try:
            return reply_type.model_validate_json(source)
        except ValidationError as error:
            problems.append((len(source), _first_problems(error)))
    if problems:
        raise Unusable(max(problems, key=lambda problem: problem[0])[1])
    if not strip_reasoning(text):
        raise Unusable("the reply is empty")
    if "{" in text:
        raise Unusable("the reply holds no complete JSON object; it is malformed or cut off")
    raise Unusable("the reply holds no JSON object")


def find_objects(text: str, lenient: bool = False) -> list[dict[str, Any]]:
    """Return the outermost JSON objects in a text, in order.

    Around them may be anything: reasoning, prose, fences, stray braces. `lenient` allows
    bare line breaks inside strings, which models write when they quote code.
    """
    decoder = json.JSONDecoder(strict=not lenient)
    answer = strip_reasoning(text)
    found: list[dict[str, Any]] = []
    start = answer.find("{")
    while start >= 0:
        try:
            value, resume = decoder.raw_decode(answer, start)
            found.append(value)
        except json.JSONDecodeError as error:
            # Going on from where it failed keeps the parts of a torn object from being
            # taken for whole replies, and the search linear.
            resume = max(start + 1, error.pos)
        except ValueError:  # a number of thousands of digits
            resume = start + 1
        except RecursionError:  # nested a thousand deep: no reply, and slow to search
            break
        start = answer.find("{", resume)
    return found


def _with_format(messages: tuple[Message, ...], schema: dict[str, Any]) -> tuple[Message, ...]:
    note = render("reply_format", schema=json.dumps(schema, ensure_ascii=False))
    if messages and messages[-1].role == "user":
        # Many chat templates refuse two user messages in a row.
        last = Message(role="user", content=f"{messages[-1].content}\n\n{note}")
        return (*messages[:-1], last)
    return (*messages, Message(role="user", content=note))


def _first_problems(error: ValidationError) -> str:
    parts = []
    for problem in error.errors(include_url=False)[:3]:
        where = ".".join(str(part) for part in problem["loc"])
        parts.append(f"{where}: {problem['msg']}" if where else problem["msg"])
    more = error.error_count() - len(parts)
    return one_line("; ".join(parts) + (f"; and {more} more" if more > 0 else ""))


def _shortened(text: str) -> str:
    if len(text) <= _SHOWN:
        return text or "(empty)"
    half = _SHOWN // 2
    return f"{text[:half]}\n[…]\n{text[-half:]}"
