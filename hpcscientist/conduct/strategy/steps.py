"""Steps: what can be done for one idea, and the possible outcomes of each.

A step is a value: two with equal fields are the same step, so a step is the key to its outcome. A
step names by number the versions that an author or an analyst is shown: those that existed when it
was chosen. Later versions do not change what they are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, TypeVar

from hpcscientist.records.authoring import GaveUp
from hpcscientist.records.experiment import FurtherRun
from hpcscientist.records.idea import AttemptKind
from hpcscientist.records.objective import NOT_MEASURED, ObjectiveValue
from hpcscientist.records.trial import Outcome, Scored

Answer_co = TypeVar("Answer_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Version:
    """A version of an idea's code. `parent` is the version it is made from, 0 the reference code;
    `run` is its further run, 0 for the idea itself.
    """

    number: int
    kind: AttemptKind = "draft"
    parent: int = 0
    run: int = 0


# -- outcomes of steps ------------------------------------------------


@dataclass(frozen=True, slots=True)
class Written:
    """An author wrote a version; `code_hash` is the hash of its files."""

    code_hash: str


@dataclass(frozen=True, slots=True)
class Piloted:
    """The outcome of a version's pilot, and what it `measured` if it was scored.

    `lost`: two drivers lost it to machine failures. `hopeless` says why its seeds are not worth
    running; `idle`: it predicts what the unchanged reference code predicts.
    """

    outcome: Outcome
    trial_id: str
    lost: bool = False
    measured: ObjectiveValue = NOT_MEASURED
    hopeless: str | None = None
    idle: bool = False

    @property
    def scored(self) -> bool:
        """Return whether the pilot was scored."""
        return isinstance(self.outcome, Scored)


@dataclass(frozen=True, slots=True)
class Measured:
    """The outcome of one stage of measuring a version: its first trial not scored, or its last.

    `lost` as for a pilot. `more`: how many seeds come next, or 1 if the version goes on from a
    budget below the full one; 0: none. `known` counts all seeds scored so far. `short` says why the
    version was given up before all seeds, or below the full budget.
    """

    outcome: Outcome
    trial_id: str
    lost: bool = False
    more: int = 0
    known: int = 0
    short: str | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """A reviewer's verdict on a version; `lacking` says in one line what is missing, or ""."""

    complete: bool
    lacking: str = ""


@dataclass(frozen=True, slots=True)
class Ran:
    """The outcome of a further run: the scored version's number, or the `failure`."""

    run: FurtherRun
    number: int | None
    failure: str | None = None


# -- steps ------------------------------------------------------------


class Step(Generic[Answer_co]):
    """Something done once for one idea. Steps of a higher `priority` start first: those closest
    to a result.
    """

    __slots__ = ()
    priority: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class Write(Step[Written | GaveUp]):
    """Ask the author for a version: one of the classes below says what for.

    `task` names the step in the journal if the author gives up. The author knows the versions up
    to number `known`.
    """

    priority: ClassVar[int] = 1
    version: Version
    task: str
    known: int


@dataclass(frozen=True, slots=True)
class WriteDraft(Write):
    """Ask for a first version, unlike the `earlier` ones."""

    earlier: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteFix(Write):
    """Ask for a fix of the parent, which failed: number `round` of `rounds`.

    The `earlier` versions tried to fix the same failure. `grown`: the parent is in a tree of
    versions. `objection`: why the parent, which ran, is not worth its seeds; "" if it did not run.
    """

    round: int
    rounds: int
    earlier: tuple[int, ...] = ()
    grown: bool = False
    objection: str = ""


@dataclass(frozen=True, slots=True)
class WriteCompletion(Write):
    """Ask for what a review found missing in the parent; `round` counts from 1."""

    round: int


@dataclass(frozen=True, slots=True)
class WriteImprovement(Write):
    """Ask for something better than the parent, to which the versions `led` came.

    `others` are earlier improvements of the same parent, each with its last fix (or itself).
    """

    led: tuple[int, ...]
    others: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class WriteFurtherRun(Write):
    """Ask for the code of further run `number`, counted from 1."""

    number: int
    run: FurtherRun


@dataclass(frozen=True, slots=True)
class Pilot(Step[Piloted]):
    """Run the pilot of a version."""

    priority: ClassVar[int] = 2
    version: Version


@dataclass(frozen=True, slots=True)
class Abandon(Step[None]):
    """Record that a task is abandoned, so that later drivers continue without it too.

    `number` is the version if it duplicates another, else 0.
    """

    priority: ClassVar[int] = 5
    task: str
    reason: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class Review(Step[Judged]):
    """Have an attempt reviewed."""

    priority: ClassVar[int] = 2
    number: int
    idle: bool


@dataclass(frozen=True, slots=True)
class Climb(Step[Measured]):
    """Run an attempt once at the smaller budget number `index`, counted from 0."""

    priority: ClassVar[int] = 3
    version: Version
    index: int


@dataclass(frozen=True, slots=True)
class Seeds(Step[Measured]):
    """Run `count` seeds of an attempt, starting with seed `first`, counted from 0."""

    priority: ClassVar[int] = 4
    version: Version
    first: int
    count: int

    @property
    def which(self) -> range:
        """The seeds' indices, counted from 0."""
        return range(self.first, self.first + self.count)


@dataclass(frozen=True, slots=True)
class Read(Step[FurtherRun | None]):
    """Have an analyst read the results of version `main` and of the further runs after it.

    The outcome is the next further run, None for no more.
    """

    priority: ClassVar[int] = 2
    number: int
    main: int
    runs: tuple[Ran, ...]


@dataclass(frozen=True, slots=True)
class Conclude(Step[None]):
    """End the idea; `attempt` is the one that counts as its result."""

    priority: ClassVar[int] = 5
    status: Literal["scored", "failed"]
    reason: str | None
    attempt: int | None


@dataclass(frozen=True, slots=True)
class SetAside(Step[None]):
    """Leave the idea to a later driver, after repeated machine failures of a trial."""

    priority: ClassVar[int] = 5
    trial_id: str
    reason: str


Last = Conclude | SetAside
AnyStep = Write | Pilot | Abandon | Review | Climb | Seeds | Read | Conclude | SetAside
