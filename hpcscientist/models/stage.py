"""A stage of the loop that asks a model, as one unit.

A stage says which kinds of call it makes, which role answers each and with what, when a campaign
has it, how often it asks, and who carries it out. Playbooks, roles, cost estimates, dry runs and
the wiring of a campaign follow from that: see `campaign.stages`, which lists all of them, those of
other installed packages included.
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
from hpcscientist.models.sample import Sample
from hpcscientist.models.structured import REPAIRS
from hpcscientist.ports import Library, Model, Notify, logged
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.base import Record
from hpcscientist.records.idea import Idea
from hpcscientist.records.proposing import Verdict
from hpcscientist.system.interpreter import Interpreter

T = TypeVar("T")
TRIES = 1 + REPAIRS
"""How often a model is asked at most until one reply fits its schema."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of call: its name in playbooks and records, the role that answers, the reply."""

    name: str
    role: str
    reply: type[Record]


@dataclass(frozen=True, slots=True)
class Calls:
    """How often a kind of call is made: a guess, and a bound that counts every repair."""

    kind: str
    guess: int
    most: int

    @classmethod
    def of(cls, kind: str, count: int) -> Calls:
        """Return so many calls, each of which may need all its repairs."""
        return cls(kind, count, count * TRIES)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a cost estimate knows of a campaign; `stages` are the names of those that it has."""

    settings: Settings
    stages: Collection[str]
    versions: Versions


@dataclass(frozen=True, slots=True)
class Means:
    """What a stage may use. `stages` are the campaign's, by name. `windows` are the contexts of the
    roles' models; without them prompts go out whole. `python` runs the code of ideas. `notify` is
    told what people should know.
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
        """Return the model of a role, to be asked for replies of a type."""
        own, seed = self.settings.role(role), self.settings.seed
        return RoleClient(self.model, role, own, seed, self.windows.get(role))

    def idle(self, role: str) -> int:
        """Return how many requests more a role's model would answer at once; 0: nobody knows."""
        ask = getattr(self.model, "idle", None)
        return int(ask(role)) if callable(ask) else 0


class Stage(ABC, Generic[T]):
    """A stage; `T` carries it out. `kinds` begins with the one without which it is of no use.

    `optional`: a campaign may do without, and campaign.toml names it if not.
    """

    name: ClassVar[str]
    kinds: ClassVar[tuple[Kind, ...]]
    optional: ClassVar[bool] = True
    reads_library: ClassVar[bool] = False

    def applies(self, settings: Settings, has_library: bool) -> bool:
        """Return whether settings ask for it, where there is something to read if it reads."""
        return has_library or not self.reads_library

    @abstractmethod
    def calls(self, expected: Expected) -> Sequence[Calls]:
        """Return how often it asks."""

    @abstractmethod
    def open(self, means: Means) -> T:
        """Return who carries it out in a campaign."""

    def answers(self, sample: Sample) -> Mapping[str, Record]:
        """Return the replies, by kind, without which its later questions are not asked."""
        return {}

    @abstractmethod
    async def weigh(self, opened: T, sample: Sample) -> None:
        """Ask all that it would ask of a sample; no replies come but its `answers`."""


class Judge(Protocol):
    """Judges ideas before code is written."""

    async def judge(self, idea: Idea) -> Verdict:
        """Return a verdict. Raises EndpointError; LibraryError where there can be none for now."""
        ...


class VettingStage(Stage[T]):
    """A stage that judges each idea before code is written, and may end it.

    What it opens is a `Judge`, whose `verdict` is kept as `NAME.json` in the idea's folder.
    """

    verdict: ClassVar[type[Verdict]]
