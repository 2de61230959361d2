"""What came of running a claim again."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from hpcscientist.records.base import Record
from hpcscientist.records.found.finding import Comparison
from hpcscientist.records.trial import Split


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
