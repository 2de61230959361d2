"""Numbers that strangers give: people's files, models, servers.

Python's whole numbers have no end and JSON and TOML take any, but what they come to (Arrow's
columns, C's integers, sleeps, sums) has one. So they are bounded where they enter.
"""

from __future__ import annotations

import math
from typing import Any, Final

MOST: Final = 2**53  # beyond it a float tells two whole numbers apart no more


def bounded(count: int) -> int:
    """Return a count, or the most that one can be where somebody recorded more."""
    return min(count, MOST)


def misfit(value: Any, *, infinite: bool = False) -> str | None:
    """Return which number within JSON or TOML values nobody can mean, in words; None if none.

    Such are what is no number, whole numbers beyond `MOST`, and infinities unless `infinite`.
    """
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:  # no recursion: nesting is a stranger's too
        place, item = waiting.pop()
        if isinstance(item, dict):
            waiting += [(f"{place}.{name}" if place else str(name), v) for name, v in item.items()]
        elif isinstance(item, list | tuple):
            waiting += [(f"{place}[{index}]", v) for index, v in enumerate(item)]
        elif isinstance(item, float) and (math.isnan(item) or (math.isinf(item) and not infinite)):
            return _said(place, "must be a finite number")
        elif isinstance(item, int) and abs(item) > MOST:
            return _said(place, f"must be a number of at most {MOST} in size")
    return None


def _said(place: str, words: str) -> str:
    return f"{place}: {words}" if place else words
