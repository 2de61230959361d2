"""The base of all records."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A frozen, strict record; unknown fields are refused, JSON round-trips."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        protected_namespaces=(),  # a language model is a "model" too
    )
