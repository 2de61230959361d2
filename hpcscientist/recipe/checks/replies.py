"""Checks seed_ideas.json and playbook.jsonl, and reports the line of each problem.

A playbook's `text` entries are raw replies, which may be as malformed as a model's. A `reply`
entry must fit the schema of its stage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path

from pydantic import BaseModel, ValidationError

from hpcscientist.files.text import one_line
from hpcscientist.recipe.checks.document import read_text
from hpcscientist.records.base import Problem, Record, place_of
from hpcscientist.records.idea import Proposal
from hpcscientist.records.model_calls import LARGEST, Call, PlaybookEntry, unknown_stage


def playbook_problems(path: Path, replies: Mapping[str, type[Record]] | None) -> Iterator[Problem]:
    """Yield all problems of a playbook; `replies` are the allowed reply schemas by stage."""
    text = read_text(path, LARGEST)
    if isinstance(text, Problem):
        yield text
        return
    seen: dict[Call, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            for message in _line_problems(line, number, seen, replies):
                yield Problem(path, number, message)
    if not text.strip():
        yield Problem(path, 1, "the playbook is empty; write one JSON object a line or remove it")


def seed_ideas(path: Path) -> tuple[list[Proposal], list[Problem]]:
    """Return the recipe's valid seed ideas and all problems of their file."""
    text = read_text(path)
    if isinstance(text, Problem):
        return [], [text]
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        return [], [Problem(path, error.lineno, f"not JSON: {error.msg}")]
    except (ValueError, RecursionError):
        return [], [Problem(path, 1, "is nested too deeply, or holds a number of too many digits")]
    if not isinstance(value, list):
        return [], [Problem(path, 1, "must be a JSON array of proposals")]
    ideas: list[Proposal] = []
    problems: list[Problem] = []
    for line, item in zip(_item_lines(text, len(value)), value, strict=True):
        try:
            ideas.append(Proposal.model_validate_json(json.dumps(item)))
        except ValidationError as error:
            problems += [Problem(path, line, message) for message in _messages(error, Proposal)]
    return ideas, problems


def _line_problems(
    line: str,
    number: int,
    seen: dict[Call, int],
    replies: Mapping[str, type[Record]] | None,
) -> Iterator[str]:
    try:
        entry = PlaybookEntry.model_validate_json(line)
    except ValidationError as error:
        yield from _messages(error, PlaybookEntry)
        return
    call = entry.call
    if call in seen:
        yield f"the same call is answered in line {seen[call]} already; raise its ordinal"
    seen.setdefault(call, number)
    if replies is None:
        return
    if entry.stage not in replies:
        yield unknown_stage(entry.stage, replies)
    elif entry.reply is not None:
        schema = replies[entry.stage]
        try:
            schema.model_validate_json(json.dumps(entry.reply))
        except ValidationError as error:
            yield from (f"reply: {message}" for message in _messages(error, schema))


def _messages(error: ValidationError, schema: type[BaseModel]) -> Iterator[str]:
    for detail in error.errors(include_url=False):
        where = place_of(detail["loc"])
        message = one_line(detail["msg"]).removeprefix("Value error, ")
        if detail["type"] == "extra_forbidden":
            close = get_close_matches(str(detail["loc"][-1]), list(schema.model_fields), n=1)
            fix = f"; did you mean {close[0]!r}?" if close else "; remove it"
            yield f"unknown key {where!r}{fix}"
        elif detail["type"] == "missing":
            yield f"{where!r} is missing; add it"
        else:
            yield f"{where}: {message}" if where else message


def _item_lines(text: str, count: int) -> list[int]:
    """Return the line of each item of a valid JSON array."""
    decoder, lines = json.JSONDecoder(), []
    position = text.index("[") + 1
    for _ in range(count):
        position += len(text[position:]) - len(text[position:].lstrip(" \t\r\n,"))
        lines.append(text.count("\n", 0, position) + 1)
        _, position = decoder.raw_decode(text, position)
    return lines
