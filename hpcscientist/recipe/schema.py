"""The schema of recipe.toml, contract 2. Docs of each field are in recipes/README.md."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from hpcscientist.records.base import Record
from hpcscientist.records.idea import KnobValue
from hpcscientist.records.trial import (
    SELF_REPORTED,
    Budget,
    MetricSpec,
    Objective,
    ProcessSpec,
    StepName,
)

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$", max_length=64)]
_PART = r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}|\.\.)"  # of more no file system makes a name
FileName = Annotated[str, Field(pattern=rf"^{_PART}(/{_PART})*$")]


ConstantName = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]


class Topic(Record):
    """What is researched, in words. `attributes` are the task attributes of Dolphin 3.1."""

    title: str
    description: str
    inputs: str
    outputs: str
    attributes: tuple[str, ...] = ()


class BudgetSpec(Record):
    """What one trial may spend: wall-clock seconds of run time, queueing left out."""

    seconds: float = Field(gt=0, le=30 * 86_400)


class StepSpec(BudgetSpec):
    """A budget between the pilot's and the full one; `name` is what the entry script is told."""

    name: StepName


class Budgets(Record):
    """The pilot's and the full budget, and the steps between them, from the least to the most.

    Without steps the pilot's budget may be any; with them budgets grow from each to the next.
    """

    pilot: BudgetSpec
    steps: tuple[StepSpec, ...] = Field(default=(), max_length=16)
    full: BudgetSpec

    @property
    def names(self) -> tuple[str, ...]:
        """What the entry script may be told, from the least budget to the full one."""
        return (Budget.PILOT.value, *(step.name for step in self.steps), Budget.FULL.value)

    def seconds(self, name: str) -> float:
        """Return the run time of a budget. Raises KeyError for a name that is none."""
        given: tuple[BudgetSpec, ...] = (self.pilot, *self.steps, self.full)
        return dict(zip(self.names, given, strict=True))[name].seconds

    @model_validator(mode="after")
    def _steps_lead_up(self) -> Budgets:
        for index, key, message in self._out_of_order():
            # `at` tells where in the table it is, so that the file's line can be named.
            at = ("steps", index, key)
            raise PydanticCustomError("budget_steps", "{message}", {"message": message, "at": at})
        return self

    def _out_of_order(self) -> Iterator[tuple[int, str, str]]:
        """Yield the index of a step, the key that is wrong, and how it is fixed."""
        for index, step in enumerate(self.steps):
            if self.names.index(step.name) <= index:
                yield index, "name", f"{step.name!r} is named before; give the step another name"
            elif step.name == Budget.FULL:
                yield index, "name", "'full' is the last budget; give the step another name"
        given: tuple[BudgetSpec, ...] = (self.pilot, *self.steps)
        for index, (below, above) in enumerate(itertools.pairwise(given)):
            if above.seconds <= below.seconds:
                least = f"the {self.names[index]} budget's {below.seconds:g}"
                yield index, "seconds", f"budgets grow: give more than {least}"
        if self.steps and self.steps[-1].seconds >= self.full.seconds:
            most = f"the full budget's {self.full.seconds:g}"
            yield len(self.steps) - 1, "seconds", f"budgets grow: give less than {most}"


class Resources(Record):
    """What one trial needs.

    `gpu_type` is a site's word for a kind of GPU, such as `a100`, and `gpu_memory_mb` the memory
    that each of them must have; "" and 0: any.
    """

    cpus: int = Field(default=1, ge=1, le=4096)
    gpus: int = Field(default=0, ge=0, le=1024)
    gpu_type: Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9_.-]{0,63})?$")] = ""
    gpu_memory_mb: int = Field(default=0, ge=0, le=2**27)
    memory_mb: int = Field(default=2048, ge=64, le=2**27)
    output_mb: int = Field(default=64, ge=1, le=2**27)

    @model_validator(mode="after")
    def _kind_needs_gpus(self) -> Resources:
        if (self.gpu_type or self.gpu_memory_mb) and not self.gpus:
            raise ValueError("gpu_type and gpu_memory_mb say which GPUs; give gpus, how many")
        return self


class DataSpec(Record):
    """Files that the user gives by `--data FOLDER`, for no package carries them.

    `files` is a list beside recipe.toml, as `sha256sum` writes it; see `recipe.given`. Without
    `required`, prepare.py makes or finds smaller data where no folder is given.
    """

    files: FileName
    source: str
    licence: str
    required: bool = False


class ScorerSpec(Record):
    """What one run of score.py may use: it is trusted, and bounded all the same.

    `kind` says what it is given: `predictions` for inputs whose labels it alone sees, or numbers
    that the candidate computed (`self-reported`). Of the latter nothing is confirmed or claimed.
    """

    kind: Literal["predictions", "self-reported"] = "predictions"
    seconds: float = Field(default=120.0, gt=0, le=7 * 86_400)
    memory_mb: int = Field(default=4096, ge=64, le=2**27)


class Knob(Record):
    """A module-level constant of a reference file that the control arm may set."""

    name: ConstantName
    file: FileName = "experiment.py"
    type: Literal["int", "float", "choice"]
    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[str | int | float | bool, ...] = ()

    @model_validator(mode="after")
    def _range_fits_type(self) -> Knob:
        if self.type == "choice":
            if len(self.choices) < 2:
                raise ValueError("a choice knob needs at least two choices")
        elif self.low is None or self.high is None or not self.low < self.high:
            raise ValueError("a number knob needs low < high")
        elif self.log and self.low <= 0:
            raise ValueError("a log knob needs low > 0")
        return self


class Published(Record):
    """The published number the baseline should come near, and where it is from."""

    value: float
    source: str


class RecipeSpec(Record):
    """recipe.toml. The first metric is the primary one: findings are about it."""

    name: Name
    version: int = Field(default=1, ge=1)
    topic: Topic
    metrics: tuple[MetricSpec, ...] = Field(min_length=1)
    seeds: int = Field(default=5, ge=2, le=100)
    budgets: Budgets
    resources: Resources = Resources()
    scorer: ScorerSpec = ScorerSpec()
    entry: FileName = "experiment.py"
    editable: tuple[FileName, ...] = ("experiment.py",)
    predictions: FileName = "predictions.csv"
    image: str | None = None
    processes: tuple[ProcessSpec, ...] = Field(default=(), max_length=8)
    published: Published | None = None
    data: DataSpec | None = None
    knobs: tuple[Knob, ...] = ()
    # Values instead of those that stand in the entry script, and in prepare.py.
    constants: dict[ConstantName, KnobValue] = Field(default_factory=dict)
    prepare: dict[ConstantName, KnobValue] = Field(default_factory=dict)
    # Other sizes of the same research: what each says replaces what the recipe says.
    setups: dict[StepName, dict[str, Any]] = Field(default_factory=dict)
    setup: StepName | None = None  # which of them this is, in a campaign's copy

    @property
    def primary(self) -> MetricSpec:
        """The metric that decides."""
        return self.metrics[0]

    @property
    def objective(self) -> Objective:
        """What counts as an improvement."""
        bounded = tuple(metric for metric in self.metrics if metric.tolerance is not None)
        return Objective(primary=self.primary, tolerances=bounded)

    @model_validator(mode="after")
    def _metric_that_decides_has_no_tolerance(self) -> RecipeSpec:
        if self.primary.tolerance is not None:
            raise ValueError(
                f"metric {self.primary.name!r} decides, so it has no tolerance: set its "
                "minimum_effect, or give the tolerance to another metric"
            )
        return self

    @model_validator(mode="after")
    def _processes_follow_each_other(self) -> RecipeSpec:
        handed: set[str] = set()
        for process in self.processes:
            if process.name in ("train", "validation", "test"):
                raise ValueError(f"a process cannot be named {process.name!r}: data are called so")
            if lacking := set(process.reads) - handed:
                raise ValueError(
                    f"process {process.name!r} reads {min(lacking)!r}, which is no earlier process "
                    "that hands a file on"
                )
            handed |= {process.name} if process.file else set()
        return self

    @model_validator(mode="after")
    def _self_reported_metrics_say_so(self) -> RecipeSpec:
        reported = self.scorer.kind == "self-reported"
        for metric in self.metrics:
            if metric.is_self_reported == reported:
                continue
            if reported:
                raise ValueError(
                    f"metric {metric.name!r}: [scorer] is self-reported, and names say so: "
                    f"call it {SELF_REPORTED + metric.name!r}"
                )
            raise ValueError(
                f"metric {metric.name!r}: only a [scorer] of kind self-reported has such metrics; "
                "set kind there, or name it otherwise"
            )
        return self

    @model_validator(mode="after")
    def _names_are_unique(self) -> RecipeSpec:
        for what, names in (
            ("metric", [m.name for m in self.metrics]),
            ("knob", [k.name for k in self.knobs]),
            ("process", [p.name for p in self.processes]),
        ):
            doubled = sorted({n for n in names if names.count(n) > 1})
            if doubled:
                raise ValueError(f"{what} {doubled[0]!r} is named twice")
        return self
