"""How many tokens a chat has: estimated from its bytes, or counted by the model's tokenizer."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from hpcscientist.records.asked.model import Message

# Before anything is known. English and code have three to five bytes a token.
_FIRST_GUESS = 0.4
_MARGIN = 1.1  # texts differ; what was measured on one is not exact for the next
_TELLING = 200  # bytes: in a shorter chat the template's own tokens weigh too much
_REMEMBERED = 64
_A_MESSAGE = 12  # tokens that a chat template puts around a message
_A_CHAT = 32  # and around all: a first token, a system message of its own, the answer's start


class Counter(Protocol):
    """Counts tokens, rather too many than too few. It learns from what the server counted."""

    def count(self, messages: Sequence[Message]) -> int:
        """Return how many tokens of context a chat takes, its template included."""
        ...

    def learn(self, messages: Sequence[Message], tokens: int) -> None:
        """Take note that the server counted so many tokens for this chat."""
        ...

    def distrust(self) -> None:
        """Take note that a chat was longer than counted, by nobody knows how much."""
        ...


class Estimate:
    """Counts bytes, by the greatest rate of tokens a byte that was lately measured."""

    def __init__(self) -> None:
        self._rates: deque[float] = deque(maxlen=_REMEMBERED)
        self._rate = _FIRST_GUESS

    def count(self, messages: Sequence[Message]) -> int:
        """Return an estimate that includes a margin."""
        around = _A_CHAT + _A_MESSAGE * len(messages)
        return math.ceil(_bytes(messages) * self._rate) + around

    def learn(self, messages: Sequence[Message], tokens: int) -> None:
        """Calibrate the rate. Chats that are short, or without tokens, tell nothing."""
        size = _bytes(messages)
        if size >= _TELLING and tokens > 0:
            self._rates.append(tokens / size)
            self._rate = max(self._rates) * _MARGIN

    def distrust(self) -> None:
        """Count a token a byte, more than any tokenizer makes, until something is measured."""
        self._rates.clear()
        self._rate = 1.0


class Exact:
    """Counts with the model's own tokenizer; how much its template adds is learnt."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._chat = _A_CHAT

    def count(self, messages: Sequence[Message]) -> int:
        """Return the tokens of all contents, and what the template adds."""
        return self._contents(messages) + _A_MESSAGE * len(messages) + self._chat

    def learn(self, messages: Sequence[Message], tokens: int) -> None:
        """Notice a template that adds more than was thought."""
        beside = tokens - self._contents(messages) - _A_MESSAGE * len(messages)
        self._chat = max(self._chat, beside)

    def distrust(self) -> None:
        """Allow for a template twice as long."""
        self._chat *= 2

    def _contents(self, messages: Sequence[Message]) -> int:
        encoded = (self._tokenizer.encode(m.content, add_special_tokens=False) for m in messages)
        return sum(len(encoding.ids) for encoding in encoded)


def counter_of(folder: Path | None) -> Counter:
    """Return an exact counter where a model's folder has a tokenizer that can be read here."""
    file = folder / "tokenizer.json" if folder else None
    if file is None or not file.is_file():
        return Estimate()
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 (comes with vLLM; an estimate does too)
    except ImportError:
        return Estimate()
    try:
        tokenizer = Tokenizer.from_file(str(file))
        # Quantized models bring what was set to quantize them: 2048 tokens, and no text has more.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return Exact(tokenizer)
    except Exception:  # noqa: BLE001 (the library raises bare Exception for what it cannot read)
        return Estimate()


def _bytes(messages: Sequence[Message]) -> int:
    return sum(len(message.content.encode("utf-8", "replace")) for message in messages)
