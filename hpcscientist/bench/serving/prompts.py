"""Draws requests from a seed: chats of nonsense words, whose replies have known lengths."""

from __future__ import annotations

import random

from hpcscientist.config.settings import RoleSettings
from hpcscientist.records.model_calls import Message, ModelRequest

_SYSTEM = "You propose experiments."
_SYLLABLES = ("ba", "de", "fi", "go", "lu", "ma", "ne", "ri", "so", "tu")


def draw(
    place: str, count: int, characters: int, tokens: int, sampling: RoleSettings
) -> tuple[ModelRequest, ...]:
    """Return requests of this many characters, answered with this many tokens on average.

    Each reply has exactly its own number, half as many tokens to half as many more: replies of one
    length would end together, and the engine would wait for the next ones. `place` is the seed:
    another one gives chats with other beginnings, which no cache holds.
    """
    rng = random.Random(place)
    return tuple(
        ModelRequest(
            subject=f"{place}-{number}",
            stage="propose",
            messages=(
                Message(role="system", content=f"{rng.getrandbits(32):08x} {_SYSTEM}"),
                Message(role="user", content=_text(rng, characters)),
            ),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=rng.randint((tokens + 1) // 2, tokens + tokens // 2),
            seed=rng.getrandbits(31),
            ignore_eos=True,
        )
        for number in range(count)
    )


def _text(rng: random.Random, characters: int) -> str:
    words: list[str] = []
    length = -1
    while length < characters:
        word = "".join(rng.choices(_SYLLABLES, k=rng.randint(1, 4)))
        words.append(word)
        length += 1 + len(word)
    return " ".join(words)[:characters]
