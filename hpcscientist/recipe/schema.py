"""The schema of recipe.toml, contract 2. recipes/README.md documents each field."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from hpcscientist.records.base import Record
from hpcscientist.records.idea import KnobValue
from hpcscientist.records.objective import Objective
from hpcscientist.records.trial import (
    SELF_REPORTED,
    Budget,
    MetricSpec,
    ProcessSpec,
    StepName,
)

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$", max_length=64)]
_PART = r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}|\.\.)"  # no file system allows longer names
FileName = Annotated[str, Field(pattern=rf"^{_PART}(/{_PART})*$")]


ConstantName = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]


class Topic(Record):
    """The research topic, in words. `attributes` are the task attributes of Dolphin 3.1."""

    title: str
    description: str
    inputs: str
    outputs: str
    attributes: tuple[str, ...] = ()


class BudgetSpec(Record):
    """The budget of one trial: wall-clock seconds of run time, without queueing."""

    seconds: float = Field(gt=0, le=30 * 86_400)


class StepSpec(BudgetSpec):
    """A budget between the pilot's and the full one; the entry script is given its `name`."""

    name: StepName


class Budgets(Record):
    """The pilot's and the full budget, and the steps between them, in ascending order.

    Without steps, the pilot's budget may have any size; with steps, each budget exceeds the last.
    """

    pilot: BudgetSpec
    steps: tuple[StepSpec, ...] = Field(default=(), max_length=16)
    full: BudgetSpec

    @property
    def names(self) -> tuple[str, ...]:
        """The names of budgets that the entry script may be given, in ascending order."""
        return (Budget.PILOT.value, *(step.name for step in self.steps), Budget.FULL.value)

    def seconds(self, name: str) -> float:
        """Return the run time of a budget. Raises KeyError for an unknown name."""
        given: tuple[BudgetSpec, ...] = (self.pilot, *self.steps, self.full)
        return dict(zip(self.names, given, strict=True))[name].seconds

    @model_validator(mode="after")
    def _steps_lead_up(self) -> Budgets:
        for index, key, message in self._out_of_order():
            # `at` is the place within the table, from which the file's line is found.
            at = ("steps", index, key)
            raise PydanticCustomError("budget_steps", "{message}", {"message": message, "at": at})
        return self

    def _out_of_order(self) -> Iterator[tuple[int, str, str]]:
        """Yield the index of a step, the invalid key, and how to fix it."""
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
    """The resources that one trial needs.

    `gpu_type` is a site's name for a kind of GPU, such as `a100`; `gpu_memory_mb` is the memory
    that each GPU must have; "" and 0: any.
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
    """Files that the user gives by `--data FOLDER`, because no package includes them.

    `files` names a list beside recipe.toml, in the format of `sha256sum`; see `recipe.given`.
    Without `required`, prepare.py makes or finds smaller data if no folder is given.
    """

    files: FileName
    source: str
    licence: str
    required: bool = False


class ScorerSpec(Record):
    """The input and the limits of score.py, which is trusted but bounded all the same.

    `kind` says what it scores: `predictions` for inputs whose labels only it sees, or numbers that
    the candidate computed (`self-reported`), which are never confirmed or claimed.
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
    """The published value that the baseline should approach, and its source."""

    value: float
    source: str


class RecipeSpec(Record):
    """recipe.toml. The first metric is the primary one, on which findings are based."""

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
    # Values that replace those in the entry script, and in prepare.py.
    constants: dict[ConstantName, KnobValue] = Field(default_factory=dict)
    prepare: dict[ConstantName, KnobValue] = Field(default_factory=dict)
    # Variants of other sizes: their values replace the recipe's.
    setups: dict[StepName, dict[str, Any]] = Field(default_factory=dict)
    setup: StepName | None = None  # the applied setup, in a campaign's copy

    @property
    def primary(self) -> MetricSpec:
        """The primary metric."""
        return self.metrics[0]

    @property
    def objective(self) -> Objective:
        """The definition of an improvement, and of the order of ideas."""
        bounded = tuple(metric for metric in self.metrics if metric.tolerance is not None)
        pareto = (self.primary, *(metric for metric in self.metrics[1:] if metric.pareto))
        return Objective(
            primary=self.primary, tolerances=bounded, pareto=pareto if len(pareto) > 1 else ()
        )

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
