"""Replays a strategy over recorded outcomes, up to the first step without an outcome.

A strategy is written as straight-line code, from the first version to the last. Each decision runs
it from the start: a finished step gets its outcome from the tree, and the first steps without an
outcome are taken next. So a strategy keeps no state, and a driver that resumes repeats the same
path.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeVar, cast

from hpcscientist.authoring.tree import TreeVersion
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
    """Outcomes by step. A dictionary is one."""

    def get(self, step: AnyStep, default: object, /) -> object:
        """Return a step's outcome, `default` if it is not known."""
        ...


# -- remarks made along the way, in reading order ---------------------


@dataclass(frozen=True, slots=True)
class NotWritten:
    """The author gave up on a version; it does not exist."""

    kind: AttemptKind
    run: int
    reason: str


@dataclass(frozen=True, slots=True)
class PilotedVersion:
    """A version that has been piloted."""

    version: Version


@dataclass(frozen=True, slots=True)
class Grown:
    """A fully grown tree of versions; `best` is the version that goes on."""

    nodes: tuple[TreeVersion, ...]
    best: int | None


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A reviewer judged a version."""

    number: int


@dataclass(frozen=True, slots=True)
class Run:
    """A version was measured on its seeds or a smaller budget."""

    number: int


@dataclass(frozen=True, slots=True)
class Understood:
    """An analyst read the runs, for the `number`-th time."""

    number: int


Remark = NotWritten | PilotedVersion | Grown | Reviewed | Run | Understood


# -- where a way ends -------------------------------------------------


@dataclass(frozen=True, slots=True)
class InfraFailed:
    """Machine failures used up a version's reruns; `lost`: under two drivers."""

    number: int
    outcome: MachineFailed
    trial_id: str
    lost: bool

    @property
    def reason(self) -> str:
        """Return the reason in one line."""
        return f"machine failed ({self.outcome.failure.value}): {self.outcome.detail}"


class NeedsAnswer(Exception):
    """A step has no outcome yet; `StrategyReplay.lacking` holds it."""


@dataclass(slots=True)
class StrategyReplay:
    """One replay. `lacking` holds the steps it reached that have no outcome yet."""

    tree: Tree
    told: list[Remark] = field(default_factory=list)
    lacking: list[AnyStep] = field(default_factory=list)
    latest: int = 0  # number of the latest version that was chosen
    tried: dict[int, Version] = field(default_factory=dict)
    known: dict[int, int] = field(default_factory=dict)  # scored seeds by version
    hashes: list[str] = field(default_factory=list)  # code hashes of the tried versions

    def look(self, step: Step[Answer]) -> Answer | None:
        """Return a step's outcome; None if it is lacking, or if the outcome is None."""
        answer = self.tree.get(cast("AnyStep", step), _UNKNOWN)
        if answer is _UNKNOWN:
            self.lacking.append(cast("AnyStep", step))
            return None
        return cast("Answer", answer)

    def of(self, step: Step[Answer]) -> Answer:
        """Return a step's outcome. Raises NeedsAnswer."""
        answer = self.look(step)
        self.need()
        return cast("Answer", answer)

    def need(self) -> None:
        """Raise NeedsAnswer if any step is lacking."""
        if self.lacking:
            raise NeedsAnswer

    def pilot(self, version: Version, code_hash: str) -> Piloted:
        """Return a version's pilot; note the version when it is new. Raises NeedsAnswer."""
        piloted = self.of(Pilot(version))
        if version.number not in self.tried:
            self.add(version, code_hash)
        return piloted

    def add(self, version: Version, code_hash: str) -> None:
        """Note a version whose pilot has run."""
        self.latest = max(self.latest, version.number)
        self.tried[version.number] = version
        self.hashes.append(code_hash)
        self.told.append(PilotedVersion(version))

    def measured(self, number: int, known: int) -> None:
        """Note that a version was measured; `known` counts its scored seeds."""
        self.known[number] = known
        self.told.append(Run(number))

    def standing(self, last: int) -> int:
        """Return the latest version up to `last` with scored seeds, else `last` itself.

        A later failure never discards a good run.
        """
        return max((n for n, known in self.known.items() if known and n <= last), default=last)


# Measuring a version: first the smaller budgets, then its seeds in stages.


@dataclass(frozen=True, slots=True)
class Measuring:
    """Measures versions. Without a `schedule`, and in further runs, all `seeds` are run.

    `schedule` says after how many seeds to decide about more, None: all at once; `budgets` counts
    the budgets below the full one that come first.
    """

    seeds: int
    budgets: int = 0
    schedule: Schedule | None = None

    def measure(self, replay: StrategyReplay, version: Version) -> Measured:
        """Return the outcome of a version's last stage. Raises NeedsAnswer."""
        measured = self._measured(replay, version)
        replay.measured(version.number, measured.known)
        return measured

    def _measured(self, replay: StrategyReplay, version: Version) -> Measured:
        # A further run is reported beside the idea and decides nothing, so it gets all seeds.
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
