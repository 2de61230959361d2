"""Runs of trials where they run: what is submitted together, and what is told of each.

Times are seconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hpcscientist.records.base import Record
from hpcscientist.records.trial import TrialSpec


class RunId(Record):
    """One run of a trial: `run` counts those after machine failures, from 1."""

    trial_id: str
    run: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One submission: trials that ask for the same. `batch_id` has never been one before.

    The trials of an element run one after another, elements side by side. `avoid`: nodes that
    failed repeatedly; where others can be had, those are used.
    """

    batch_id: str
    elements: tuple[tuple[TrialSpec, ...], ...]
    avoid: tuple[str, ...] = ()

    @property
    def runs(self) -> tuple[tuple[RunId, ...], ...]:
        """The trials' runs, as they are arranged."""
        return tuple(tuple(run_of(spec) for spec in element) for element in self.elements)


@dataclass(frozen=True, slots=True)
class Intent:
    """A batch that an earlier driver meant to submit, as far as its journal tells."""

    batch_id: str
    elements: tuple[tuple[RunId, ...], ...]


class EndState(StrEnum):
    """How a run ended where it ran, which is not yet what that means for its trial."""

    ENDED = "ended"  # its worker ended by itself: the result file says how
    FAILED = "failed"  # an exit status or a signal: the worker's log says more, or nobody does
    TIMEOUT = "timeout"  # the element's limit, not the trial's deadline
    OUT_OF_MEMORY = "out_of_memory"
    NODE_FAIL = "node_fail"
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"
    LOST = "lost"  # nobody knows anything of it any more
    NOT_RUN = "not_run"  # its element ended before its turn came
    NOT_SUBMITTED = "not_submitted"


# They say nothing about the run, and cost it nothing.
NOTHING_LOST = (EndState.NOT_RUN, EndState.NOT_SUBMITTED, EndState.PREEMPTED)


@dataclass(frozen=True, slots=True)
class Started:
    """A run left the queue."""

    run: RunId


@dataclass(frozen=True, slots=True)
class Ended:
    """A run will never go on. `began_at` None: no worker had begun it.

    `scheduler_state` is in the scheduler's own words, and `why` in ours, where there is more to say
    than the state. `said` is the end of its worker's log, where it left no result.
    """

    run: RunId
    state: EndState
    ended_at: float
    began_at: float | None = None
    node: str = ""
    job: str | None = None
    scheduler_state: str | None = None
    why: str = ""
    said: str = ""


@dataclass(frozen=True, slots=True)
class Freed:
    """There may be room for more than there was."""


@dataclass(frozen=True, slots=True)
class Held:
    """Something that people should know: why batches wait. Told as often as it is noticed."""

    name: str
    why: str


Change = Started | Ended | Freed | Held


@dataclass(frozen=True, slots=True)
class Capacity:
    """What may be submitted now, of trials that ask for the same.

    `room`: elements that still fit, by all limits together; `batch_max` of them in one batch,
    `at_once` of these side by side. Trials expected to be shorter than `pack_s` may share an
    element, at most `each` of them. `pause_s`: where there is no room, when to ask again unless
    something is freed before. Seconds.
    """

    room: int
    batch_max: int
    at_once: int
    each: int = 1
    pack_s: float = 0.0
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Accepted:
    """The batch will be told of, run by run."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing of the batch was queued. `transient`: waiting helps."""

    why: str
    transient: bool


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody can say whether the batch was queued: the backend finds out, and tells."""


Answer = Accepted | Refused | Unknown


def run_of(spec: TrialSpec) -> RunId:
    """Return the run that a spec asks for."""
    return RunId(trial_id=spec.trial_id, run=spec.run)
