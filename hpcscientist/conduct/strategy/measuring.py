"""Measuring a version: the budgets it climbs, then its seeds, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.conduct.strategy.steps import Climb, Measured, Seeds, Version
from hpcscientist.conduct.strategy.strategy_replay import StrategyReplay
from hpcscientist.feedback.effort import Schedule
from hpcscientist.records.outcome import Scored


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
