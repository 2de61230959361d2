"""Fits prompts to a model's context: leaves out material until prompt and answer fit."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from hpcscientist.errors import ContextOverflow, EndpointError, ReplyError
from hpcscientist.models.prompting.prompts import render
from hpcscientist.records.base import Record
from hpcscientist.records.model_calls import Message, ModelReply

# Token counts of a chat: estimated from its bytes, or counted by the model's tokenizer.

# Tokens a byte before anything is measured. English and code have three to five bytes a token.
_FIRST_GUESS = 0.4
_MARGIN = 1.1  # texts differ; a rate measured on one is not exact for the next
_TELLING = 200  # bytes: in a shorter chat the template's own tokens distort the rate
_REMEMBERED = 64
_A_MESSAGE = 12  # tokens that a chat template puts around a message
_A_CHAT = 32  # and around a chat: a first token, its own system message, the answer's start


class Counter(Protocol):
    """Counts tokens, rather too many than too few, and learns from the server's counts."""

    def count(self, messages: Sequence[Message]) -> int:
        """Return how many tokens of context a chat takes, its template included."""
        ...

    def learn(self, messages: Sequence[Message], tokens: int) -> None:
        """Record that the server counted `tokens` tokens for this chat."""
        ...

    def distrust(self) -> None:
        """Record that a chat was longer than counted, by an unknown amount."""
        ...


class TokenEstimate:
    """Estimates tokens from bytes, with the highest rate of tokens a byte measured lately."""

    def __init__(self) -> None:
        self._rates: deque[float] = deque(maxlen=_REMEMBERED)
        self._rate = _FIRST_GUESS

    def count(self, messages: Sequence[Message]) -> int:
        """Return an estimate that includes a margin."""
        around = _A_CHAT + _A_MESSAGE * len(messages)
        return math.ceil(_bytes(messages) * self._rate) + around

    def learn(self, messages: Sequence[Message], tokens: int) -> None:
        """Update the rate. Short chats, and chats without tokens, are ignored."""
        size = _bytes(messages)
        if size >= _TELLING and tokens > 0:
            self._rates.append(tokens / size)
            self._rate = max(self._rates) * _MARGIN

    def distrust(self) -> None:
        """Count one token a byte, more than any tokenizer makes, until a rate is measured."""
        self._rates.clear()
        self._rate = 1.0


class Exact:
    """Counts with the model's own tokenizer, and learns how much its template adds."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._chat = _A_CHAT

    def count(self, messages: Sequence[Message]) -> int:
        """Return the tokens of all contents, and what the template adds."""
        return self._contents(messages) + _A_MESSAGE * len(messages) + self._chat

    def learn(self, messages: Sequence[Message], tokens: int) -> None:
        """Raise the template's share if the server counted more."""
        beside = tokens - self._contents(messages) - _A_MESSAGE * len(messages)
        self._chat = max(self._chat, beside)

    def distrust(self) -> None:
        """Double the template's share."""
        self._chat *= 2

    def _contents(self, messages: Sequence[Message]) -> int:
        encoded = (self._tokenizer.encode(m.content, add_special_tokens=False) for m in messages)
        return sum(len(encoding.ids) for encoding in encoded)


def counter_of(folder: Path | None) -> Counter:
    """Return an exact counter if the model's folder has a readable tokenizer, else an estimate."""
    file = folder / "tokenizer.json" if folder else None
    if file is None or not file.is_file():
        return TokenEstimate()
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 (comes with vLLM; an estimate does too)
    except ImportError:
        return TokenEstimate()
    try:
        tokenizer = Tokenizer.from_file(str(file))
        # Quantized models ship with the truncation used to quantize them, such as 2048 tokens.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return Exact(tokenizer)
    except Exception:  # noqa: BLE001 (the library raises bare Exception for what it cannot read)
        return TokenEstimate()


def _bytes(messages: Sequence[Message]) -> int:
    return sum(len(message.content.encode("utf-8", "replace")) for message in messages)


# Prompts that can be shortened, least relevant material first.
#
# A prompt has levels. At level 0 it is whole; each further level leaves out one more thing. Nothing
# is cut in the middle: a list loses entries, a file goes as a whole, a log loses its oldest lines.

T = TypeVar("T")

GONE = "[…]"
_FILE_GONE = "[left out for lack of room]"
_LINES = 8  # a log is shortened down to its last lines, this many, then goes as a whole
_SHOWN = (16_000, 4_000, 1_000)  # characters of an earlier reply, from level to level


@dataclass(frozen=True, slots=True)
class Prompt:
    """A chat at each of its levels, 0 to `levels`."""

    levels: int
    at: Callable[[int], tuple[Message, ...]]

    def noted(self, note: str) -> Prompt:
        """Return the prompt with a note at the end of the user's message."""
        return Prompt(self.levels, lambda level: _with_note(self.at(level), note))

    def answered(self, forms: Sequence[str], said: str) -> Prompt:
        """Return the prompt, followed by an answer and the user's response `said`.

        `forms` are versions of the answer, from longest to shortest. The answer is shortened before
        the prompt itself.
        """
        shorter = len(forms) - 1

        def at(level: int) -> tuple[Message, ...]:
            taken = min(level, shorter)
            return (
                *self.at(level - taken),
                Message(role="assistant", content=forms[taken]),
                Message(role="user", content=said),
            )

        return Prompt(self.levels + shorter, at)


@dataclass(frozen=True, slots=True)
class PromptPart:
    """One material of a template: its name there, and its content after 0 to `steps` steps."""

    name: str
    steps: int
    at: Callable[[int], Any]


def fixed(messages: tuple[Message, ...]) -> Prompt:
    """Return a prompt that cannot be shortened."""
    return Prompt(0, lambda _: messages)


def of_template(template: str, parts: Sequence[PromptPart], **context: object) -> Prompt:
    """Return the prompt of a template; `parts` are its materials, the least relevant first.

    The template can read from `left_out` how many steps each material lost.
    """

    def at(level: int) -> tuple[Message, ...]:
        values, left_out = dict(context), dict[str, int]()
        for part in parts:
            left_out[part.name] = min(level, part.steps)
            values[part.name] = part.at(left_out[part.name])
            level -= left_out[part.name]
        content = render(template, **values, left_out=left_out)
        return (Message(role="user", content=content),)

    return Prompt(sum(part.steps for part in parts), at)


def entries(
    name: str, items: Sequence[T], keep_longest: Callable[[T], bool] = lambda _: False
) -> PromptPart:
    """Return a list as a part that loses its first entries first, `keep_longest` ones last."""
    order = sorted(range(len(items)), key=lambda i: (keep_longest(items[i]), i))

    def at(step: int) -> tuple[T, ...]:
        gone = set(order[:step])
        return tuple(item for i, item in enumerate(items) if i not in gone)

    return PromptPart(name, len(items), at)


def from_the_end(name: str, items: Sequence[T]) -> PromptPart:
    """Return a list as a part that loses its last entries first."""
    return PromptPart(name, len(items), lambda step: tuple(items[: len(items) - step]))


def lines_from_the_end(name: str, text: str) -> PromptPart:
    """Return a text as a part that loses its last lines first; empty headings go with them."""
    lines = text.splitlines()

    def at(step: int) -> str:
        if step == 0:
            return text
        kept = lines[: len(lines) - step]
        while kept and kept[-1].endswith(":"):
            kept.pop()
        return "\n".join([*kept, GONE]) if kept else ""

    return PromptPart(name, len(lines), at)


def tail(name: str, text: str) -> PromptPart:
    """Return a log as a part that loses its older half, again and again, and in the end all."""
    lines = text.splitlines()
    counts = [len(lines)]
    while counts[-1] > _LINES:
        counts.append(max(_LINES, counts[-1] // 2))
    counts.append(0)

    def at(step: int) -> str:
        if step == 0:
            return text
        return "\n".join([GONE, *lines[-counts[step] :]]) if counts[step] else ""

    return PromptPart(name, len(counts) - 1 if lines else 0, at)


def read_only_files(name: str, files: Mapping[str, str], editable: Sequence[str]) -> PromptPart:
    """Return files as a part that loses read-only files, the longest first; their names stay."""
    droppable = [n for n in files if n not in editable and len(files[n]) > len(_FILE_GONE)]
    order = sorted(droppable, key=lambda n: (-len(files[n]), n))

    def at(step: int) -> dict[str, str]:
        gone = set(order[:step])
        return {n: _FILE_GONE if n in gone else text for n, text in files.items()}

    return PromptPart(name, len(order), at)


def shortened(reply: str) -> tuple[str, ...]:
    """Return versions of a reply to show again, ever shorter: its beginning and its end."""
    if not reply:
        return ("(empty)",)
    forms = [_ends(reply, size) for size in _SHOWN]
    return tuple(dict.fromkeys([*forms, GONE]))


def _ends(text: str, size: int) -> str:
    half = size // 2
    return text if len(text) <= size else f"{text[:half]}\n{GONE}\n{text[-half:]}"


def _with_note(messages: tuple[Message, ...], note: str) -> tuple[Message, ...]:
    if messages and messages[-1].role == "user":
        # Many chat templates refuse two user messages in a row.
        last = Message(role="user", content=f"{messages[-1].content}\n\n{note}")
        return (*messages[:-1], last)
    return (*messages, Message(role="user", content=note))


_LOG = logging.getLogger(__name__)
LEAST_ANSWER = 512  # tokens; where the prompt leaves less for the answer, the call is not made


class Fitted(Record):
    """A chat that fits, the tokens left for its answer, and the prompt's level."""

    messages: tuple[Message, ...]
    max_tokens: int
    level: int


class Window:
    """A model's context: its length in tokens, and how they are counted.

    `context` is the known length (0: unknown). `ask` is called once for the server's length, and
    again if the call failed. The smaller one counts; while neither is known, every prompt is sent
    whole. `holds_schemas`: the server is known to enforce schemas, so that prompts need not show
    them.
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
        self._counter = counter or TokenEstimate()
        self._ask = ask

    async def context(self) -> int:
        """Return the context's length in tokens; 0 if unknown."""
        if self._ask is not None:
            ask, self._ask = self._ask, None
            try:
                self._bound(await ask())
            except EndpointError:  # the request to the model itself will report it
                self._ask = ask
        return self._context

    async def fit(self, prompt: Prompt, max_tokens: int, call: str) -> Fitted:
        """Return the prompt with as much of its material as fits beside the answer.

        `max_tokens` are reserved for the answer, at most half of the context. Only if the prompt
        cannot be shortened further does the answer get less, down to LEAST_ANSWER. Raises
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
        """Return whether the prompt at its last level fits beside an answer of `max_tokens`.

        The answer gets at most half of the context, as in `fit`. True if the context is unknown.
        """
        context = await self.context()
        kept = min(max_tokens, max(LEAST_ANSWER, context // 2))
        return not context or self._counter.count(prompt.at(prompt.levels)) + kept <= context

    def learn(self, messages: Sequence[Message], reply: ModelReply) -> None:
        """Calibrate the counter by the server's counts, if it gave any."""
        if not reply.tokens_estimated:
            self._counter.learn(messages, reply.prompt_tokens)

    def refused(self, messages: Sequence[Message], error: ContextOverflow) -> None:
        """Learn from a server's refusal of a chat that is too long."""
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
