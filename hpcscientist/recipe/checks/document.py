"""Reads recipe.toml into a RecipeSpec, or returns its problems with their lines."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from hpcscientist.files import handed
from hpcscientist.files.handed import LARGEST_TEXT, read_regular
from hpcscientist.files.text import one_line
from hpcscientist.recipe import schema
from hpcscientist.recipe.checks.locate import Key, error_line, key_lines, line_of
from hpcscientist.records.base import Problem, misfit
from hpcscientist.records.trial import MetricSpec, ProcessSpec

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_TABLES: dict[tuple[str, ...], type[BaseModel]] = {
    (): schema.RecipeSpec,
    ("topic",): schema.Topic,
    ("metrics",): MetricSpec,
    ("budgets",): schema.Budgets,
    ("budgets", "pilot"): schema.BudgetSpec,
    ("budgets", "steps"): schema.StepSpec,
    ("budgets", "full"): schema.BudgetSpec,
    ("resources",): schema.Resources,
    ("scorer",): schema.ScorerSpec,
    ("knobs",): schema.Knob,
    ("published",): schema.Published,
    ("data",): schema.DataSpec,
    ("processes",): ProcessSpec,
}
_SETUPS, _SETUP = "setups", "setup"


def read_document(path: Path, setup: str = "") -> schema.RecipeSpec | list[Problem]:
    """Return the recipe's specification, or all problems of the file.

    `setup` names a setup to apply to the recipe; "": none. All setups are checked, whichever is
    requested.
    """
    text = read_text(path)
    if isinstance(text, Problem):
        return [text]
    try:
        document = handed.parse(text)
    except tomllib.TOMLDecodeError as error:
        return [Problem(path, error_line(error, text), f"not TOML: {one_line(str(error))}")]
    lines = key_lines(text)
    problems = [
        Problem(path, line_of(lines, key), message) for key, message in _odd_values(document)
    ]
    found: dict[str, schema.RecipeSpec] = {}
    for name, merged in {"": document, **_setups(document)}.items():
        try:
            # As JSON: strict mode then accepts arrays as tuples and strings as enum members.
            text = json.dumps(merged, default=str)
            found[name] = schema.RecipeSpec.model_validate_json(text)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                within = (_SETUPS, name, *_loc(detail)) if name else _loc(detail)
                said = f"setup {name!r}: " * bool(name) + _message(detail)
                problems.append(Problem(path, line_of(lines, within), said))
            if not name:
                return problems  # every setup would repeat them
    if setup and setup not in found and not problems:
        others = ", ".join(filter(None, found)) or "none"
        problems.append(Problem(path, None, f"there is no setup {setup!r}; known: {others}"))
    return problems or found[setup]


def with_setup(document: dict[str, Any], setup: str) -> dict[str, Any]:
    """Return a recipe's document with one of its setups applied, and without [setups].

    A table in the setup is merged into the recipe's table; any other value replaces the recipe's.
    Raises KeyError.
    """
    rest = {key: value for key, value in document.items() if key != _SETUPS}
    return {**_merged(rest, document[_SETUPS][setup]), _SETUP: setup}


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    both = {
        key: _merged(under[key], value)
        for key, value in over.items()
        if isinstance(value, dict) and isinstance(under.get(key), dict)
    }
    return {**under, **over, **both}


def _setups(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return each setup's document; {} if [setups] is malformed, which the schema reports."""
    given = document.get(_SETUPS)
    if not isinstance(given, dict) or not all(isinstance(own, dict) for own in given.values()):
        return {}
    return {name: with_setup(document, name) for name in given}


def read_text(path: Path, limit: int = LARGEST_TEXT) -> str | Problem:
    """Return the text of a UTF-8 file of at most `limit` bytes, or why it cannot be read."""
    try:
        return read_regular(path, limit).decode("utf-8")
    except FileNotFoundError:
        return Problem(path, None, "the file is missing; see recipes/README.md for its contract")
    except OSError as error:
        return Problem(path, None, f"cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        return Problem(path, line, "not UTF-8 text; save it as UTF-8")


def _odd_values(value: Any, key: Key = ()) -> Iterator[tuple[Key, str]]:
    """Yield values that TOML allows and a recipe does not: dates, NULs, unusable numbers."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _odd_values(item, (*key, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _odd_values(item, (*key, index))
    elif (odd := misfit(value)) is not None:
        yield key, f"{_dotted(key)}: {odd}"
    elif isinstance(value, str) and "\0" in value:
        yield key, f"{_dotted(key)}: must hold no NUL character"
    elif not isinstance(value, str | int | float):
        yield key, f"{_dotted(key)}: a date or time means nothing here; quote it if it is text"


def _loc(detail: ErrorDetails) -> Key:
    """Return an error's key; an error about several keys says in `at` which one."""
    return (*detail["loc"], *detail.get("ctx", {}).get("at", ()))


def _message(detail: ErrorDetails) -> str:
    loc = _loc(detail)
    where = _dotted(loc)
    if detail["type"] == "extra_forbidden":
        table = tuple(part for part in loc[:-1] if isinstance(part, str))
        names = list(_TABLES[table].model_fields) if table in _TABLES else []
        close = get_close_matches(str(loc[-1]), names, n=1)
        fix = f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(names)}"
        return f"unknown key {where!r}; {fix}"
    if detail["type"] == "missing":
        return f"{where!r} is missing; add it"
    text = one_line(detail["msg"]).removeprefix("Value error, ")
    return f"{where}: {text}" if where else text


def _dotted(key: Key) -> str:
    """Return a key as text, such as `knobs[0].low`."""
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text
