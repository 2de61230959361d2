"""Small text helpers shared by the adapters: reasoning, token estimates, hashes of prompts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from hpcscientist.records.asked.model import Message

_OPEN, _CLOSE = "<think>", "</think>"
_CHARACTERS_PER_TOKEN = 4  # the usual rule of thumb for English and code


def prompt_hash(prompt: Sequence[Message]) -> str:
    """Return the hash of a prompt: what an idea's record names, and what a reply answers."""
    text = json.dumps([message.model_dump() for message in prompt])
    return hashlib.sha256(text.encode()).hexdigest()


def strip_reasoning(text: str) -> str:
    """Return the answer without the reasoning that precedes it; see `split_reasoning`."""
    return split_reasoning(text)[1]


def split_reasoning(text: str) -> tuple[str, str]:
    """Return the reasoning that precedes an answer, and the answer.

    Knows `<think>…</think>` at the start, the same without its opening tag (some chat
    templates put that tag into the prompt), and reasoning that was cut off: then no answer
    is left. Tags further inside an answer are left alone.
    """
    stripped = text.strip()
    if stripped.startswith(_OPEN):
        thought, _, answer = stripped.removeprefix(_OPEN).partition(_CLOSE)
        return thought.strip(), answer.strip()
    if not stripped.startswith(("{", "[", "```")):
        before, _, after = stripped.partition(_CLOSE)
        if after and _OPEN not in before:
            return before.strip(), after.strip()
    return "", stripped


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has; 0 for an empty one."""
    return -(-len(text) // _CHARACTERS_PER_TOKEN)
