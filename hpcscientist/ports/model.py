"""The port to a language model."""

from __future__ import annotations

from typing import Protocol

from hpcscientist.records.model_calls import ModelReply, ModelRequest


class Model(Protocol):
    """Answers requests.

    Obligations: `complete` may be called many times concurrently from one event loop; it
    bounds its own concurrency; it returns text that may or may not fit the request's
    schema (checking is the caller's); it is cancellable. It raises EndpointError when the
    endpoint is at fault, PlaneLost when the plane that served it is gone, ReplyError when
    this one request is refused or has no recorded reply, PlaybookExhausted when nothing is
    recorded for this or any later idea, and nothing else.
    """

    @property
    def name(self) -> str:
        """The model's name, as recorded in results."""
        ...

    async def probe(self) -> None:
        """Return when the model can be asked; raise EndpointError naming the mend if not."""
        ...

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer one request."""
        ...

    async def close(self) -> None:
        """Release connections. Idempotent."""
        ...
