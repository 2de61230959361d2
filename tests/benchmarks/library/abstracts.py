"""Generated abstracts in the form of Semantic Scholar's bulk files, and questions about them.

Words are made of syllables and drawn as often as Zipf's law has it, so that a keyword index has
the few long and many short lists that it has of real texts. A tenth of the words are a topic's
own: an abstract is about one topic of some hundred.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final

VOCABULARY: Final = 30_000
_TOPICS: Final = 200
_TOPIC_WORDS: Final = 60
_TITLE: Final = (6, 12)
_ABSTRACT: Final = (110, 220)
_SENTENCE: Final = 18
_ONSETS: tuple[str, ...] = (*"bcdfglmnprstv", "st", "tr", "pl", "gr", "sh")
_VOWELS: tuple[str, ...] = (*"aeiou", "ia", "eo")
_ENDINGS: tuple[str, ...] = ("", *"nrstlm", "tion", "ing", "ment")


class Words:
    """A vocabulary, the most frequent word first, and what is drawn from it."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        made: dict[str, None] = {}
        while len(made) < VOCABULARY:
            made[self._word()] = None
        self.words = list(made)
        self._weights = list(accumulate(1.0 / (rank + 3) for rank in range(VOCABULARY)))
        self.topics = [self.draw.sample(self.words[500:], _TOPIC_WORDS) for _ in range(_TOPICS)]

    def _word(self) -> str:
        draw = self.draw
        parts = [draw.choice(_ONSETS) + draw.choice(_VOWELS) for _ in range(draw.choice((1, 2, 3)))]
        return "".join(parts) + draw.choice(_ENDINGS)

    def text(self, length: int, topic: Sequence[str]) -> list[str]:
        """Draw so many words, a tenth of them a topic's."""
        found = self.draw.choices(self.words, cum_weights=self._weights, k=length)
        for place in range(self.draw.randrange(10), length, 10):
            found[place] = self.draw.choice(topic)
        return found


def write_abstracts(path: Path, count: int, seed: int = 0) -> None:
    """Write `count` papers of title and abstract, one a line; about 1.3 KB each."""
    words = Words(seed)
    draw = words.draw
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            topic = words.topics[draw.randrange(_TOPICS)]
            title = " ".join(words.text(draw.randint(*_TITLE), topic)).capitalize()
            told = words.text(draw.randint(*_ABSTRACT), topic)
            sentences = (told[i : i + _SENTENCE] for i in range(0, len(told), _SENTENCE))
            record = {
                "corpusid": number + 1,
                "title": title,
                "abstract": " ".join(f"{' '.join(s).capitalize()}." for s in sentences),
                "year": draw.randint(1990, 2025),
                "authors": [{"name": f"A{draw.randrange(9000)} Author"}],
                "citationcount": draw.randrange(500),
            }
            file.write(json.dumps(record) + "\n")


def questions(count: int, seed: int = 0) -> list[str]:
    """Return queries of two to six words: a topic's, and words of every day."""
    words = Words(seed)
    draw = random.Random(seed + 1)
    return [
        " ".join(
            draw.sample(draw.choice(words.topics), draw.randint(1, 4))
            + draw.sample(words.words[:2000], draw.randint(1, 2))
        )
        for _ in range(count)
    ]
