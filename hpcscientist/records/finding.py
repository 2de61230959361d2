"""Findings: what the trials say about an idea."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from hpcscientist.records.base import Record


class Verdict(StrEnum):
    """An idea against the baseline."""

    IMPROVEMENT = "improvement"
    MAINTENANCE = "maintenance"
    DECLINE = "decline"


class Comparison(Record):
    """Idea minus baseline in the metric's unit, with a two-sided interval and p-value.

    `ci_low`, `ci_high` and `p_value` are None where too few seeds were scored for them.
    """

    mean: float
    std: float | None
    n: int
    baseline_mean: float
    delta: float
    ci_low: float | None
    ci_high: float | None
    p_value: float | None
    paired: bool


class Finding(Record):
    """A comparison judged among all ideas of the campaign; verdict None: too few seeds."""

    comparison: Comparison
    p_adjusted: float | None
    verdict: Verdict | None


class ResultRow(Record):
    """One row of `hpcsci results`; the contract's fields in the contract's order."""

    idea_id: str
    parent_ids: tuple[str, ...]
    round: int
    title: str
    status: Literal["baseline", "scored", "failed", "rejected"]
    reason: str | None
    finding: Verdict | None
    metric: str
    direction: str
    mean: float | None
    std: float | None
    n: int | None
    baseline_mean: float | None
    delta: float | None
    ci_low: float | None
    ci_high: float | None
    p_adjusted: float | None
    confirmed: bool | None
    test_delta: float | None
    test_ci_low: float | None
    test_ci_high: float | None
    gpu_hours: float | None
    cpu_hours: float | None
    attempts: int | None
