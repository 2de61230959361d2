"""Small text helpers shared by the adapters: token estimates, hashes of prompts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from hpcscientist.records.asked.model import Message

_CHARACTERS_PER_TOKEN = 4  # the usual rule of thumb for English and code


def prompt_hash(prompt: Sequence[Message]) -> str:
    """Return the hash of a prompt: what an idea's record names, and what a reply answers."""
    text = json.dumps([message.model_dump() for message in prompt])
    return hashlib.sha256(text.encode()).hexdigest()


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has; 0 for an empty one."""
    return -(-len(text) // _CHARACTERS_PER_TOKEN)
