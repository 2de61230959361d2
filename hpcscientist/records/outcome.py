"""How a trial ended. "The idea failed" and "the machine failed" are different types.

Only the first is evidence about an idea; the second is retried within a budget.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from hpcscientist.records.base import Record


class IdeaFailure(StrEnum):
    """What the candidate did wrong."""

    ERROR = "error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    BAD_PREDICTIONS = "bad_predictions"
    TAMPERING = "tampering"


class MachineFailure(StrEnum):
    """What went wrong around the candidate."""

    LOST = "lost"  # the worker ended without a result
    DISK_FULL = "disk_full"
    SCORER = "scorer"  # the trusted scorer failed
    SETUP = "setup"  # code or data missing or changed, container not started


class Scored(Record):
    """The predictions were scored: metric name to value."""

    kind: Literal["scored"] = "scored"
    metrics: dict[str, float]


class IdeaFailed(Record):
    """The candidate failed; `detail` is one line for people and for the next prompt."""

    kind: Literal["idea_failed"] = "idea_failed"
    failure: IdeaFailure
    detail: str


class MachineFailed(Record):
    """The machine failed; says nothing about the idea."""

    kind: Literal["machine_failed"] = "machine_failed"
    failure: MachineFailure
    detail: str


Outcome = Annotated[Scored | IdeaFailed | MachineFailed, Field(discriminator="kind")]
