"""Rows of `hpcsci results`, for tests of the code that shows them."""

from __future__ import annotations

import math
from typing import Any

from hpcscientist.records.findings import ResultRow, Verdict

CONTRACT = [
    *("idea_id", "parent_ids", "round", "title", "status", "reason", "finding"),
    *("metric", "direction", "mean", "std", "n", "baseline_mean"),
    *("delta", "ci_low", "ci_high", "p_adjusted"),
    *("confirmed", "test_delta", "test_ci_low", "test_ci_high"),
    *("gpu_hours", "cpu_hours", "attempts"),
]
ADDED = ["only_knobs"]  # after those of the contract


def row(number: int, **fields: Any) -> ResultRow:
    values: dict[str, Any] = dict.fromkeys(CONTRACT)
    values |= {
        "idea_id": f"idea-{number:04d}",
        "parent_ids": ("idea-0001", "idea-0002"),
        "round": 1,
        "title": "Wider [bold]layers[/bold] with a long name that goes on :smile: and on",
        "status": "failed",
        "metric": "accuracy",
        "direction": "maximize",
    }
    return ResultRow(**(values | fields))


MEASURED: dict[str, Any] = {
    "status": "scored",
    "finding": Verdict.IMPROVEMENT,
    "mean": 0.912345,
    "std": 0.0123,
    "n": 5,
    "baseline_mean": 0.9,
    "delta": 0.012345,
    "ci_low": 0.00123,
    "ci_high": 0.0234,
    "p_adjusted": 0.01234,
    "cpu_hours": 0.5,
    "attempts": 2,
}
MEASURED_DOWN = MEASURED | {"delta": -0.5}
ROWS = [row(3, **MEASURED), row(4, reason="timeout: ran past\n30 s", mean=math.nan)]


BEYOND = "Größer → 大"
HOSTILE = "a\rb\x1b[31m\u202ec\x85d\u2028e"
