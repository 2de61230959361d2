"""Walking through what was done for an idea, up to where something is lacking.

A strategy is written as one would do the work oneself, from the first version to the last. It is
walked through anew each time: what was done has its answer in the tree, and the first thing that
has none is what is done next. So a strategy keeps nothing, and a driver that resumes walks the
same way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeVar, cast

from hpcscientist.authoring.tree import Node
from hpcscientist.conduct.strategy.steps import (
    AnyStep,
    Climb,
    Measured,
    Pilot,
    Piloted,
    Seeds,
    Step,
    Version,
)
from hpcscientist.feedback.effort import Schedule
from hpcscientist.records.idea import AttemptKind
from hpcscientist.records.trial import MachineFailed, Scored

Answer = TypeVar("Answer")
_UNKNOWN = object()


class Tree(Protocol):
    """By step, what it came to. A dictionary is one."""

    def get(self, step: AnyStep, default: object, /) -> object:
        """Return what a step came to, `default` where that is not known."""
        ...


# -- what is told on the way, in the order in which it is to be read --


@dataclass(frozen=True, slots=True)
class NotWritten:
    """There is no such version."""

    kind: AttemptKind
    run: int
    reason: str


@dataclass(frozen=True, slots=True)
class Tried:
    """A version and its pilot."""

    version: Version


@dataclass(frozen=True, slots=True)
class Grown:
    """A tree of versions has grown, and which of them goes on."""

    nodes: tuple[Node, ...]
    best: int | None


@dataclass(frozen=True, slots=True)
class Reviewed:
    """What a reviewer found of a version."""

    number: int


@dataclass(frozen=True, slots=True)
class Run:
    """How a version was measured."""

    number: int


@dataclass(frozen=True, slots=True)
class Understood:
    """What an analyst made of the runs, the time `number`."""

    number: int


Remark = NotWritten | Tried | Grown | Reviewed | Run | Understood


# -- where a way ends -------------------------------------------------


@dataclass(frozen=True, slots=True)
class InfraFailed:
    """The machine failed a version again and again; `lost`: under two drivers."""

    number: int
    outcome: MachineFailed
    trial_id: str
    lost: bool

    @property
    def reason(self) -> str:
        """Say why, in one line."""
        return f"machine failed ({self.outcome.failure.value}): {self.outcome.detail}"


class NeedsAnswer(Exception):
    """Something is to be done first; the walk knows what."""


@dataclass(slots=True)
class StrategyReplay:
    """One walk. `lacking` are the steps it came to that have no answer yet."""

    tree: Tree
    told: list[Remark] = field(default_factory=list)
    lacking: list[AnyStep] = field(default_factory=list)
    latest: int = 0  # number of the last version that was begun
    tried: dict[int, Version] = field(default_factory=dict)
    known: dict[int, int] = field(default_factory=dict)  # by version, seeds that were scored
    hashes: list[str] = field(default_factory=list)  # of the versions that were tried

    def look(self, step: Step[Answer]) -> Answer | None:
        """Return what a step came to; None where it is lacking, or came to nothing."""
        answer = self.tree.get(cast("AnyStep", step), _UNKNOWN)
        if answer is _UNKNOWN:
            self.lacking.append(cast("AnyStep", step))
            return None
        return cast("Answer", answer)

    def of(self, step: Step[Answer]) -> Answer:
        """Return what a step came to. Raises NeedsAnswer."""
        answer = self.look(step)
        self.need()
        return cast("Answer", answer)

    def need(self) -> None:
        """Go no further where something is lacking. Raises NeedsAnswer."""
        if self.lacking:
            raise NeedsAnswer

    def pilot(self, version: Version, code_hash: str) -> Piloted:
        """Return what a version's pilot came to, and tell of both at first. Raises NeedsAnswer."""
        piloted = self.of(Pilot(version))
        if version.number not in self.tried:
            self.add(version, code_hash)
        return piloted

    def add(self, version: Version, code_hash: str) -> None:
        """Take note of a version whose pilot has run."""
        self.latest = max(self.latest, version.number)
        self.tried[version.number] = version
        self.hashes.append(code_hash)
        self.told.append(Tried(version))

    def measured(self, number: int, known: int) -> None:
        """Take note that a version has been measured; `known` counts its scored seeds."""
        self.known[number] = known
        self.told.append(Run(number))

    def standing(self, last: int) -> int:
        """The latest version up to `last` that has scored seeds, else `last` itself: a later
        failure never discards a good run.
        """
        return max((n for n, known in self.known.items() if known and n <= last), default=last)


# Measuring a version: the budgets it climbs, then its seeds, stage by stage.


@dataclass(frozen=True, slots=True)
class Measuring:
    """How versions are measured. `seeds`: as many as the recipe has.

    `schedule` says after how many seeds it is decided whether more come, None: all are run;
    `budgets` counts those below the full one that are climbed before.
    """

    seeds: int
    budgets: int = 0
    schedule: Schedule | None = None

    def measure(self, replay: StrategyReplay, version: Version) -> Measured:
        """Return what a version's last stage came to. Raises NeedsAnswer."""
        measured = self._measured(replay, version)
        replay.measured(version.number, measured.known)
        return measured

    def _measured(self, replay: StrategyReplay, version: Version) -> Measured:
        # What a further run shows is told beside the idea, and decides nothing.
        if self.schedule is None or version.run:
            return replay.of(Seeds(version, 0, self.seeds))
        for index in range(self.budgets):
            measured = replay.of(Climb(version, index))
            if not isinstance(measured.outcome, Scored) or not measured.more:
                return measured
        first, count = 0, self.schedule.after(0)
        while True:
            measured = replay.of(Seeds(version, first, count))
            if not isinstance(measured.outcome, Scored) or not measured.more:
                return measured
            first, count = first + count, measured.more
