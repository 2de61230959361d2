"""Actions: what a campaign can do next. The driver tracks actions under way by their `key`."""

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

# The most urgent first: work closest to a result, and work that blocks other work.
REFERENCE, CONFIRMATION, STEP, BRIEF, ADMISSION, PROPOSAL, UPKEEP = range(70, 0, -10)


@dataclass(frozen=True, slots=True)
class RunTrial:
    """Run a trial; `run` counts its runs from 1. `index` counts the trials of an attempt's stage
    from 0.
    """

    trial_id: str
    idea_id: str
    attempt: int
    stage: Stage
    index: int
    run: int
    priority: int

    @property
    def key(self) -> str:
        """One at a time for each trial: its next run starts only after this action is done."""
        return f"run/{self.trial_id}"


@dataclass(frozen=True, slots=True)
class Propose:
    """Ask for a new idea."""

    number: int
    round: int
    priority: int = PROPOSAL

    @property
    def key(self) -> str:
        """One for each idea number."""
        return f"propose/{self.number}"


@dataclass(frozen=True, slots=True)
class Admit:
    """Admit the next idea in order of number, unless it repeats an earlier one."""

    number: int
    priority: int = ADMISSION

    @property
    def key(self) -> str:
        """One for each idea number."""
        return f"admit/{self.number}"


@dataclass(frozen=True, slots=True)
class BriefIdea:
    """Vet an idea, look it up in the literature and plan it."""

    idea_id: str
    priority: int = BRIEF

    @property
    def key(self) -> str:
        """One for each idea."""
        return f"brief/{self.idea_id}"


@dataclass(frozen=True, slots=True)
class Take:
    """Take a step of an idea's strategy that runs no trial."""

    idea_id: str
    step: Write | Review | Read | Abandon | Conclude | SetAside

    @property
    def priority(self) -> int:
        """The step's own priority, on the scale of actions."""
        return STEP + self.step.priority

    @property
    def key(self) -> str:
        """One for each idea and subject of the step."""
        return f"{_named(self.step)}/{self.idea_id}"


@dataclass(frozen=True, slots=True)
class Decide:
    """Decide whether an attempt continues, after its trial at a smaller budget or some seeds."""

    idea_id: str
    after: Climb | Seeds
    priority: int = STEP + 5

    @property
    def key(self) -> str:
        """One for each stage of an attempt."""
        return f"decide {_named(self.after)}/{self.idea_id}"


@dataclass(frozen=True, slots=True)
class JudgeFindings:
    """Compute the findings and choose which ideas to confirm; `last`: no further idea comes."""

    ended: int
    last: bool
    priority: int = CONFIRMATION

    @property
    def key(self) -> str:
        """One at a time."""
        return "judge"


@dataclass(frozen=True, slots=True)
class Spend:
    """Give an idea, or the baseline, access to the test split."""

    idea_id: str
    priority: int = CONFIRMATION

    @property
    def key(self) -> str:
        """One for each idea."""
        return f"spend/{self.idea_id}"


@dataclass(frozen=True, slots=True)
class Compact:
    """Compact the result files of trials that are no longer read."""

    priority: int = UPKEEP

    @property
    def key(self) -> str:
        """One at a time."""
        return "compact"


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop this driver until a person fixes the machine or the recipe. The campaign can resume."""

    kind: Literal["machine", "damaged", "baseline", "noisy"]
    why: str
    priority: int = 0

    @property
    def key(self) -> str:
        """Only one."""
        return "stop"


@dataclass(frozen=True, slots=True)
class Finish:
    """End the campaign."""

    priority: int = 0

    @property
    def key(self) -> str:
        """Only one."""
        return "finish"


Action = (
    RunTrial
    | Propose
    | Admit
    | BriefIdea
    | Take
    | Decide
    | JudgeFindings
    | Spend
    | Compact
    | Stop
    | Finish
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
