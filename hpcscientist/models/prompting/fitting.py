"""Fitting prompts to a model's context: material is left out until prompt and answer fit."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from hpcscientist.errors import ContextOverflow, EndpointError, ReplyError
from hpcscientist.models.prompting.counting import Counter, Estimate
from hpcscientist.models.prompting.materials import Prompt
from hpcscientist.records.asked.model import Message, ModelReply
from hpcscientist.records.base import Record

_LOG = logging.getLogger(__name__)
LEAST_ANSWER = 512  # tokens; where the prompt leaves less for the answer, the call is not made


class Fitted(Record):
    """A chat that fits, the tokens left for its answer, and the prompt's level."""

    messages: tuple[Message, ...]
    max_tokens: int
    level: int


class Window:
    """A model's context: its length in tokens, and how they are counted.

    `context` bounds it where it is known (0: unknown); `ask` is called once for what the
    server says, and again after a reply if it said nothing. The smaller of both counts, and
    while neither is known every prompt goes out whole. `holds_schemas`: its server surely keeps
    replies to their schemas, so that prompts need not show these.
    """

    def __init__(
        self,
        context: int = 0,
        counter: Counter | None = None,
        ask: Callable[[], Awaitable[int]] | None = None,
        *,
        holds_schemas: bool = False,
    ) -> None:
        self.holds_schemas = holds_schemas
        self._context = context
        self._counter = counter or Estimate()
        self._ask = ask

    async def context(self) -> int:
        """Return the context's length in tokens; 0 where nobody knows it."""
        if self._ask is not None:
            ask, self._ask = self._ask, None
            try:
                self._bound(await ask())
            except EndpointError:  # whoever asks the model itself will say so
                self._ask = ask
        return self._context

    async def fit(self, prompt: Prompt, max_tokens: int, call: str) -> Fitted:
        """Return the prompt with as much of its material as fits beside the answer.

        `max_tokens` are kept for the answer, at most half of the context; only where the
        prompt cannot be made shorter the answer gets less, down to LEAST_ANSWER. Raises
        ReplyError, which names `call` and what would be needed, where that is not enough.
        """
        context = await self.context()
        if not context:
            return Fitted(messages=prompt.at(0), max_tokens=max_tokens, level=0)
        least = min(max_tokens, LEAST_ANSWER)
        kept = min(max_tokens, max(least, context // 2))
        level = self._level(prompt, context - kept)
        messages = prompt.at(level)
        size = self._counter.count(messages)
        if size + least > context:
            raise ReplyError(
                f"{call}: the shortest prompt takes about {size} tokens and its answer at least "
                f"{least}, but the model's context has {context}; serve it with a context of "
                f"{size + least} or more, or choose another model"
            )
        if level:
            _LOG.info("%s: prompt at level %d of %d to fit", call, level, prompt.levels)
        return Fitted(messages=messages, max_tokens=min(max_tokens, context - size), level=level)

    async def fits(self, prompt: Prompt, max_tokens: int) -> bool:
        """Whether the prompt fits beside an answer of `max_tokens` once all that may be left out
        is; true where nobody knows the context.
        """
        context = await self.context()
        kept = min(max_tokens, max(LEAST_ANSWER, context // 2))
        return not context or self._counter.count(prompt.at(prompt.levels)) + kept <= context

    def learn(self, messages: Sequence[Message], reply: ModelReply) -> None:
        """Calibrate the counter by the server's counts, where it gave some."""
        if not reply.tokens_estimated:
            self._counter.learn(messages, reply.prompt_tokens)

    def refused(self, messages: Sequence[Message], error: ContextOverflow) -> None:
        """Take note of what a server said when it refused a chat for its length."""
        if error.context:
            self._bound(error.context)
        if error.prompt_tokens:
            self._counter.learn(messages, error.prompt_tokens)
            if self._counter.count(messages) >= error.prompt_tokens:
                return
        self._counter.distrust()

    def _bound(self, context: int) -> None:
        known = [length for length in (self._context, context) if length > 0]
        self._context = min(known, default=0)

    def _level(self, prompt: Prompt, room: int) -> int:
        """Return the lowest level that takes at most `room` tokens; the last if none does."""
        if self._counter.count(prompt.at(0)) <= room:
            return 0
        too_long, short = 0, prompt.levels
        while short - too_long > 1:
            middle = (too_long + short) // 2
            if self._counter.count(prompt.at(middle)) <= room:
                short = middle
            else:
                too_long = middle
        return short
