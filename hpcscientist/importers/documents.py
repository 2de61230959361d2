"""Reads configuration files of tasks, which are untrusted: size and nesting are limited."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from hpcscientist.errors import RecipeError
from hpcscientist.importers.source import Source

_LARGEST = 256 * 1024  # characters of a YAML file: parsing is slow
_DEEP = 50  # nested brackets


def yaml_table(source: Source, name: str) -> Mapping[str, Any]:
    """Return a YAML document whose top level is a mapping. Raises RecipeError."""
    text = source.text(name)
    if len(text) > _LARGEST or _is_deep(text):
        raise RecipeError("is larger or deeper than a configuration", source.path / name)
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        said = str(getattr(error, "problem", None) or error)
        raise RecipeError(f"is no YAML: {said}", source.path / name) from error
    if not isinstance(found, dict):
        raise RecipeError("is no table of YAML", source.path / name)
    return found


def json_document(source: Source, name: str) -> Any:
    """Return a JSON document. Raises RecipeError."""
    try:
        return json.loads(source.text(name))
    except (ValueError, RecursionError) as error:
        raise RecipeError(f"is no JSON: {error}", source.path / name) from error


def table_of(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a mapping within a document; {} if there is none."""
    found = document.get(key)
    return found if isinstance(found, dict) else {}


def _is_deep(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character in "[{") - (character in "]}")
        if depth > _DEEP:
            return True
    return False
