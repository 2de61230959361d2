"""Trials: what is to be run, and what came of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, field_serializer

from hpcscientist.errors import RunDirectoryError
from hpcscientist.records.base import Record
from hpcscientist.records.site import Host

# How a trial ended. "The idea failed" and "the machine failed" are different types.
#
# Only the first is evidence about an idea; the second is retried within a budget.

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
DISQUALIFIED: Final = (IdeaFailure.TAMPERING, IdeaFailure.WORKER_LOST)


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


class Stage(StrEnum):
    """Why a trial is run. `seeds`: with the full budget, on the seeds that findings are made of."""

    BASELINE = "baseline"
    PILOT = "pilot"
    STEP = "step"
    SEEDS = "seeds"
    CONFIRM = "confirm"

    @classmethod
    def _missing_(cls, value: object) -> Stage | None:
        return cls.SEEDS if value == EARLIER_SEEDS else None


EARLIER_SEEDS = "search"
"""What earlier releases called the stage `seeds`; trials' ids still do, since campaigns that those
began go on. It is a value of `--model`, too.
"""


class Split(StrEnum):
    """Which held-out inputs are predicted."""

    VALIDATION = "validation"
    TEST = "test"


class Budget(StrEnum):
    """How much a trial may spend, of every recipe; its own steps lie between."""

    PILOT = "pilot"
    FULL = "full"


StepName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$", max_length=32)]


class Direction(StrEnum):
    """Which way a metric is better."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"


class Isolation(StrEnum):
    """What keeps the candidate away from everything else."""

    APPTAINER = "apptainer"
    NONE = "none"


SELF_REPORTED = "self-reported "
"""Begins the name of a metric that the candidate computes itself, so that no table, plot, prompt or
paper can show its value without saying so.
"""


class MetricSpec(Record):
    """A metric that the scorer reports. `minimum_effect` and `tolerance` are in its unit.

    `tolerance` is how much worse than the baseline an improvement may be by this metric; None:
    any amount. The metric that decides has none.
    """

    name: str
    direction: Direction
    minimum_effect: float = Field(default=0.0, ge=0)
    tolerance: float | None = Field(default=None, ge=0)

    @property
    def is_self_reported(self) -> bool:
        """Whether the candidate computed the value itself: then nothing confirms it."""
        return self.name.startswith(SELF_REPORTED)


class Objective(Record):
    """What an improvement is: better by `primary`, and not worse than allowed by `tolerances`, the
    metrics that have a tolerance.
    """

    primary: MetricSpec
    tolerances: tuple[MetricSpec, ...] = ()


class Provenance(Record):
    """Hashes and versions, copied into every result row."""

    campaign_id: str
    package_version: str
    package_hash: str = ""  # specs of earlier versions lack it
    recipe_hash: str
    data_hash: str
    code_hash: str
    image_hash: str | None = None
    model: str


class Limits(Record):
    """What a trial may use. Seconds, MiB, counts.

    `output_mb` bounds all that is written together and so each single file. `processes` counts
    threads too; `open_files` is for each process. `scorer_s` and `scorer_mb` bound the scorer.
    """

    deadline_s: float = Field(gt=0)
    memory_mb: int = Field(gt=0)
    output_mb: int = Field(gt=0)
    cpus: int = Field(ge=1)
    gpus: int = Field(ge=0)
    gpu_type: str = ""  # specs of earlier versions lack it
    processes: int = Field(default=1024, ge=16)
    open_files: int = Field(default=4096, ge=64)
    scorer_s: float = Field(default=120.0, gt=0)  # specs of earlier versions lack these two
    scorer_mb: int = Field(default=4096, gt=0)


class ProcessSpec(Record):
    """One of the processes of a trial that run one after another; it is told its name.

    Below its `--data` it sees the parts of the data that `sees` names (`split`: the inputs asked
    for), and a folder NAME for each earlier process in `reads`, with the `file` that this one
    handed on. Nothing else passes from one to the next. `file` is "" where nothing is handed on,
    and has at most `max_bytes`: a scorer's promise about the size of a code rests on it.
    """

    name: StepName
    sees: tuple[Literal["train", "split"], ...] = ()
    reads: tuple[StepName, ...] = ()
    file: Annotated[str, Field(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]{0,99})?$")] = ""
    max_bytes: int = Field(default=2**20, ge=1, le=2**40)


class Sources(Record):
    """Where a trial finds things: absolute paths, or keys of `files.vault`, as `labels` always is.

    The candidate is told `data` alone.
    """

    code: str
    entry: str
    data: str
    labels: str
    scorer: str
    scorer_hash: str
    predictions: str
    python: str
    image: str | None = None
    processes: tuple[ProcessSpec, ...] = ()  # specs of earlier versions lack it


class TrialSpec(Record):
    """One execution of one attempt. `run` counts reruns after machine failures, from 1.

    `budget` is the pilot's, the full one (see `Budget`), or a step of the recipe by its name.
    `alone`: on a machine that runs several side by side, nothing is run beside it.
    """

    trial_id: str
    idea_id: str
    parent_ids: tuple[str, ...] = ()
    round: int
    attempt: int
    stage: Stage
    seed: int
    split: Split
    budget: Budget | StepName = Field(union_mode="left_to_right")
    run: int = 1
    metrics: tuple[MetricSpec, ...]
    limits: Limits
    sources: Sources
    isolation: Isolation
    host: Host = Host()
    provenance: Provenance
    tokens: int = 0
    alone: bool = False  # specs of earlier versions lack it
    queued_at: float
    seal: str = ""  # of the file it is read from; specs of earlier versions lack it

    @field_serializer("stage", when_used="json")
    def _stage(self, stage: Stage) -> str:
        """In the words that workers of earlier releases read, too: one may wait in a queue."""
        return EARLIER_SEEDS if stage is Stage.SEEDS else stage.value


class Usage(Record):
    """What a trial used. Seconds, MiB; times are seconds since the epoch."""

    started_at: float
    ended_at: float
    cpu_s: float = 0.0
    gpu_s: float = 0.0
    peak_mb: float = 0.0
    node: str = ""
    slurm_job: str | None = None
    slurm_state: str | None = None


class TrialReport(Record):
    """What came of a trial.

    `predictions_hash` is None unless predictions were scored; numbers that a candidate reports of
    itself are none.
    """

    # A metric may be no number, which no JSON holds.
    model_config = ConfigDict(ser_json_inf_nan="constants")

    trial_id: str
    run: int
    outcome: Outcome
    usage: Usage
    predictions_hash: str | None = None


def trial_name(idea_id: str, attempt: int, stage: Stage, index: int) -> str:
    """Return the id of a trial; `index` counts the trials of an attempt's stage from 0."""
    word = EARLIER_SEEDS if stage is Stage.SEEDS else stage.value
    return f"{idea_id}-a{attempt}-{word}-{index}"


def index_of(trial_id: str) -> int:
    """Return the `index` in a trial's id."""
    return int(trial_id.rpartition("-")[2])


# Runs of trials where they run: what is submitted together, and what is told of each.
#
# Times are seconds since the epoch.


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
