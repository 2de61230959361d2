"""Narrows a reply's JSON schema to what one question allows.

A server that enforces the schema then cannot return a file that may not be edited, an id that was
not shown, or an endless list. The lengths of strings are left to the token limit and to the
validation of the reply.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Limit:
    """What a field may hold.

    `values` are the allowed strings, of the field or of each entry of a list. `least` and `most`
    bound the number of entries of a list, or the value of an integer. `form` names the record type
    of a list's entries, where there is a choice.
    """

    values: tuple[str, ...] | None = None
    least: int | None = None
    most: int | None = None
    form: str | None = None


Limits = Mapping[str, Limit]
"""Limits by field, such as `edits.file`: names joined by dots, without a part for a list."""


def narrowed(schema: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """Return a copy of a pydantic model's JSON schema with the limits in it, for a server.

    Raises KeyError for a field that the schema does not have.
    """
    found = in_forms(schema, limits)
    for path, limit in limits.items():
        _apply(_field(found, path, found.get("$defs", {})), limit)
    _drop_lengths(found)
    return found


def in_forms(schema: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """Return a copy of a schema in which entries of lists have the form that the limits name.

    Prompts show only this part of the limits in the schema; they state the rest in words.
    """
    found = copy.deepcopy(dict(schema))
    _say_any_of(found)
    definitions = found.get("$defs", {})
    chosen = {path: limit.form for path, limit in limits.items() if limit.form}
    for path, form in chosen.items():
        _field(found, path, definitions)["items"] = {"$ref": f"#/$defs/{form}"}
    if chosen:
        text = json.dumps(found)
        for name in [name for name in definitions if f'"#/$defs/{name}"' not in text]:
            del definitions[name]
    return found


def _say_any_of(node: object) -> None:
    """Replace `oneOf` by `anyOf`, which grammars surely support; records exclude each other."""
    if isinstance(node, dict):
        if "oneOf" in node:
            node["anyOf"] = node.pop("oneOf")
            node.pop("discriminator", None)
        for part in node.values():
            _say_any_of(part)
    elif isinstance(node, list):
        for part in node:
            _say_any_of(part)


def _drop_lengths(node: object) -> None:
    """Remove the bounds on string lengths.

    Either bound makes a token's mask about twenty times as expensive: 0.02 to 0.4 ms a token and
    request (xgrammar 0.2.8, vocabulary of 152,000), and the upper bound takes seconds to compile;
    with llguidance 1.7.6 it is 0.03 to 0.4 ms. At 64 requests in flight that is many steps of a
    small model. Bounds of lists cost nothing.
    """
    if isinstance(node, dict):
        if node.get("type") == "string":
            node.pop("minLength", None)
            node.pop("maxLength", None)
        for part in node.values():
            _drop_lengths(part)
    elif isinstance(node, list):
        for part in node:
            _drop_lengths(part)


def _field(node: dict[str, Any], path: str, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a field's own part of the schema, with its references replaced in place."""
    for name in path.split("."):
        node = _resolved(node, definitions, name)
        if node.get("type") == "array":
            node = _resolved(node["items"], definitions, name)
        node = node["properties"][name]
    return _resolved(node, definitions)


def _resolved(
    node: dict[str, Any], definitions: Mapping[str, Any], having: str = ""
) -> dict[str, Any]:
    """Replace a reference by a copy of its definition.

    Of several forms, takes the first non-null one that has the property `having`, or else the last.
    """
    forms = [form for form in node.get("anyOf", ()) if form.get("type") != "null"]
    for form in forms:
        found = _resolved(form, definitions)
        if form is forms[-1] or not having or having in found.get("properties", {having: 0}):
            return found
    if "$ref" in node:
        definition = definitions[node.pop("$ref").rpartition("/")[2]]
        node.update(copy.deepcopy(definition) | node)
    return node


def _apply(node: dict[str, Any], limit: Limit) -> None:
    if node.get("type") != "array":
        if limit.values is not None:
            node["enum"] = list(limit.values)
        bounds = {"minimum": limit.least, "maximum": limit.most}
        node.update({key: bound for key, bound in bounds.items() if bound is not None})
        return
    most = limit.most
    if limit.values == ():  # an empty enumeration is no schema
        most = 0
    elif limit.values is not None:
        node["items"] = {"type": "string", "enum": list(limit.values)}
    if limit.least is not None and most != 0:
        node["minItems"] = limit.least
    if most is not None:
        node["maxItems"] = most
