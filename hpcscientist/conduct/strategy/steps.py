"""Steps: what can be done for one idea, and what each of them may come to.

A step is a value: two with the same fields are the same step, so a tree of what was done is asked
for its answer. All that an author or an analyst is shown follows from the step, as numbers of
versions that were there when it was chosen; what has come in since changes nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, TypeVar

from hpcscientist.records.authoring import GaveUp
from hpcscientist.records.experiment import FurtherRun
from hpcscientist.records.idea import AttemptKind
from hpcscientist.records.trial import Outcome, Scored

Answer_co = TypeVar("Answer_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Version:
    """A version of an idea's code. `parent` is the one it is made from, 0 the reference; `run` is
    the further run it belongs to, 0 for the idea itself.
    """

    number: int
    kind: AttemptKind = "draft"
    parent: int = 0
    run: int = 0


# -- what steps come to -----------------------------------------------


@dataclass(frozen=True, slots=True)
class Written:
    """An author wrote a version; the hash of its files."""

    code_hash: str


@dataclass(frozen=True, slots=True)
class Piloted:
    """What a version's pilot came to, and its `value` by the primary metric if it was scored.

    `lost`: the machine failed it under two drivers. `hopeless` says why its seeds are not worth
    running; `idle`: it predicts what the unchanged reference predicts.
    """

    outcome: Outcome
    trial_id: str
    lost: bool = False
    value: float | None = None
    hopeless: str | None = None
    idle: bool = False

    @property
    def scored(self) -> bool:
        """Whether it may go on."""
        return isinstance(self.outcome, Scored)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a stage of a version's measuring came to: the first trial not scored, or the last.

    `lost` as for a pilot. `more`: how many seeds come after these, or 1 where it goes on from a
    budget below the full one; 0: no more. `known` counts the seeds that were scored, now or
    before. `short` says why the version was given up before all of them, or below the full budget.
    """

    outcome: Outcome
    trial_id: str
    lost: bool = False
    more: int = 0
    known: int = 0
    short: str | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """What a reviewer made of a version; what is `lacking` in one line, "" if nothing is."""

    complete: bool
    lacking: str = ""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a further run came to: the version that was scored, or why there is none."""

    run: FurtherRun
    number: int | None
    failure: str | None = None


# -- steps ------------------------------------------------------------


class Step(Generic[Answer_co]):
    """Something to be done once for one idea. Steps of a higher `priority` are begun first: what
    is nearest to a result.
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
    versions. `idle`: the parent ran, and predicts what the reference predicts.
    """

    round: int
    rounds: int
    earlier: tuple[int, ...] = ()
    grown: bool = False
    idle: bool = False


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
    """Put on record that a task comes to nothing, so that later drivers go on without, too.

    `number` is that of a version which is another's double, 0: none is.
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
    """Run an attempt once at a budget below the full one, number `index` of them, from 0."""

    priority: ClassVar[int] = 3
    version: Version
    index: int


@dataclass(frozen=True, slots=True)
class Seeds(Step[Measured]):
    """Run `count` seeds of an attempt from the `first` on, counted from 0."""

    priority: ClassVar[int] = 4
    version: Version
    first: int
    count: int

    @property
    def which(self) -> range:
        """The seeds, counted from 0."""
        return range(self.first, self.first + self.count)


@dataclass(frozen=True, slots=True)
class Read(Step[FurtherRun | None]):
    """Have an analyst read what `main` measured and what the runs after it came to, and ask for
    another; None: for no more.
    """

    priority: ClassVar[int] = 2
    number: int
    main: int
    runs: tuple[Ran, ...]


@dataclass(frozen=True, slots=True)
class Conclude(Step[None]):
    """End the idea; `attempt` is the one that stands."""

    priority: ClassVar[int] = 5
    status: Literal["scored", "failed"]
    reason: str | None
    attempt: int | None


@dataclass(frozen=True, slots=True)
class SetAside(Step[None]):
    """Leave the idea to a later driver: the machine failed a trial again and again."""

    priority: ClassVar[int] = 5
    trial_id: str
    reason: str


Last = Conclude | SetAside
AnyStep = Write | Pilot | Abandon | Review | Climb | Seeds | Read | Conclude | SetAside
