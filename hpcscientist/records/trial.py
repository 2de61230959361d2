"""Trials: what is to be run, and what came of it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, field_serializer

from hpcscientist.records.base import Record
from hpcscientist.records.outcome import Outcome
from hpcscientist.records.site import Host


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
    """A metric that the scorer reports. `minimum_effect` is in the metric's unit."""

    name: str
    direction: Direction
    minimum_effect: float = Field(default=0.0, ge=0)

    @property
    def is_self_reported(self) -> bool:
        """Whether the candidate computed the value itself: then nothing confirms it."""
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
