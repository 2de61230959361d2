"""What a campaign does next, one thing each. An action's `key` names it among those under way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hpcscientist.conduct.strategy.steps import (
    Abandon,
    AnyStep,
    Climb,
    Conclude,
    Pilot,
    Read,
    Review,
    Seeds,
    SetAside,
    Write,
)
from hpcscientist.records.trial import Stage

# The most urgent first: what is nearest to a result, and what others wait for.
REFERENCE, CONFIRMATION, STEP, BRIEF, ADMISSION, PROPOSAL, UPKEEP = range(70, 0, -10)


@dataclass(frozen=True, slots=True)
class RunTrial:
    """Run a trial, for the time `run`. `index` counts the trials of an attempt's stage from 0."""

    trial_id: str
    idea_id: str
    attempt: int
    stage: Stage
    index: int
    run: int
    priority: int

    @property
    def key(self) -> str:
        """Once a trial: its next run is not begun before this one is settled in every respect."""
        return f"run/{self.trial_id}"


@dataclass(frozen=True, slots=True)
class Propose:
    """Have an idea proposed."""

    number: int
    round: int
    priority: int = PROPOSAL

    @property
    def key(self) -> str:
        """Once a number."""
        return f"propose/{self.number}"


@dataclass(frozen=True, slots=True)
class Admit:
    """Let an idea in whose turn it is, unless it repeats one before it."""

    number: int
    priority: int = ADMISSION

    @property
    def key(self) -> str:
        """Once a number."""
        return f"admit/{self.number}"


@dataclass(frozen=True, slots=True)
class Brief:
    """Have an idea vetted, looked up and planned."""

    idea_id: str
    priority: int = BRIEF

    @property
    def key(self) -> str:
        """Once an idea."""
        return f"brief/{self.idea_id}"


@dataclass(frozen=True, slots=True)
class Take:
    """Take a step of an idea's strategy in which no trial runs."""

    idea_id: str
    step: Write | Review | Read | Abandon | Conclude | SetAside

    @property
    def priority(self) -> int:
        """As the strategy has it."""
        return STEP + self.step.priority

    @property
    def key(self) -> str:
        """Once an idea and what the step is about."""
        return f"{_named(self.step)}/{self.idea_id}"


@dataclass(frozen=True, slots=True)
class Decide:
    """Decide how far an attempt goes, after the trials of a stage: the one at a budget below the
    full one, or so many seeds.
    """

    idea_id: str
    after: Climb | Seeds
    priority: int = STEP + 5

    @property
    def key(self) -> str:
        """Once a stage of an attempt."""
        return f"decide {_named(self.after)}/{self.idea_id}"


@dataclass(frozen=True, slots=True)
class Judge:
    """Look at the findings, and choose which ideas are confirmed; `last`: no further idea comes."""

    ended: int
    last: bool
    priority: int = CONFIRMATION

    @property
    def key(self) -> str:
        """One at a time."""
        return "judge"


@dataclass(frozen=True, slots=True)
class Spend:
    """Let an idea, or the baseline, to the test split."""

    idea_id: str
    priority: int = CONFIRMATION

    @property
    def key(self) -> str:
        """Once an idea."""
        return f"spend/{self.idea_id}"


@dataclass(frozen=True, slots=True)
class Compact:
    """Compact the result files of trials that nobody reads any more."""

    priority: int = UPKEEP

    @property
    def key(self) -> str:
        """One at a time."""
        return "compact"


@dataclass(frozen=True, slots=True)
class Stop:
    """End this driver, and not the campaign, for what people are to fix first: machines, or
    whoever made the recipe.
    """

    kind: Literal["machine", "damaged", "baseline", "noisy"]
    why: str
    priority: int = 0

    @property
    def key(self) -> str:
        """Once."""
        return "stop"


@dataclass(frozen=True, slots=True)
class Finish:
    """End the campaign."""

    priority: int = 0

    @property
    def key(self) -> str:
        """Once."""
        return "finish"


Action = (
    RunTrial | Propose | Admit | Brief | Take | Decide | Judge | Spend | Compact | Stop | Finish
)


def _named(step: AnyStep) -> str:
    match step:
        case Abandon(task):
            what: object = task
        case Review(number) | Read(number):
            what = number
        case Climb(version, index):
            what = f"{version.number} {index}"
        case Seeds(version):
            what = f"{version.number} {step.which.stop}"
        case Write(version):
            return f"write {version.number}"
        case Pilot(version):
            what = version.number
        case Conclude() | SetAside():
            return "end"
    return f"{type(step).__name__.lower()} {what}"
