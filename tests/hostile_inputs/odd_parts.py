"""Parts of a JSON value, by their path, that are others: as the text that stands there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Key = str | int
GONE = None


@dataclass(frozen=True)
class Part:
    """At `path` stands `text`, which need not even be JSON; None: nothing stands there."""

    path: tuple[Key, ...]
    text: str | None


def rewritten(line: str, changes: tuple[Part, ...]) -> str:
    """Return a line of JSON with its parts changed; a line that is no JSON stays as it is."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return line
    texts: dict[str, str] = {}
    for number, part in enumerate(changes):
        if not part.path:
            return "" if part.text is None else part.text
        holder = _at(value, part.path[:-1])
        key = part.path[-1]
        if not _holds(holder, key):
            continue
        if part.text is None:
            del holder[key]
        else:
            mark = f"@part {number}@"
            holder[key], texts[json.dumps(mark)] = mark, part.text
    text = json.dumps(value)
    for mark, new in texts.items():
        text = text.replace(mark, new)
    return text


@st.composite
def parts(draw: st.DrawFn, line: str, values: st.SearchStrategy[str]) -> tuple[Part, ...]:
    """One or two parts of a line of JSON that are odd, gone, given twice, or have more beside."""
    value = json.loads(line)
    places = [(), *_paths(value)]
    found = []
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(places))
        how = draw(st.sampled_from(("other",) * 6 + ("gone", "twice", "beside")))
        text = draw(values)
        key = path[-1] if path else 0
        if how == "gone":
            found.append(Part(path, GONE))
            continue
        if isinstance(key, str) and how in ("twice", "beside"):
            name = key if how == "twice" else draw(st.sampled_from(("more", "", "\u202e", "a\0")))
            text = f"{json.dumps(_at(value, path))}, {json.dumps(name)}: {text}"
        found.append(Part(path, text))
    return tuple(found)


def _paths(value: Any, path: tuple[Key, ...] = ()) -> Iterator[tuple[Key, ...]]:
    """Where something stands within a value."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        yield (*path, key)
        yield from _paths(inner, (*path, key))


def _at(value: Any, path: tuple[Key, ...]) -> Any:
    for key in path:
        value = value[key] if _holds(value, key) else None
    return value


def _holds(holder: Any, key: Key) -> bool:
    if isinstance(holder, dict):
        return key in holder
    return isinstance(holder, list) and isinstance(key, int) and key < len(holder)
