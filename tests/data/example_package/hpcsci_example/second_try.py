"""A strategy: where no repair helps, another first version is written, once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from hpcscientist.conduct.strategy.linear import End, Evaluation, Failed, LinearWay
from hpcscientist.conduct.strategy.steps import Version, WriteDraft
from hpcscientist.conduct.strategy.strategy import LinearSearch, StrategyKind, Way
from hpcscientist.conduct.strategy.strategy_replay import StrategyReplay
from hpcscientist.config.extent import Versions
from hpcscientist.config.settings import Settings
from hpcscientist.records.objective import Objective


@dataclass(frozen=True, slots=True)
class Twice:
    legs: Evaluation

    def go(self, walk: StrategyReplay) -> End:
        end = LinearWay(self.legs).go(walk)
        if not isinstance(end, Failed) or not walk.tried:
            return end
        version = Version(walk.latest + 1)
        task, earlier = f"code/{version.number}", tuple(walk.tried)
        step = WriteDraft(version, task, walk.latest, earlier=earlier)
        return self.legs.go(walk, version, walk.of(step))


class SecondTry(StrategyKind):
    name = "second-try"
    picks_by_pilots = False

    def way(self, settings: Settings, objective: Objective, seed: int, legs: Evaluation) -> Way:
        return Twice(legs)

    def versions(self, settings: Settings, stages: Collection[str]) -> Versions:
        line = LinearSearch().versions(settings, stages)
        return Versions(
            *(2, 1, 2 * line.fixes, 0, line.runs, line.runs_at_most), ablates=line.ablates
        )


STRATEGY = SecondTry()
