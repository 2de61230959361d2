"""Findings: what the trials say about an idea."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from hpcscientist.records.base import Record
from hpcscientist.records.trial import Budget, Isolation, Limits, MetricSpec, Split


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


# A claim: what was measured of an idea, and all that is needed to measure it again.


class Measured(Record):
    """A trial that was scored: its seed, its metrics, the hash of its predictions."""

    trial_id: str
    seed: int
    metrics: dict[str, float]
    predictions_hash: str | None


class Evidence(Record):
    """The trials of a claim on one split, in the order of their seeds, and what they come to.

    `comparison` is of the idea with the baseline alone. The verdict takes all ideas of the campaign
    together, so it is derived when it is read: `hpcsci results`.
    """

    idea: tuple[Measured, ...]
    baseline: tuple[Measured, ...]
    comparison: Comparison


class Claim(Record):
    """`ideas/ID/claim.json`. `code` is relative to the idea's folder; `metric` is what counts,
    and `tolerances` are the metrics that have one.

    The recipe lies beside it as recipe.tar, with `recipe_hash`. `q` and `decision` are those of
    `loop`, None in claims of earlier versions.

    The test split is in `evidence` only where the idea was let to it and all its trials there, and
    the baseline's with the same seeds, were scored.
    """

    version: Literal[1] = 1
    campaign_id: str
    idea_id: str
    attempt: int
    code: str
    code_hash: str
    reference_hash: str
    entry: str
    predictions: str
    recipe: str
    recipe_hash: str
    data_hash: str
    scorer_hash: str
    isolation: Isolation
    image: str | None
    image_hash: str | None
    package_version: str
    package_hash: str
    python: str
    budget: Budget
    limits: Limits
    metric: MetricSpec
    tolerances: tuple[MetricSpec, ...] = ()
    q: float | None = Field(default=None, gt=0, lt=1)
    decision: Literal["fdr", "point"] | None = None
    evidence: dict[Split, Evidence]


# What came of running a claim again.


class Holding(StrEnum):
    """Whether a claim holds."""

    BITS = "holds"
    FIGURES = "holds in the figures, not bit by bit"
    OPEN = "cannot be told: bits differ, and there are too few seeds"
    NOT = "does not hold"


class SeedAgain(Record):
    """One trial as it was recorded and as it came out again; `again` None: it failed."""

    split: Split
    of: Literal["baseline", "idea"]
    trial_id: str
    seed: int
    recorded: float
    again: float | None
    same_bits: bool
    failure: str | None = None


class Effect(Record):
    """The idea against the baseline on one split, as recorded and again."""

    recorded: Comparison
    again: Comparison | None


class Reproduction(Record):
    """The outcome. `reasons` say why a claim does not hold or nothing can be told, `notes` what
    else differs.

    `rows` and `effects` are empty where what was recorded is not whole: nothing was run then, and
    `metric` may not be known.
    `folder` holds the trials, None where there are none. `alone`: an idea's folder was held against
    nothing but itself, for its campaign was not there; `notes` say what that leaves out.
    """

    campaign_id: str
    idea_id: str
    attempt: int
    metric: str | None
    outcome: Holding
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rows: tuple[SeedAgain, ...] = ()
    effects: dict[Split, Effect] = Field(default={})
    folder: str | None = None
    alone: bool = False
