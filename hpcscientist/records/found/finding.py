"""Findings: what the trials say about an idea."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

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
    """A comparison judged among the ideas of the campaign; verdict None: undecided, see `reason`.

    `p_adjusted`, one-sided in the direction of the effect, is at most q where the idea is an
    improvement or a decline, and nowhere else. The point rule has none.
    """

    comparison: Comparison
    p_adjusted: float | None
    verdict: Verdict | None
    reason: str | None = None


class Confirmation(Record):
    """An idea against the baseline on the test split, with seeds that the search never used.

    `comparison` is None where nothing could be compared, `p_one_sided` (that the idea is better)
    where too few seeds were scored. `reason` says why it is not confirmed, None where it is.
    """

    comparison: Comparison | None
    p_one_sided: float | None
    confirmed: bool
    reason: str | None


class ResultRow(Record):
    """One row of `hpcsci results`; the contract's fields in the contract's order.

    `only_knobs`, which the contract lacks, says whether the code of a model's idea differs from
    the reference by values of knobs alone, as the control arm's does; None without code.
    `undecided`, which the contract has no field for, tells a scored idea on which there is no
    verdict yet from one that is not judged: `reason` says why in both cases.
    """

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
    only_knobs: bool | None = None
    undecided: bool = Field(default=False, exclude=True)

    @property
    def shrinkage(self) -> float | None:
        """The share of the search's gain that the test split took away; None without both.

        0: none, 1: all, above 1: worse than the baseline there, negative: it gained more.
        """
        if self.finding is not Verdict.IMPROVEMENT or not self.delta or self.test_delta is None:
            return None
        return 1 - self.test_delta / self.delta
