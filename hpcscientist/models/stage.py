"""The base classes of a stage: one step of the loop that asks a model.

A stage declares its kinds of call, the role that answers each and the type of the reply, which
campaigns have it, how often it asks, and the object that carries it out. Playbooks, roles, cost
estimates, dry runs and the wiring of a campaign follow from that. `campaign.stages` lists all
stages, including those of other installed packages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Protocol, TypeVar

from hpcscientist.config.extent import Versions
from hpcscientist.config.settings import Settings
from hpcscientist.models.prompting.fitting import Window
from hpcscientist.models.role_client import RoleClient
from hpcscientist.models.structured import REPAIRS
from hpcscientist.ports import Library, Model, Notify, logged
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.authoring import Brief
from hpcscientist.records.base import Record
from hpcscientist.records.idea import Idea
from hpcscientist.records.proposing import ProposalTask, Verdict
from hpcscientist.system.interpreter import Interpreter

# A made-up idea midway through a campaign, used to size prompts before anything is run.


# Characters of a proposal's parts, and of a failed trial's output (a traceback and the lines
# before it).
TITLE_SIZE, PART_SIZE, SUMMARY_SIZE, LOG_SIZE = 60, 500, 300, 4000


@dataclass(frozen=True, slots=True)
class Sample:
    """An idea, its proposer's task and its coder's brief; `stages` are names of stages."""

    recipe: Recipe
    settings: Settings
    stages: Collection[str]
    versions: Versions
    idea: Idea
    task: ProposalTask

    @property
    def brief(self) -> Brief:
        """The input of a coder."""
        return Brief(idea=self.idea)


def filler(size: int) -> str:
    """Return a text of `size` characters."""
    return "x" * size


def traceback(recipe: Recipe) -> str:
    """Return what Python prints if the last line of the entry script fails."""
    entry = recipe.spec.entry
    lines = recipe.reference[entry].rstrip().split("\n")
    return (
        "Traceback (most recent call last):\n"
        f'  File "/code/{entry}", line {len(lines)}, in <module>\n    {lines[-1].strip()}\n'
        "RuntimeError: x\n"
    )


T = TypeVar("T")
TRIES = 1 + REPAIRS
"""Most requests for one call: the first try and all repairs."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of call: its name in playbooks and records, its role, and the type of its reply."""

    name: str
    role: str
    reply: type[Record]


@dataclass(frozen=True, slots=True)
class Calls:
    """How many calls of a kind are made: a guess, and an upper bound that counts each repair."""

    kind: str
    guess: int
    most: int

    @classmethod
    def of(cls, kind: str, count: int) -> Calls:
        """Return `count` calls, each of which may need all its repairs."""
        return cls(kind, count, count * TRIES)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a cost estimate knows of a campaign; `stages` are the names of the campaign's stages."""

    settings: Settings
    stages: Collection[str]
    versions: Versions


@dataclass(frozen=True, slots=True)
class Means:
    """What a stage may use.

    `stages` are the names of the campaign's stages. `windows` are the contexts of the roles'
    models; without a window, prompts are sent whole. `python` is the interpreter for candidate
    code. `notify` takes messages for people.
    """

    model: Model
    recipe: Recipe
    settings: Settings
    stages: Collection[str] = ()
    windows: Mapping[str, Window] = field(default_factory=dict)
    library: Library | None = None
    notify: Notify = logged
    python: Interpreter | None = None

    def client(self, role: str) -> RoleClient:
        """Return a client for the model of a role."""
        own, seed = self.settings.role(role), self.settings.seed
        return RoleClient(self.model, role, own, seed, self.windows.get(role))

    def idle(self, role: str) -> int:
        """Return how many more requests a role's model would answer at once; 0 where unknown."""
        ask = getattr(self.model, "idle", None)
        return int(ask(role)) if callable(ask) else 0


class Stage(ABC, Generic[T]):
    """A stage; `T` is the object that carries it out. The first of `kinds` is the essential one.

    `optional`: a campaign may omit the stage, and campaign.toml names it where it does not.
    """

    name: ClassVar[str]
    kinds: ClassVar[tuple[Kind, ...]]
    optional: ClassVar[bool] = True
    reads_library: ClassVar[bool] = False

    def applies(self, settings: Settings, has_library: bool) -> bool:
        """Return whether settings enable the stage; one that reads the library needs a library."""
        return has_library or not self.reads_library

    @abstractmethod
    def calls(self, expected: Expected) -> Sequence[Calls]:
        """Return how often the stage makes each kind of call."""

    @abstractmethod
    def open(self, means: Means) -> T:
        """Return the object that carries out the stage in a campaign."""

    def answers(self, sample: Sample) -> Mapping[str, Record]:
        """Return the replies, by kind, that the stage needs before it asks its later questions."""
        return {}

    @abstractmethod
    async def weigh(self, opened: T, sample: Sample) -> None:
        """Ask every question that the stage would ask about a sample.

        No replies come but those of `answers`.
        """


class Judge(Protocol):
    """Judges ideas before code is written."""

    async def judge(self, idea: Idea) -> Verdict:
        """Return a verdict. Raises EndpointError; LibraryError where none is possible for now."""
        ...


class VettingStage(Stage[T]):
    """A stage that judges each idea before code is written, and may reject it.

    It opens a `Judge`, whose `verdict` is stored as `NAME.json` in the idea's folder.
    """

    verdict: ClassVar[type[Verdict]]
