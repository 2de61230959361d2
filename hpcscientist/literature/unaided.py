"""What a survey starts from and asks for where no model says it: the recipe's own words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hpcscientist.models.embedding.keywords import terms
from hpcscientist.models.prompting.quoting import line
from hpcscientist.recipe.schema import Topic
from hpcscientist.records.known.survey import TaskAttributes

_QUERY = 200  # characters


def own_attributes(topic: Topic) -> TaskAttributes:
    """Return what the recipe itself says of the task."""
    return TaskAttributes(
        inputs=topic.inputs.strip() or "not stated",
        outputs=topic.outputs.strip() or "not stated",
        other=tuple(text.strip() for text in topic.attributes if text.strip()),
    )


def own_queries(topic: Topic, attributes: TaskAttributes | None = None) -> tuple[str, ...]:
    """Return queries that need no model: the title, then the attributes."""
    of = attributes or own_attributes(topic)
    return distinct([topic.title, *of.other, of.outputs, of.inputs])


def distinct(queries: Iterable[str], asked: Sequence[str] = ()) -> tuple[str, ...]:
    """Return queries, cleaned, each once and none that was asked; those without words go."""
    seen = {query.casefold() for query in asked}
    kept = []
    for text in queries:
        query = line(text, _QUERY)
        if terms(query) and query.casefold() not in seen:
            seen.add(query.casefold())
            kept.append(query)
    return tuple(kept)
