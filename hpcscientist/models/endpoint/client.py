"""A client of OpenAI-compatible endpoints, without streaming, tools or several choices.

The API key appears in no error and no log.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import ContextOverflow, EndpointError, ReplyError
from hpcscientist.files.text import one_line
from hpcscientist.models.endpoint import wire
from hpcscientist.models.endpoint.exchange import EndpointAnswer, EndpointExchange
from hpcscientist.models.endpoint.retry import (
    OutOfTime,
    RetryBackoff,
    Transient,
    is_transient,
    retry_after_s,
)
from hpcscientist.records.idea import idea_seed
from hpcscientist.records.model_calls import Message, ModelReply, ModelRequest

# Recognizes what servers say when a request is longer than the model's context.

# vLLM (of several years), SGLang, llama.cpp, TGI, TensorRT-LLM, OpenAI, Mistral, Anthropic, Google.
_CONTEXT = re.compile(
    r"(?:context (?:length|window|size)|model(?:'s maximum)? length|max_model_len|max_seq_len"
    r"|max_num_tokens|n_ctx)"
    r"(?: is| of| \(| limit)*(?: only)?[ :=(]*(?P<after>[0-9]+)"
    r"|context size \((?P<llama>[0-9]+)"
    r"|with (?P<mistral>[0-9]+) maximum context length"
    r"|[0-9]+ tokens > (?P<anthropic>[0-9]+) maximum"
    r"|exceeds the maximum number of tokens allowed \(?(?P<google>[0-9]+)"
    r"|max_new_tokens`? must be <= (?P<tgi>[0-9]+)\. Given: [0-9]+ `inputs`"
    r"|`inputs` must have less than (?P<input>[0-9]+) tokens",
    re.I,
)
_PROMPT = re.compile(
    r"(?:contains|has|passed|Given:) (?P<least>at least )?(?P<a>[0-9]+) (?:`inputs` |input )tokens"
    r"|(?:prompt|input) (?:contains|is too long:) (?P<i>[0-9]+) tokens\b"
    r"|prompt length \((?P<j>[0-9]+)"
    r"|token count \((?P<k>[0-9]+)\)"
    r"|n_prompt_tokens[ :=]+(?P<l>[0-9]+)"
    r"|prompt \(length (?P<b>[0-9]+)\)"
    r"|input length \((?P<c>[0-9]+)\)"
    r"|input \((?P<d>[0-9]+) tokens\)"
    r"|\((?P<e>[0-9]+) in the messages"
    r"|request \((?P<f>[0-9]+) tokens\)"
    r"|(?P<g>[0-9]+) tokens from the input"
    r"|`inputs` must have less than [0-9]+ tokens\. Given: (?P<h>[0-9]+)",
    re.I,
)


def read_overflow(message: str, said: str) -> ContextOverflow | None:
    """Return the error with `message` if a server's words complain about the context's length.

    A count is 0 if the server names no number, or only a lower bound.
    """
    found = _CONTEXT.search(said)
    if found is None:
        return None
    prompt = _PROMPT.search(said)
    exact = prompt is not None and not prompt.group("least")
    return ContextOverflow(
        message,
        context=_number(found),
        prompt_tokens=_number(prompt) if prompt is not None and exact else 0,
    )


def _number(match: re.Match[str]) -> int:
    return next(int(text) for text in match.groups() if text and text.isdigit())


R = TypeVar("R")

_LOG = logging.getLogger(__name__)
# Bad request, too large, unprocessable: the fault of one request, such as one beyond the context.
REFUSES_ONE_REQUEST = frozenset({400, 413, 422})
# After this many failed requests in a row the endpoint is blamed, not the requests, even if it
# answers a short question in between.
_MANY = 3
# Shows whether an endpoint answers at all; short, because nobody reads the reply.
_SHORT = ModelRequest(
    subject="",
    stage="probe",
    messages=(Message(role="user", content="Reply with the word yes."),),
    temperature=0.0,
    max_tokens=16,
)
_LEAST = 256  # tokens of a reply that took too long before, and is to be shorter
_PROBE_RETRIES = 1  # a mistyped address should be reported at once


class OpenAIModel:
    """The adapter to an endpoint. Belongs to one event loop."""

    def __init__(
        self,
        base_url: str,
        name: str,
        settings: ClientSettings,
        api_key: str | None = None,
        exchange: EndpointExchange | None = None,
    ) -> None:
        """Create a client without sending anything. Raises ModelSpecError for an unusable address.

        `exchange` replaces the usual HTTP exchange.
        """
        self._exchange = exchange or EndpointExchange(base_url, settings, api_key)
        self._base = self._exchange.base
        self._name = name
        self._settings = settings
        self._refused: set[str] = set()  # fields of a request
        self._unenforced: set[str] = set()  # schemas, by name
        self._context: int | None = None
        self._failed_in_a_row = 0
        self._has_said_slow = False

    @property
    def name(self) -> str:
        """The name under which the endpoint serves the model."""
        return self._name

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the reply to one request; `latency_s` is that of the try that succeeded.

        Raises EndpointError: at once where another try is of no use, else out of retries. Raises
        ReplyError where the endpoint refuses this request, or fails at it on every try and yet
        answers another.

        A try that runs out of time is followed by one with another seed and half as many tokens.
        Otherwise a reply that never ends would be generated again, the same as before.
        """
        asked = request

        async def once() -> ModelReply:
            nonlocal asked
            try:
                return await self._complete_once(asked)
            except OutOfTime as error:
                asked = _shorter(asked)
                self._say_slow(asked, error)
                raise

        try:
            reply = await self._tried(once, self._settings.retries)
        except Transient as error:
            raise await self._blamed(error) from error
        self._failed_in_a_row = 0
        return reply

    def _say_slow(self, request: ModelRequest, error: OutOfTime) -> None:
        """Log once that replies take too long."""
        if not self._has_said_slow:
            self._has_said_slow = True
            _LOG.warning(
                "%s: %s for stage %s; it is asked again with another seed and for at most %d "
                "tokens, and so are others that take as long; a server this slow needs a longer "
                "client.timeout_s, or fewer max_tokens for the role that asks",
                *(self._base, error, request.stage, request.max_tokens),
            )

    async def probe(self) -> None:
        """Check that the endpoint answers and serves the model. Raises EndpointError."""
        served = await self._retried(
            lambda: self._served(strict=True), min(_PROBE_RETRIES, self._settings.retries)
        )
        if self._name not in served and f"{self._name}:latest" not in served:
            raise EndpointError(self._not_served(served))

    async def context(self) -> int:
        """Return the model's context length in tokens, 0 if the endpoint does not report it.

        Tries once and caches the answer. Raises EndpointError if the endpoint does not answer.
        """
        if self._context is not None:
            return self._context
        try:
            answer = await self._exchange.send("GET", "/models")
        except Transient as error:
            raise EndpointError(f"{self._base}: {error}; see that the server runs") from error
        if is_transient(answer.status):
            raise EndpointError(f"{self._base} answered HTTP {answer.status}; see its log")
        listed = answer.status == 200
        self._context = wire.served_context(answer.body, self._name) if listed else 0
        return self._context

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        await self._exchange.close()

    async def _blamed(self, error: Transient) -> EndpointError | ReplyError:
        """Return a ReplyError if the request is to blame, else an EndpointError."""
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= _MANY or not await self._answers():
            return self._unreachable(error, self._settings.retries)
        tries = _times(self._settings.retries)
        return ReplyError(
            f"{self._base} was tried {tries} with this request, the last time: {error}; it "
            "answers others, so see its log for what it makes of this one"
        )

    async def _answers(self) -> bool:
        """Return whether the endpoint answers a short question, tried once."""
        try:
            await self._complete_once(_SHORT)
        except (Transient, EndpointError, ReplyError):
            return False
        return True

    async def _retried(self, call: Callable[[], Awaitable[R]], retries: int) -> R:
        """Call until it succeeds. Raises EndpointError out of retries."""
        try:
            return await self._tried(call, retries)
        except Transient as error:
            raise self._unreachable(error, retries) from error

    async def _tried(self, call: Callable[[], Awaitable[R]], retries: int) -> R:
        """Call until it succeeds. Raises Transient out of retries."""
        policy = AsyncRetrying(
            stop=stop_after_attempt(1 + retries),
            wait=RetryBackoff(self._settings),
            retry=retry_if_exception_type(Transient),
            before_sleep=self._log_retry,
            reraise=True,
        )

        async def once() -> R:
            return await call()

        return await policy(once)

    def _unreachable(self, error: Transient, retries: int) -> EndpointError:
        return EndpointError(
            f"{self._base} was tried {_times(retries)}, the last time: {error}; "
            "see that the server runs and is reachable from this host"
        )

    async def _complete_once(self, request: ModelRequest) -> ModelReply:
        """Send once, and again without each optional field that the endpoint refuses."""
        schema = request.schema_name or request.stage
        known = {*self._refused, *([wire.SCHEMA] if schema in self._unenforced else [])}
        refused: dict[str, str] = {}  # with the endpoint's words
        while True:
            body = wire.payload(request, self._name, known | refused.keys())
            answer = await self._exchange.send("POST", "/chat/completions", body)
            said = "" if answer.is_ok else wire.error_text(answer.body)
            field = wire.refused_field(answer.status, said, body)
            if field is None:
                break
            refused[field] = said
        for field, why in refused.items():
            if why != said:  # else the endpoint blamed the field for another fault
                self._remember(field, schema, why)
        if answer.status == 404:
            raise await self._explain_404(answer)
        self._raise_for(answer)
        try:
            reply = wire.read_reply(answer.body, request, self._name, answer.seconds)
        except Transient as error:
            raise Transient(self._exchange.tidy(str(error))) from None
        if wire.LOGPROBS in body and reply.text and not wire.tells_probabilities(answer.body):
            self._remember(wire.LOGPROBS, schema, "its reply has none")
        return reply

    def _remember(self, field: str, schema: str, said: str) -> None:
        """Keep a field from being sent again, and log that once.

        A schema is remembered by its name: the server may enforce another one.
        """
        known = bool(self._unenforced) if field == wire.SCHEMA else field in self._refused
        if field == wire.SCHEMA:
            self._unenforced.add(schema)
        else:
            self._refused.add(field)
        if not known:
            instead = wire.INSTEAD[field]
            _LOG.warning(
                "%s refuses %s (%s): %s", self._base, field, self._exchange.tidy(said), instead
            )

    def _raise_for(self, answer: EndpointAnswer) -> None:
        if answer.is_ok:
            return
        status, said = answer.status, self._exchange.tidy(wire.error_text(answer.body))
        if is_transient(status):
            wait = retry_after_s(answer.retry_after, datetime.now(UTC))
            raise Transient(f"HTTP {status}: {said}", wait)
        if status in {401, 403}:
            fix = "set HPCSCI_API_KEY to a key that it accepts"
        elif 300 <= status < 400:
            fix = "give the address that it redirects to"
        else:
            fix = wire.fix_of(said)
        message = f"{self._base} answered HTTP {status} ({said}); {fix}"
        if status in REFUSES_ONE_REQUEST:
            raise read_overflow(message, said) or ReplyError(message)
        raise EndpointError(message)

    async def _served(self, strict: bool) -> list[str]:
        """Return the names from GET /models; without `strict`, [] if they are not available."""
        answer = await self._exchange.send("GET", "/models")
        if strict and answer.status not in {404, 405}:
            self._raise_for(answer)
        names = wire.served_names(answer.body) if answer.status == 200 else None
        if names is None and strict:
            raise EndpointError(
                f"{self._base} lists no models (HTTP {answer.status} for /models); "
                "does the address end in /v1?"
            )
        return names or []

    async def _explain_404(self, answer: EndpointAnswer) -> EndpointError:
        try:
            served = await self._served(strict=False)
        except Transient:
            served = []
        if served and self._name not in served:
            return EndpointError(self._not_served(served))
        said = self._exchange.tidy(wire.error_text(answer.body))
        return EndpointError(
            f"{self._base}/chat/completions is not found ({said}); "
            f"does the address end in /v1, and does it serve {self._name!r}?"
        )

    def _not_served(self, served: list[str]) -> str:
        near = difflib.get_close_matches(self._name, served, n=1, cutoff=0.3)
        listed = one_line(self._exchange.redacted(", ".join(served)), 500) or "none"
        hint = f"; did you mean {self._exchange.redacted(near[0])!r}?" if near else ""
        return f"{self._base} serves no model {self._name!r}; it serves: {listed}{hint}"

    def _log_retry(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        wait = state.next_action.sleep if state.next_action else 0.0
        _LOG.info("%s: %s; trying again in %.1f s", self._base, error, wait)


def _shorter(request: ModelRequest) -> ModelRequest:
    """Return a request for half as many tokens, but not fewer than `_LEAST`, with another seed."""
    seed = None if request.seed is None else idea_seed(request.seed, 1)
    most = min(request.max_tokens, max(_LEAST, request.max_tokens // 2))
    return request.model_copy(update={"seed": seed, "max_tokens": most})


def _times(retries: int) -> str:
    return "once" if retries == 0 else f"{1 + retries} times"
