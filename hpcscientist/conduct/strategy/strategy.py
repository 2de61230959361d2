"""Strategies of an idea, from its first version to its end, and the choice among them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Protocol

from hpcscientist.authoring.tree import TreeBounds
from hpcscientist.conduct.strategy.linear import (
    Arrived,
    Dropped,
    End,
    Evaluation,
    Failed,
    LinearWay,
)
from hpcscientist.conduct.strategy.steps import (
    AnyStep,
    Conclude,
    Last,
    Ran,
    Read,
    SetAside,
    Version,
    WriteFurtherRun,
)
from hpcscientist.conduct.strategy.strategy_replay import (
    InfraFailed,
    Measuring,
    NeedsAnswer,
    Remark,
    StrategyReplay,
    Tree,
    Understood,
)
from hpcscientist.conduct.strategy.tree_search import TreeWay
from hpcscientist.config.extent import FIXES, RUNS, Versions
from hpcscientist.config.settings import Settings
from hpcscientist.files.text import one_line
from hpcscientist.records.experiment import FurtherRun
from hpcscientist.records.idea import Arm, idea_seed
from hpcscientist.records.objective import Objective

# Further runs of a scored idea: those that an analyst asks for, or the ablations of its plan.
#
# Each starts from the scored code and is a leg of its own. Its outcome never changes what the
# scored code measured.

_TITLE = 200  # characters


@dataclass(frozen=True, slots=True)
class Following:
    """Chooses an idea's further runs, at most `most`.

    `analysed`: an analyst asks for them. Otherwise each of `parts` is ablated in turn.
    """

    most: int
    analysed: bool
    parts: tuple[str, ...]
    legs: Evaluation

    def follow_up(self, replay: StrategyReplay, main: Arrived) -> InfraFailed | None:
        """Do an idea's further runs; return the machine failure that the idea has to wait for.

        An idea that was given up before all seeds has no further runs. Raises NeedsAnswer.
        """
        if main.short is not None:
            return None
        return self._analyse(replay, main) if self.analysed else self._ablate(replay, main)

    def _analyse(self, replay: StrategyReplay, main: Arrived) -> InfraFailed | None:
        runs: list[Ran] = []
        for number in range(1, self.most + 1):
            run = _read(replay, number, main, runs)
            if run is None:
                return None
            end = self._further(replay, main, run, number)
            if isinstance(end, InfraFailed):
                # A driver that resumes would rerun it, so no later run may depend on it.
                return None if end.lost else end
            runs.append(_ran(run, end))
        _read(replay, self.most + 1, main, runs)  # the analyst reads the last run too
        return None

    def _ablate(self, replay: StrategyReplay, main: Arrived) -> InfraFailed | None:
        """Ablate the parts that the plan lists, one part a run."""
        for number, part in enumerate(self.parts[: self.most], start=1):
            end = self._further(replay, main, _without(part), number)
            if isinstance(end, InfraFailed):  # as above
                return None if end.lost else end
        return None

    def _further(self, replay: StrategyReplay, main: Arrived, run: FurtherRun, number: int) -> End:
        version = Version(replay.latest + 1, run.kind, main.version.number, run=number)
        step = WriteFurtherRun(version, f"extend/{number}", replay.latest, number=number, run=run)
        return self.legs.go(replay, version, replay.of(step))


def _read(replay: StrategyReplay, number: int, main: Arrived, runs: list[Ran]) -> FurtherRun | None:
    run = replay.of(Read(number, main.version.number, tuple(runs)))
    replay.told.append(Understood(number))
    return run


def _ran(run: FurtherRun, end: Arrived | Failed | Dropped) -> Ran:
    match end:
        case Arrived():
            return Ran(run, end.version.number)
        case Dropped():
            return Ran(run, None, one_line(end.why))
        case Failed():
            return Ran(run, None, one_line(end.reason(1)))


def _without(part: str) -> FurtherRun:
    """Return the further run that measures the contribution of a part of the method."""
    return FurtherRun(
        kind="ablation",
        title=one_line(f"Without {part}", _TITLE),
        purpose=f"What does this part give: {part}?",
        change=f"Leave this part out: {part}",
    )


class Way(Protocol):
    """Takes an idea to the end of its first leg; implemented by `LinearWay` and `TreeWay`."""

    def go(self, replay: StrategyReplay) -> End:
        """Write and try versions. Raises NeedsAnswer."""
        ...


@dataclass(frozen=True, slots=True)
class Next:
    """The steps that may be taken now, concurrently, the most urgent first.

    `told` holds what happened so far, in reading order. It only grows at the end.
    """

    steps: tuple[AnyStep, ...]
    told: tuple[Remark, ...]


@dataclass(frozen=True, slots=True)
class Strategy:
    """The strategy of one idea: a way to its first scored version, then further runs."""

    way: Way
    following: Following

    def next(self, tree: Tree) -> Next:
        """Return the next steps. A step stays among them until it has an answer. The last step of
        an idea is `Conclude` or `SetAside`, and it comes alone.
        """
        replay = StrategyReplay(tree)
        try:
            found: list[AnyStep] = [self._last(replay)]
        except NeedsAnswer:
            found = replay.lacking
        steps = sorted(found, key=lambda step: -step.priority)
        return Next(tuple(steps), tuple(replay.told))

    def _last(self, replay: StrategyReplay) -> Last:
        end = self.way.go(replay)
        if isinstance(end, Arrived):
            infra_failed = self.following.follow_up(replay, end)
            if infra_failed is not None:
                return SetAside(infra_failed.trial_id, infra_failed.reason)
        return _concluded(replay, end)


def _concluded(replay: StrategyReplay, end: End) -> Last:
    match end:
        case Arrived():
            parts = [part for part in (end.short, end.lacking) if part]
            return Conclude("scored", "; ".join(parts) or None, end.version.number)
        case InfraFailed() if end.lost:
            return Conclude("failed", end.reason, replay.standing(end.number))
        case InfraFailed():
            return SetAside(end.trial_id, end.reason)
        case Dropped():
            return Conclude("failed", end.why, end.number)
        case Failed():
            last = max(replay.tried, default=None)
            standing = None if last is None else replay.standing(last)
            return Conclude("failed", end.reason(len(replay.tried)), standing)


class StrategyKind(ABC):
    """A kind of strategy for a model's ideas, chosen by name with `authoring.search`.

    `picks_by_pilots`: it compares versions by their pilots, which then have a seed of their own.
    `ablates`: if there is no analyst, it ablates the parts of a plan in turn.
    """

    name: ClassVar[str]
    picks_by_pilots: ClassVar[bool] = True
    ablates: ClassVar[bool] = False

    @abstractmethod
    def way(self, settings: Settings, objective: Objective, seed: int, legs: Evaluation) -> Way:
        """Return the way for one idea; `seed` is the idea's."""

    @abstractmethod
    def versions(self, settings: Settings, stages: Collection[str]) -> Versions:
        """Return how many versions of its code an idea has in a campaign with these stages."""


class LinearSearch(StrategyKind):
    """One first version, taken to its end."""

    name = "line"
    picks_by_pilots = False

    def way(self, settings: Settings, objective: Objective, seed: int, legs: Evaluation) -> Way:
        """Return the way for one idea."""
        return LinearWay(legs)

    def versions(self, settings: Settings, stages: Collection[str]) -> Versions:
        """Return the counts: one first version, and at most `FIXES` repairs."""
        most = settings.authoring.further_runs if "analyse" in stages else 0
        fixes = min(FIXES, settings.loop.debug_rounds)
        return Versions(1, 0, fixes, 0, min(RUNS, most), most, ablates=False)


class TreeSearch(StrategyKind):
    """A tree of versions; the best version is taken to its end."""

    name = "tree"
    ablates = True

    def way(self, settings: Settings, objective: Objective, seed: int, legs: Evaluation) -> Way:
        """Return the way for one idea."""
        of = settings.authoring
        bounds = TreeBounds(
            *(of.drafts, of.nodes, of.workers, of.debug_share, of.debug_depth), objective
        )
        return TreeWay(bounds, seed, legs)

    def versions(self, settings: Settings, stages: Collection[str]) -> Versions:
        """Return the counts for a fully grown tree."""
        authoring = settings.authoring
        ablates = "plan" in stages and "analyse" not in stages
        most = authoring.further_runs if ablates or "analyse" in stages else 0
        first = min(authoring.drafts, authoring.nodes)
        later = authoring.nodes - first
        fixes = round(later * authoring.debug_share)
        return Versions(
            first=first,
            beside=authoring.nodes - 1,
            fixes=fixes,
            improvements=later - fixes,
            runs=min(RUNS, most),
            runs_at_most=most,
            ablates=ablates,
        )


@dataclass(frozen=True, slots=True)
class Strategies:
    """Chooses the strategy of each idea. `advised`: there is a reviewer; `analysed`: there is an
    analyst.
    """

    kind: StrategyKind
    settings: Settings
    objective: Objective
    advised: bool
    analysed: bool
    measuring: Measuring

    def of(self, number: int, arm: Arm, parts: tuple[str, ...]) -> Strategy:
        """Return the strategy of idea `number`; `parts` of its method may be ablated in turn.

        A control-arm idea has one version, and no reviewer or analyst.
        """
        by_model, authoring = arm == "model", self.settings.authoring
        legs = Evaluation(
            *(self.settings.loop.debug_rounds, authoring.advice_rounds),
            *(self.advised and by_model, self.measuring),
            # A tree has fixed its versions, and a setting of the control arm has nobody to fix it.
            doubts=by_model and not self.kind.picks_by_pilots,
        )
        way: Way = LinearWay(legs)
        if by_model:
            seed = idea_seed(self.settings.seed, number)
            way = self.kind.way(self.settings, self.objective, seed, legs)
        analysed, parts = self.analysed and by_model, parts if self.kind.ablates else ()
        return Strategy(way, Following(authoring.further_runs, analysed, parts, legs))
