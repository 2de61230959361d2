"""How deep a stranger's JSON or TOML is nested: what walks through it has a stack that ends."""

from __future__ import annotations

from typing import Any, Final

DEEPEST: Final = 100  # levels; no honest document or reply has as many


def is_too_deep(value: Any) -> bool:
    """Say whether lists and tables lie within each other more than `DEEPEST` deep."""
    level, found = [value], 0
    while level and found <= DEEPEST:  # no recursion, and no table that is only wide counts
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        level, found = inner, found + 1
    return bool(level)
