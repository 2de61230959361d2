"""Texts of papers and code as prompts show them: material by strangers, bounded and tamed.

A text cannot leave its fence, for fences are longer than any inside
(`models.prompting.prompts.fence`), and `models.prompting.quoting` takes out what else could
act on a model or on a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hpcscientist.models.prompting.materials import GONE, Part, lines_from_the_end
from hpcscientist.models.prompting.quoting import line, tame
from hpcscientist.recipe.schema import Topic
from hpcscientist.records.known.literature import Hit

TITLE = 300  # characters
ABSTRACT = 4000  # characters; abstracts have some 1,500, so a longer one is something else

_SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[。！？।])\s*")


def block(text: str, limit: int) -> str:
    """Return a text with its line breaks, cut between lines to at most `limit` characters."""
    tamed = tame(text[: limit + 1]).strip("\n")
    if len(text) <= limit:
        return tamed
    kept = tamed[: limit - len(GONE) - 1]
    head, found, _ = kept.rpartition("\n")
    return f"{head if found else kept}\n{GONE}"


def title_of(hit: Hit) -> str:
    """Return a paper's title as prompts show it."""
    return line(hit.title, TITLE)


def abstract_of(hit: Hit) -> str:
    """Return a paper's abstract as prompts show it; "" where it has none."""
    return line(hit.abstract, ABSTRACT)


def text_of(hit: Hit) -> str:
    """Return title and abstract."""
    return f"{title_of(hit)}\n{abstract_of(hit)}".rstrip()


def described(topic: Topic) -> Part:
    """A topic whose description goes line by line, the last first."""
    text = lines_from_the_end("", topic.description)
    return Part(
        "topic",
        text.steps,
        lambda step: topic.model_copy(update={"description": text.at(step)}),
    )


def sentences(name: str, text: str) -> Part:
    """Sentences of a text go one by one, the last first."""
    parts = [part for part in _SENTENCES.split(text) if part]

    def at(step: int) -> str:
        kept = parts[: len(parts) - step]
        return text if step == 0 else " ".join([*kept, GONE]) if kept else ""

    return Part(name, len(parts), at)


def papers(name: str, hits: Sequence[Hit]) -> Part:
    """Papers, the best first: abstracts go one by one, then titles, the last first."""
    shown = [(title_of(hit), abstract_of(hit)) for hit in hits]
    count = len(shown)

    def at(step: int) -> tuple[tuple[str, str], ...]:
        whole, named = count - min(step, count), count - max(0, step - count)
        return (*shown[:whole], *((title, "") for title, _ in shown[whole:named]))

    return Part(name, 2 * count, at)
