"""The base of all records."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from hpcscientist.files.text import visible

# Pydantic looks for plugins in the metadata of every installed package, and loads what it finds
# there: some hundred files a process on a shared file system, and strangers' code in a worker.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


class Record(BaseModel):
    """A frozen, strict record; unknown fields are refused, JSON round-trips."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        protected_namespaces=(),  # a language model is a "model" too
    )


LONGEST_PROSE = 20_000  # characters: some pages, where a paragraph is asked for


def _prose(text: str) -> str:
    if len(text) > LONGEST_PROSE:
        raise ValueError(f"longer than {LONGEST_PROSE} characters")
    return visible(text)


# A text by a model for people and for later prompts: bounded, and as it looks. No part of a JSON
# schema, which engines make grammars of: these would count the characters.
Prose = Annotated[str, AfterValidator(_prose)]


def place_of(location: Iterable[int | str]) -> str:
    """Return where in an object a validation error is, keys joined by dots.

    Names of records, which say as which of several forms a part was read, are no keys.
    """
    return ".".join(str(part) for part in location if not str(part)[:1].isupper())
