"""Trials: their specs and outcomes, and the messages that backends and the driver exchange."""

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
    """Return whether a score can be used in statistics: finite, and at most `LARGEST` in size."""
    return math.isfinite(value) and abs(value) <= LARGEST


class IdeaFailure(StrEnum):
    """How the candidate failed."""

    ERROR = "error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    BAD_PREDICTIONS = "bad_predictions"
    TAMPERING = "tampering"
    WORKER_LOST = "worker_lost"  # repeatedly, and only with this code


# No fix is requested after these: a fixed version would not be trusted either.
DISQUALIFIED: Final = (IdeaFailure.TAMPERING, IdeaFailure.WORKER_LOST)


class MachineFailure(StrEnum):
    """How the machine or the environment failed."""

    LOST = "lost"  # the worker ended without a result
    NODE = "node"  # its node failed
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"  # not by the campaign
    WALLTIME = "walltime"  # the array task's limit came before the trial's deadline
    DISK_FULL = "disk_full"
    SCORER = "scorer"  # the trusted scorer failed
    TAMPERED = "tampered"  # its folder was changed, possibly by one of several candidates
    SETUP = "setup"  # code or data missing or changed, container not started


class Scored(Record):
    """The predictions were scored: metric name to value."""

    kind: Literal["scored"] = "scored"
    metrics: dict[str, float]

    def value(self, metric: str) -> float:
        """Return the value of a metric of the recipe.

        Raises RunDirectoryError if it is missing: then somebody changed the journal.
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
    """The machine failed; this says nothing about the idea."""

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
"""The name of stage `seeds` in earlier releases. Trial ids still use it, because campaigns begun
with those releases continue. It is also a value of `--model`.
"""


class Split(StrEnum):
    """The held-out inputs that a trial predicts."""

    VALIDATION = "validation"
    TEST = "test"


class Budget(StrEnum):
    """The budgets of a trial that every recipe has; a recipe's own steps are between them."""

    PILOT = "pilot"
    FULL = "full"


StepName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$", max_length=32)]


class Direction(StrEnum):
    """The direction in which a metric is better."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"


class Isolation(StrEnum):
    """How the candidate is isolated."""

    APPTAINER = "apptainer"
    NONE = "none"


SELF_REPORTED = "self-reported "
"""Prefix of the name of a metric that the candidate computes itself, so that every table, plot,
prompt and paper that shows its value says so.
"""


class MetricSpec(Record):
    """A metric that the scorer reports. `minimum_effect` and `tolerance` are in its unit.

    `tolerance` is how much worse than the baseline an improvement may be in this metric; None:
    any amount. The primary metric has none. `pareto`: ideas are ordered by this metric, too.
    """

    name: str
    direction: Direction
    minimum_effect: float = Field(default=0.0, ge=0)
    tolerance: float | None = Field(default=None, ge=0)
    pareto: bool = False

    @property
    def is_self_reported(self) -> bool:
        """Return whether the candidate computes the value itself; then nothing verifies it."""
        return self.name.startswith(SELF_REPORTED)


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
    """A trial's resource limits. Seconds, MiB, counts.

    `output_mb` bounds the total output, and so each single file. `processes` counts threads too;
    `open_files` applies to each process. `scorer_s` and `scorer_mb` bound the scorer.
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
    """One of the sequential processes of a trial. The entry script receives the process's name.

    Its `--data` folder holds the parts of the data that `sees` names (`split`: the requested
    inputs), and for each earlier process in `reads` a folder of that name with its `file`. Nothing
    else passes between processes. `file` is "" if the process hands nothing on. It has at most
    `max_bytes` bytes: scorers that state the size of a code rely on this limit.
    """

    name: StepName
    sees: tuple[Literal["train", "split"], ...] = ()
    reads: tuple[StepName, ...] = ()
    file: Annotated[str, Field(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]{0,99})?$")] = ""
    max_bytes: int = Field(default=2**20, ge=1, le=2**40)


class Sources(Record):
    """A trial's files: absolute paths, or keys of `files.vault`, as `labels` always is.

    Of these, the candidate is given only `data`.
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
    """One execution of one attempt. `run` counts from 1; reruns follow machine failures.

    `budget` is the pilot's, the full one (see `Budget`), or the name of a step of the recipe.
    `alone`: no other trial runs beside it, on a machine that runs several at once.
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
    seal: str = ""  # signature of the file that it was read from; specs of earlier versions lack it

    @field_serializer("stage", when_used="json")
    def _stage(self, stage: Stage) -> str:
        """Use the name that workers of earlier releases know: one may still wait in a queue."""
        return EARLIER_SEEDS if stage is Stage.SEEDS else stage.value


class Usage(Record):
    """A trial's resource usage. Seconds, MiB; times are seconds since the epoch."""

    started_at: float
    ended_at: float
    cpu_s: float = 0.0
    gpu_s: float = 0.0
    peak_mb: float = 0.0
    node: str = ""
    slurm_job: str | None = None
    slurm_state: str | None = None


class TrialReport(Record):
    """The report of a trial's run: its outcome and its resource usage.

    `predictions_hash` is None unless predictions were scored; self-reported numbers are not
    predictions.
    """

    # A metric may be NaN or infinite, which standard JSON cannot represent.
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


# Runs of trials at a backend: what is submitted together, and what the backend reports of each run.
#
# Times are seconds since the epoch.


class RunId(Record):
    """One run of a trial. `run` counts from 1; reruns follow machine failures."""

    trial_id: str
    run: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One submission of trials that request the same resources. `batch_id` is unique.

    The trials of an element run sequentially, elements in parallel. `avoid`: nodes that failed
    repeatedly; they are avoided if others are available. `expect_s`: the expected duration of one
    of the trials, in seconds.
    """

    batch_id: str
    elements: tuple[tuple[TrialSpec, ...], ...]
    avoid: tuple[str, ...] = ()
    expect_s: float = math.inf

    @property
    def runs(self) -> tuple[tuple[RunId, ...], ...]:
        """The trials' runs, by element."""
        return tuple(tuple(run_of(spec) for spec in element) for element in self.elements)


@dataclass(frozen=True, slots=True)
class Intent:
    """A batch that an earlier driver intended to submit, according to the journal."""

    batch_id: str
    elements: tuple[tuple[RunId, ...], ...]


class EndState(StrEnum):
    """How a run ended at its backend. `execution.trial_outcome` derives the trial's outcome."""

    ENDED = "ended"  # its worker ended by itself; see the result file
    FAILED = "failed"  # an exit status or a signal; the worker's log may say more
    TIMEOUT = "timeout"  # the element's time limit, not the trial's deadline
    OUT_OF_MEMORY = "out_of_memory"
    NODE_FAIL = "node_fail"
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"
    LOST = "lost"  # its state can no longer be found out
    NOT_RUN = "not_run"  # its element ended before the run began
    NOT_SUBMITTED = "not_submitted"


# Ends that say nothing about the run and cost it no retry.
NOTHING_LOST = (EndState.NOT_RUN, EndState.NOT_SUBMITTED, EndState.PREEMPTED)


@dataclass(frozen=True, slots=True)
class Started:
    """A run left the queue."""

    run: RunId


@dataclass(frozen=True, slots=True)
class Ended:
    """A run has ended for good. `began_at` None: no worker had begun it.

    `scheduler_state` is the scheduler's own word. `why` explains the state if there is more to say.
    `said` is the end of the worker's log if there is no result.
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
    """The backend may accept more elements than before."""


@dataclass(frozen=True, slots=True)
class Held:
    """A message for people: why batches wait. It is repeated whenever the backend notices it."""

    name: str
    why: str


Change = Started | Ended | Freed | Held


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much may be submitted now, for trials that request the same resources.

    `room` elements fit within all limits; `batch_max` of them in one batch, of which `at_once` run
    in parallel. Trials expected to be shorter than `pack_s` may share an element, at most `each` of
    them. `pause_s`: if there is no room, when to ask again unless `Freed` comes before. Seconds.
    """

    room: int
    batch_max: int
    at_once: int
    each: int = 1
    pack_s: float = 0.0
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Accepted:
    """The batch was accepted; the backend will report each of its runs."""


@dataclass(frozen=True, slots=True)
class Refused:
    """No run of the batch was queued. `transient`: waiting helps."""

    why: str
    transient: bool


@dataclass(frozen=True, slots=True)
class Unknown:
    """It is unknown whether the batch was queued; the backend finds out and reports it."""


Answer = Accepted | Refused | Unknown


def run_of(spec: TrialSpec) -> RunId:
    """Return the run that a spec asks for."""
    return RunId(trial_id=spec.trial_id, run=spec.run)
