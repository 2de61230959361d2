"""What a learning curve shows of its training: that it broke off, learned by heart, or diverged.

Early stopping has measures for this (Prechelt 1998, Neural Networks 11, section 2): the
generalization loss, by which the last error on held-out data is above the lowest, and the training
progress, by which the last errors are above their lowest on average. Curves come from generated
code and are never trusted: this is a hint to whoever proposes the next idea.
"""

from __future__ import annotations

import math
import re
from typing import Final

from hpcscientist.authoring.runs.curves import series_of
from hpcscientist.records.experiment import Symptom

_LEAST: Final = 6  # values; fewer are no curve
_STRIP: Final = 5  # Prechelt's k
_OVERFIT: Final = 0.05  # generalization loss, his GL 5
_PROGRESS: Final = 0.02  # he stops at 0.0001: this is far from there

_WORD = re.compile(r"[A-Za-z]+|\d+")
_HELD_OUT: Final = frozenset({"val", "valid", "validation", "dev", "test", "eval", "heldout"})
_ERRORS: Final = frozenset(
    {"loss", "error", "err", "nll", "ce", "mse", "mae", "rmse", "ppl", "perplexity", "objective"}
)
_SHARES: Final = frozenset({"acc", "accuracy", "f1", "auc"})


def symptom(text: str) -> Symptom | None:
    """Return what a progress.jsonl shows, None for nothing that is known. Never raises.

    Series are told by their names: what is held out by "val" or "test", errors by "loss" or
    "error"; of an accuracy the rest to 1 is the error.
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
    """The series as errors, lower being better; None for what is none, or no curve."""
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
    """Whether it got worse on held-out data since its best there, and better in training."""
    lowest = min(held)
    best = held.index(lowest)
    if not lowest > 0 or held[-1] / lowest - 1 <= _OVERFIT or best == len(held) - 1:
        return False
    return any(errors[-1] < errors[min(best, len(errors) - 1)] for errors in trained)


def _goes_on(errors: list[float]) -> bool:
    """Whether its last value is the best by far: it was still getting better."""
    strip = errors[-_STRIP:]
    lowest = min(errors)
    if errors[-1] > lowest or not lowest > 0:
        return False
    return sum(strip) / len(strip) / lowest - 1 > _PROGRESS
