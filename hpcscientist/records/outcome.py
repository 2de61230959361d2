"""How a trial ended. "The idea failed" and "the machine failed" are different types.

Only the first is evidence about an idea; the second is retried within a budget.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from hpcscientist.errors import RunDirectoryError
from hpcscientist.records.base import Record

LARGEST: Final = 1e150  # beyond it squares overflow; no metric is that large


def is_measured(value: float) -> bool:
    """Whether a score can be reckoned with: finite, and at most `LARGEST` in size."""
    return math.isfinite(value) and abs(value) <= LARGEST


class IdeaFailure(StrEnum):
    """What the candidate did wrong."""

    ERROR = "error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    BAD_PREDICTIONS = "bad_predictions"
    TAMPERING = "tampering"
    WORKER_LOST = "worker_lost"  # again and again, and with this code alone


# No repair is asked for: what would be tried next is trusted no more than this was.
BARRED: Final = (IdeaFailure.TAMPERING, IdeaFailure.WORKER_LOST)


class MachineFailure(StrEnum):
    """What went wrong around the candidate."""

    LOST = "lost"  # the worker ended without a result
    NODE = "node"  # its node failed
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"  # by somebody else than the campaign
    WALLTIME = "walltime"  # the array task's limit came before the trial's deadline
    DISK_FULL = "disk_full"
    SCORER = "scorer"  # the trusted scorer failed
    TAMPERED = "tampered"  # its folder was changed, and several candidates may have done it
    SETUP = "setup"  # code or data missing or changed, container not started


class Scored(Record):
    """The predictions were scored: metric name to value."""

    kind: Literal["scored"] = "scored"
    metrics: dict[str, float]

    def value(self, metric: str) -> float:
        """Return the value of a metric of the recipe.

        Raises RunDirectoryError where a journal that somebody changed has it no more.
        """
        if metric not in self.metrics:
            raise RunDirectoryError(
                f"journal.jsonl: a scored trial has no {metric!r}, but {sorted(self.metrics)}; the "
                "file was changed: restore it from a backup"
            )
        return self.metrics[metric]


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
