"""The schema of recipe.toml, contract 2. Docs of each field are in recipes/README.md."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hpcscientist.records.base import Record
from hpcscientist.records.trial import MetricSpec

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$", max_length=64)]
_PART = r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|\.\.)"
FileName = Annotated[str, Field(pattern=rf"^{_PART}(/{_PART})*$")]


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


class Budgets(Record):
    """The pilot's and the full budget."""

    pilot: BudgetSpec
    full: BudgetSpec


class Resources(Record):
    """What one trial needs."""

    cpus: int = Field(default=1, ge=1, le=4096)
    gpus: int = Field(default=0, ge=0, le=1024)
    memory_mb: int = Field(default=2048, ge=64, le=2**27)
    output_mb: int = Field(default=64, ge=1, le=2**27)


class Knob(Record):
    """A module-level constant of a reference file that the control arm may set."""

    name: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]
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
    entry: FileName = "experiment.py"
    editable: tuple[FileName, ...] = ("experiment.py",)
    predictions: FileName = "predictions.csv"
    image: str | None = None
    published: Published | None = None
    knobs: tuple[Knob, ...] = ()

    @property
    def primary(self) -> MetricSpec:
        """The metric that decides."""
        return self.metrics[0]

    @model_validator(mode="after")
    def _names_are_unique(self) -> RecipeSpec:
        for what, names in (
            ("metric", [m.name for m in self.metrics]),
            ("knob", [k.name for k in self.knobs]),
        ):
            doubled = sorted({n for n in names if names.count(n) > 1})
            if doubled:
                raise ValueError(f"{what} {doubled[0]!r} is named twice")
        return self
