"""Learning curves from a candidate's progress.jsonl, summarized in figures that are safe to quote.

Generated code writes progress.jsonl, so the file may be cut off, damaged, enormous or misleading.
Nothing in it is trusted. The only text passed on are the names of series, which are short and
plain; the rest is arithmetic on its numbers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

from hpcscientist.records.experiment import Symptom

TAIL = 256 * 1024  # characters or bytes read, from the end
CUT = "[earlier lines are left out]"  # the first line of a text whose beginning was cut off
_OF_THE_END = (
    f"only the end of the file was read: {TAIL // 1024} KiB, and first values and places are of it"
)
_LINE = 4000  # characters of a line; a longer one is skipped
_SERIES, _ON_THE_WAY = 12, 6
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_./@-]{0,39}")


def curve(text: str) -> str:
    """Return a line of figures for each series of a progress.jsonl; "" if there is none.

    A line gives the first and last value, the lowest and highest with their places (counted from
    1), some values in between at equal distances, and how many values were not finite. Values
    inside a nested object are named "outer/inner". If only the end of the file is known, a last
    line says so. Never raises.
    """
    lines = [f"{name}: {_summary(values)}" for name, values in series_of(text).items()]
    if lines and (len(text) > TAIL or text.startswith(CUT)):
        lines.append(_OF_THE_END)
    return "\n".join(lines)


def series_of(text: str) -> dict[str, list[float]]:
    """Return the values of each series of a progress.jsonl by its name, as in `curve`.

    Values may be infinite or NaN.
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
        except (ValueError, RecursionError):  # torn, not JSON, thousands of digits or brackets
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


# Symptoms in a learning curve: training stopped too early, overfit, or diverged.
#
# The measures come from early stopping (Prechelt 1998, Neural Networks 11, section 2). The
# generalization loss is how far the last error on held-out data lies above the lowest; the
# training progress is how far the last errors lie above their lowest on average. Curves come from
# generated code and are never trusted: a symptom is a hint for whoever proposes the next idea.

_LEAST: Final = 6  # values; fewer do not make a curve
_STRIP: Final = 5  # Prechelt's k
_OVERFIT: Final = 0.05  # generalization loss, Prechelt's GL 5
_PROGRESS: Final = 0.02  # far above 0.0001, where Prechelt stops

_WORD = re.compile(r"[A-Za-z]+|\d+")
_HELD_OUT: Final = frozenset({"val", "valid", "validation", "dev", "test", "eval", "heldout"})
_ERRORS: Final = frozenset(
    {"loss", "error", "err", "nll", "ce", "mse", "mae", "rmse", "ppl", "perplexity", "objective"}
)
_SHARES: Final = frozenset({"acc", "accuracy", "f1", "auc"})


def symptom(text: str) -> Symptom | None:
    """Return the symptom that a progress.jsonl shows, None if there is none. Never raises.

    Series are recognized by their names: held-out data by "val" or "test", errors by "loss" or
    "error". An accuracy counts as the error 1 - accuracy.
    """
    trained: list[list[float]] = []
    held_out: list[list[float]] = []
    for name, values in series_of(text).items():
        words = {word.lower() for word in _WORD.findall(name)}
        errors = _errors(words, values)
        if errors is not None:
            (held_out if words & _HELD_OUT else trained).append(errors)
    if any(_diverged(errors) for errors in (*trained, *held_out)):
        return "diverged"
    if any(_overfit(held, trained) for held in held_out):
        return "overfit"
    if any(_goes_on(errors) for errors in held_out or trained):
        return "undertrained"
    return None


def _errors(words: set[str], values: list[float]) -> list[float] | None:
    """Return the series as errors, lower being better; None if it is not one or too short."""
    if len(values) < _LEAST:
        return None
    if words & _ERRORS:
        return values
    if words & _SHARES and all(0 <= value <= 1 for value in values):
        return [1 - value for value in values]
    return None


def _diverged(errors: list[float]) -> bool:
    return not math.isfinite(errors[-1]) or errors[-1] > errors[0] > 0


def _overfit(held: list[float], trained: list[list[float]]) -> bool:
    """Return whether held-out errors rose since their lowest while training errors fell."""
    lowest = min(held)
    best = held.index(lowest)
    if not lowest > 0 or held[-1] / lowest - 1 <= _OVERFIT or best == len(held) - 1:
        return False
    return any(errors[-1] < errors[min(best, len(errors) - 1)] for errors in trained)


def _goes_on(errors: list[float]) -> bool:
    """Return whether the last error is the lowest by far: training was still improving."""
    strip = errors[-_STRIP:]
    lowest = min(errors)
    if errors[-1] > lowest or not lowest > 0:
        return False
    return sum(strip) / len(strip) / lowest - 1 > _PROGRESS
