"""Findings about ideas, the rows of `hpcsci results`, claims, and the outcomes of reruns."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from hpcscientist.records.base import Record
from hpcscientist.records.trial import Budget, Isolation, Limits, MetricSpec, Split


class Verdict(StrEnum):
    """How an idea compares with the baseline."""

    IMPROVEMENT = "improvement"
    MAINTENANCE = "maintenance"
    DECLINE = "decline"


class Comparison(Record):
    """Idea minus baseline in the metric's unit, with a two-sided interval and p-value.

    `ci_low`, `ci_high` and `p_value` are None if too few seeds were scored.
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
    """A comparison judged among all ideas of the campaign. `verdict` None: undecided, see `reason`.

    `p_adjusted`, one-sided in the direction of the effect, is at most q if and only if the idea is
    an improvement or a decline. It is None under the point rule.
    """

    comparison: Comparison
    p_adjusted: float | None
    verdict: Verdict | None
    reason: str | None = None


class Confirmation(Record):
    """An idea compared with the baseline on the test split, with seeds that the search never used.

    `comparison` is None if nothing could be compared, `p_one_sided` (that the idea is better) if
    too few seeds were scored. `reason` says why the idea is not confirmed; None if it is.
    """

    comparison: Comparison | None
    p_one_sided: float | None
    confirmed: bool
    reason: str | None


class ResultRow(Record):
    """One row of `hpcsci results`: the contract's fields in the contract's order, and two more.

    `only_knobs` says whether the code of a model's idea differs from the reference only in values
    of knobs, as the control arm's code does; None without code. `undecided` distinguishes a scored
    idea without a verdict yet from one that is not judged; `reason` says why in both cases.
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
        """The share of the search's gain that was lost on the test split.

        0: none was lost, 1: all, above 1: worse than the baseline, negative: a larger gain. None
        unless the idea is an improvement with a delta on both splits.
        """
        if self.finding is not Verdict.IMPROVEMENT or not self.delta or self.test_delta is None:
            return None
        return 1 - self.test_delta / self.delta


# A claim: an idea's measurements, and everything that is needed to repeat them.


class Measured(Record):
    """A scored trial: its seed, its metrics, the hash of its predictions."""

    trial_id: str
    seed: int
    metrics: dict[str, float]
    predictions_hash: str | None


class Evidence(Record):
    """The trials of a claim on one split, in the order of their seeds, and their comparison.

    `comparison` is only between the idea and the baseline. The verdict depends on all ideas of the
    campaign, so `hpcsci results` derives it when asked.
    """

    idea: tuple[Measured, ...]
    baseline: tuple[Measured, ...]
    comparison: Comparison


class Claim(Record):
    """`ideas/ID/claim.json`. `code` is relative to the idea's folder; `metric` is the primary one,
    and `tolerances` are the metrics that have a tolerance.

    recipe.tar beside it holds the recipe with `recipe_hash`. `q` and `decision` are settings of
    `loop`, None in claims of earlier versions.

    `evidence` has the test split only if the idea had access to it, and all of its trials there
    and the baseline's with the same seeds were scored.
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


# The outcome of rerunning a claim.


class Holding(StrEnum):
    """Whether a claim holds when it is rerun."""

    BITS = "holds"
    FIGURES = "holds in the figures, not bit by bit"
    OPEN = "cannot be told: bits differ, and there are too few seeds"
    NOT = "does not hold"


class SeedAgain(Record):
    """The recorded value of a trial and that of its rerun; `again` is None if the rerun failed."""

    split: Split
    of: Literal["baseline", "idea"]
    trial_id: str
    seed: int
    recorded: float
    again: float | None
    same_bits: bool
    failure: str | None = None


class Effect(Record):
    """The comparison with the baseline on one split, as recorded and from the reruns."""

    recorded: Comparison
    again: Comparison | None


class Reproduction(Record):
    """The outcome of rerunning a claim. `reasons` say why it does not hold or cannot be decided,
    `notes` what else differs.

    `rows` and `effects` are empty if the record is incomplete or damaged: then nothing was rerun,
    and `metric` may be unknown. `folder` holds the rerun trials; None if there are none. `alone`:
    the idea's folder was checked only against itself, because its campaign was not available;
    `notes` say what that omits.
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
