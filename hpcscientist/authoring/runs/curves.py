"""Learning curves as a candidate wrote them, in a few lines of figures that are safe to quote.

progress.jsonl is written by generated code: it may be cut off, damaged, enormous, or made to
mislead. Nothing of it is trusted and no text of it is passed on but the names of series, which
are short and plain; the rest is arithmetic on its numbers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

TAIL = 256 * 1024  # characters or bytes that are read, from the end
CUT = "[earlier lines are left out]"  # the first line of a text that is the end of a longer one
_OF_THE_END = (
    f"only the end of the file was read: {TAIL // 1024} KiB, and first values and places are of it"
)
_LINE = 4000  # characters of a line; a longer one is skipped
_SERIES, _ON_THE_WAY = 12, 6
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_./@-]{0,39}")


def curve(text: str) -> str:
    """Return a line of figures for each series of a progress.jsonl; "" if there is none.

    First and last, lowest and highest with their places (counted from 1), some values on the way
    at equal distances, and how many were no finite numbers. Values inside one further object are
    named "outer/inner". Where only the end is known a last line says so. Never raises.
    """
    lines = [f"{name}: {_summary(values)}" for name, values in series_of(text).items()]
    if lines and (len(text) > TAIL or text.startswith(CUT)):
        lines.append(_OF_THE_END)
    return "\n".join(lines)


def series_of(text: str) -> dict[str, list[float]]:
    """Return the values of each series of a progress.jsonl by its name, as of `curve`.

    They may hold infinities and what is no number.
    """
    series: dict[str, list[float]] = {}
    for entry in _entries(text[-TAIL:]):
        for name, value in _numbers(entry):
            if name in series or len(series) < _SERIES:
                series.setdefault(name, []).append(value)
    return series


def _entries(text: str) -> Iterator[dict[str, Any]]:
    for line in text.split("\n"):
        if not line.strip() or len(line) > _LINE:
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):  # torn, no JSON, thousands of digits or brackets
            continue
        if isinstance(entry, dict):
            yield entry


def _numbers(entry: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in entry.items():
        inner = value.items() if isinstance(value, dict) else ()
        for full, found in ((name, value), *((f"{name}/{key}", one) for key, one in inner)):
            if _NAME.fullmatch(full) and (number := _number(found)) is not None:
                yield full, number


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _summary(values: list[float]) -> str:
    finite = [(value, place) for place, value in enumerate(values, 1) if math.isfinite(value)]
    broken = [place for place, value in enumerate(values, 1) if not math.isfinite(value)]
    count = "1 value" if len(values) == 1 else f"{len(values)} values"
    parts = [count]
    if finite:
        low, high = min(finite), max(finite, key=lambda found: (found[0], -found[1]))
        parts.append(f"first {_figure(finite[0][0])}, last {_figure(finite[-1][0])}")
        parts.append(f"lowest {_figure(low[0])} (no. {low[1]})")
        parts.append(f"highest {_figure(high[0])} (no. {high[1]})")
    if len(finite) > _ON_THE_WAY:
        last = len(finite) - 1
        places = [round(last * step / (_ON_THE_WAY - 1)) for step in range(_ON_THE_WAY)]
        parts.append("on the way " + ", ".join(_figure(finite[place][0]) for place in places))
    if broken:
        parts.append(f"not finite: {len(broken)}, the first no. {broken[0]}")
    return "; ".join(parts)


def _figure(value: float) -> str:
    return f"{value:.4g}"
