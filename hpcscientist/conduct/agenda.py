"""Which run of a trial is due: its first, one that is under way, or one more where the machine
failed it.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field

from hpcscientist.conduct import actions
from hpcscientist.conduct.actions import Action, RunTrial
from hpcscientist.conduct.rules import Rules
from hpcscientist.history.entities import IdeaState, TrialState
from hpcscientist.history.state import CampaignState
from hpcscientist.records.trial import Stage, trial_name

Mark = tuple[object, ...]
"""What an idea's wants depend on: they are the same as long as it is."""


@dataclass(slots=True)
class AgendaCache:
    """What was wanted for ideas to which nothing has happened since. It saves time, and changes
    nothing.
    """

    _wants: dict[str, tuple[Mark, tuple[Action, ...]]] = field(default_factory=dict)
    _reached: dict[str, int] = field(default_factory=dict)

    def recall(self, whose: str, mark: Mark) -> tuple[Action, ...] | None:
        """Return what was wanted, None where that is not known."""
        known = self._wants.get(whose)
        return known[1] if known is not None and known[0] == mark else None

    def keep(self, whose: str, mark: Mark, wants: tuple[Action, ...]) -> None:
        """Remember what is wanted."""
        self._wants[whose] = mark, wants

    def reach(self, what: str, low: int, last: int, is_behind: Callable[[int], bool]) -> int:
        """Return the largest number up to which all are behind, among those up to `last`: all up
        to `low` are. What is behind once stays so under the same driver.
        """
        number = max(low, self._reached.get(what, 0))
        while number < last and is_behind(number + 1):
            number += 1
        self._reached[what] = number
        return number

    def __len__(self) -> int:
        """Of how many ideas."""
        return len(self._wants)

    def keep_only(self, ideas: Container[str]) -> None:
        """Forget all other ideas."""
        self._wants = {idea: wants for idea, wants in self._wants.items() if idea in ideas}


@dataclass(slots=True)
class Agenda:
    """What is wanted now, and when to look again at the latest: seconds since the epoch."""

    state: CampaignState
    rules: Rules
    now: float
    memory: AgendaCache = field(default_factory=AgendaCache)
    found: list[Action] = field(default_factory=list)
    wake_at: float | None = None

    def add(self, action: Action) -> None:
        """Want something."""
        self.found.append(action)

    def of(self, idea: IdeaState, mark: Mark, want: Callable[[Agenda, IdeaState], None]) -> None:
        """Want what `want` says of an idea, which may depend on the mark, on the idea and on the
        time alone.
        """
        mark = (*mark, idea.changes, self.state.generation)
        found = self.memory.recall(idea.idea_id, mark)
        if found is None:
            own = Agenda(self.state, self.rules, self.now)
            want(own, idea)
            found = tuple(own.found)
            if own.wake_at is None:
                self.memory.keep(idea.idea_id, mark, found)
            else:
                self.look_again(own.wake_at)
        self.found.extend(found)

    def run(
        self,
        idea_id: str,
        attempt: int,
        stage: Stage,
        index: int,
        priority: int = actions.STEP,
    ) -> None:
        """Want a trial to be run to its end, unless it has come there."""
        trial_id = trial_name(idea_id, attempt, stage, index)
        run = self._due(self.state.trials.get(trial_id))
        if run:
            self.add(RunTrial(trial_id, idea_id, attempt, stage, index, run, priority))

    def _due(self, trial: TrialState | None) -> int:
        """Return which run of a trial is due, 0 for none."""
        if trial is None:
            return 1
        if not trial.has_ended:
            return trial.run
        if not trial.infra_failed or self.is_used_up(trial):
            return 0
        failures = trial.failed_in(self.state.generation)
        # What ails a machine often passes.
        pause_s = self.rules.pause_s * 2 ** (failures - 1) if failures else 0.0
        # An end that is yet to come was seen by another clock, or before this one was put back.
        if trial.ended_at <= self.now < trial.ended_at + pause_s:
            self.look_again(trial.ended_at + pause_s)
            return 0
        return trial.run + 1

    def look_again(self, at: float) -> None:
        """Have the next look not later than at a time."""
        self.wake_at = at if self.wake_at is None else min(self.wake_at, at)

    def is_used_up(self, trial: TrialState) -> bool:
        """Whether the machine failed a trial as often as this driver tries."""
        return is_used_up(trial, self.state.generation, self.rules.retries)

    def is_lost(self, trial: TrialState) -> bool:
        """Whether it failed it under two drivers: then it is given up."""
        return is_lost(trial, self.rules.retries)


def is_used_up(trial: TrialState, generation: int, retries: int) -> bool:
    """Whether the machine failed a trial as often as the driver of a generation tries."""
    return trial.has_ended and trial.infra_failed and trial.failed_in(generation) > retries


def is_lost(trial: TrialState, retries: int) -> bool:
    """Whether the machine failed a trial under two drivers: then it is given up."""
    return trial.run > retries + 1
