"""The base of all records."""

from __future__ import annotations

import os

from pydantic import BaseModel, ConfigDict

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
