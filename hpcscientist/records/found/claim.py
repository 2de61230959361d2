"""A claim: what was measured of an idea, and all that is needed to measure it again."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hpcscientist.records.base import Record
from hpcscientist.records.found.finding import Comparison
from hpcscientist.records.trial import Budget, Isolation, Limits, MetricSpec, Split


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
    """`ideas/ID/claim.json`. `code` is relative to the idea's folder; `metric` is what counts.

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
    q: float | None = Field(default=None, gt=0, lt=1)
    decision: Literal["fdr", "point"] | None = None
    evidence: dict[Split, Evidence]
