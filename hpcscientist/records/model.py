"""One call to a language model: request and reply."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from hpcscientist.records.base import Record


class Message(Record):
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


class ModelRequest(Record):
    """A request. (`idea_id`, `key`) names it uniquely in a campaign.

    `stage` is what is asked for (propose, code, debug, …), `ordinal` counts the calls of
    that stage for this idea from 1, `repair` counts the repairs of one call from 1 (0: the
    first try). `reply_schema` is a JSON schema the reply must fit; None means free text.
    """

    idea_id: str
    stage: str
    ordinal: int = Field(default=1, ge=1)
    repair: int = Field(default=0, ge=0)
    messages: tuple[Message, ...]
    schema_name: str | None = None
    reply_schema: dict[str, Any] | None = None
    temperature: float = 0.7
    max_tokens: int = 4096
    seed: int | None = None

    @property
    def key(self) -> str:
        """The call's name within its idea."""
        name = f"{self.stage}/{self.ordinal}"
        return f"{name}/repair{self.repair}" if self.repair else name


class ModelReply(Record):
    """A reply. `tokens_estimated` is true where the server gave no counts."""

    text: str
    model: str
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)
    tokens_estimated: bool
    latency_s: float = Field(ge=0)
