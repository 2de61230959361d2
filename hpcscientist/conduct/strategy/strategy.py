"""What is done for an idea next, from its first version to its end, and by which strategy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Protocol

from hpcscientist.authoring.tree import Bounds
from hpcscientist.conduct.strategy.following import Following
from hpcscientist.conduct.strategy.linear import (
    Arrived,
    Dropped,
    End,
    Evaluation,
    Failed,
    LinearWay,
)
from hpcscientist.conduct.strategy.measuring import Measuring
from hpcscientist.conduct.strategy.steps import AnyStep, Conclude, Last, SetAside
from hpcscientist.conduct.strategy.strategy_replay import (
    NeedsAnswer,
    Remark,
    Spoilt,
    StrategyReplay,
    Tree,
)
from hpcscientist.conduct.strategy.tree_search import TreeWay
from hpcscientist.config.settings import Settings
from hpcscientist.config.versions import MENDS, RUNS, Versions
from hpcscientist.records.idea import Arm, idea_seed
from hpcscientist.records.trial import Direction


class Way(Protocol):
    """Takes an idea from nothing to the end of its first leg: `LinearWay` and `TreeWay` do."""

    def go(self, replay: StrategyReplay) -> End:
        """Have versions written and tried. Raises NeedsAnswer."""
        ...


@dataclass(frozen=True, slots=True)
class Next:
    """What may be done now, side by side and the most urgent first; `told`: what happened so far,
    in the order in which it is to be read. A later one begins with the same.
    """

    steps: tuple[AnyStep, ...]
    told: tuple[Remark, ...]


@dataclass(frozen=True, slots=True)
class Strategy:
    """How one idea is pursued."""

    way: Way
    following: Following

    def next(self, tree: Tree) -> Next:
        """Return what is done next. Steps that have no answer yet stay among them; the last of an
        idea is `Conclude` or `SetAside`, and it comes alone.
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
            spoilt = self.following.follow_up(replay, end)
            if spoilt is not None:
                return SetAside(spoilt.trial_id, spoilt.reason)
        return _concluded(replay, end)


def _concluded(replay: StrategyReplay, end: End) -> Last:
    match end:
        case Arrived():
            parts = [part for part in (end.short, end.lacking) if part]
            return Conclude("scored", "; ".join(parts) or None, end.version.number)
        case Spoilt() if end.lost:
            return Conclude("failed", end.reason, replay.standing(end.number))
        case Spoilt():
            return SetAside(end.trial_id, end.reason)
        case Dropped():
            return Conclude("failed", end.why, end.number)
        case Failed():
            last = max(replay.tried, default=None)
            standing = None if last is None else replay.standing(last)
            return Conclude("failed", end.reason(len(replay.tried)), standing)


class StrategyKind(ABC):
    """How ideas of a model are taken to the end of their first leg; `authoring.search` names it.

    `picks_by_pilots`: it compares versions by their pilots, which then have a seed of their own.
    `ablates`: without an analyst the parts of a plan are left out in turn.
    """

    name: ClassVar[str]
    picks_by_pilots: ClassVar[bool] = True
    ablates: ClassVar[bool] = False

    @abstractmethod
    def way(self, settings: Settings, direction: Direction, seed: int, legs: Evaluation) -> Way:
        """Return the way of one idea; `seed` is the idea's, `direction` the primary metric's."""

    @abstractmethod
    def versions(self, settings: Settings, stages: Collection[str]) -> Versions:
        """Return how many versions of its code an idea has, in a campaign with these stages."""


class LinearSearch(StrategyKind):
    """One first version, taken to its end."""

    name = "line"
    picks_by_pilots = False

    def way(self, settings: Settings, direction: Direction, seed: int, legs: Evaluation) -> Way:
        """Return the way of one idea."""
        return LinearWay(legs)

    def versions(self, settings: Settings, stages: Collection[str]) -> Versions:
        """Return one first version, and one repair where repairs are allowed."""
        most = settings.authoring.further_runs if "analyse" in stages else 0
        mends = min(MENDS, settings.loop.debug_rounds)
        return Versions(1, 0, mends, 0, min(RUNS, most), most, ablates=False)


class TreeSearch(StrategyKind):
    """A tree of versions, the best of which is taken to its end."""

    name = "tree"
    ablates = True

    def way(self, settings: Settings, direction: Direction, seed: int, legs: Evaluation) -> Way:
        """Return the way of one idea."""
        of = settings.authoring
        bounds = Bounds(
            *(of.drafts, of.nodes, of.workers, of.debug_share, of.debug_depth), direction
        )
        return TreeWay(bounds, seed, legs)

    def versions(self, settings: Settings, stages: Collection[str]) -> Versions:
        """Return the versions of a tree that is grown whole."""
        authoring = settings.authoring
        ablates = "plan" in stages and "analyse" not in stages
        most = authoring.further_runs if ablates or "analyse" in stages else 0
        first = min(authoring.drafts, authoring.nodes)
        later = authoring.nodes - first
        mends = round(later * authoring.debug_share)
        return Versions(
            first=first,
            beside=authoring.nodes - 1,
            mends=mends,
            improvements=later - mends,
            runs=min(RUNS, most),
            runs_at_most=most,
            ablates=ablates,
        )


@dataclass(frozen=True, slots=True)
class Strategies:
    """Chooses the strategy of each idea. `advised` and `analysed`: a reviewer, or an analyst, takes
    part. `direction` is the primary metric's.
    """

    kind: StrategyKind
    settings: Settings
    direction: Direction
    advised: bool
    analysed: bool
    measuring: Measuring

    def of(self, number: int, arm: Arm, parts: tuple[str, ...]) -> Strategy:
        """Return the strategy of idea `number`; `parts` of its method may be left out in turn.

        A setting of the control arm has one version, and nobody to look at it.
        """
        by_model, authoring = arm == "model", self.settings.authoring
        legs = Evaluation(
            *(self.settings.loop.debug_rounds, authoring.advice_rounds),
            *(self.advised and by_model, self.measuring),
        )
        way: Way = LinearWay(legs)
        if by_model:
            seed = idea_seed(self.settings.seed, number)
            way = self.kind.way(self.settings, self.direction, seed, legs)
        analysed, parts = self.analysed and by_model, parts if self.kind.ablates else ()
        return Strategy(way, Following(authoring.further_runs, analysed, parts, legs))
