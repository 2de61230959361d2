"""Collects the actions that a decision asks for, and decides which run of a trial is due: the
first, the one under way, or a rerun after a machine failure.
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
"""Everything that an idea's actions depend on: equal marks mean equal actions."""


@dataclass(slots=True)
class AgendaCache:
    """The actions of ideas that have not changed since the last decision. It only saves time."""

    _wants: dict[str, tuple[Mark, tuple[Action, ...]]] = field(default_factory=dict)
    _reached: dict[str, int] = field(default_factory=dict)

    def recall(self, whose: str, mark: Mark) -> tuple[Action, ...] | None:
        """Return the actions stored for this owner and mark, None if there are none."""
        known = self._wants.get(whose)
        return known[1] if known is not None and known[0] == mark else None

    def keep(self, whose: str, mark: Mark, wants: tuple[Action, ...]) -> None:
        """Store the actions of an owner."""
        self._wants[whose] = mark, wants

    def reach(self, what: str, low: int, last: int, is_behind: Callable[[int], bool]) -> int:
        """Return the largest number, at most `last`, up to which `is_behind` holds for all.

        It must hold up to `low`. Once true, it stays true under the same driver, so the search
        continues where the last one for `what` stopped.
        """
        number = max(low, self._reached.get(what, 0))
        while number < last and is_behind(number + 1):
            number += 1
        self._reached[what] = number
        return number

    def __len__(self) -> int:
        """Return the number of cached ideas."""
        return len(self._wants)

    def keep_only(self, ideas: Container[str]) -> None:
        """Forget all other ideas."""
        self._wants = {idea: wants for idea, wants in self._wants.items() if idea in ideas}


@dataclass(slots=True)
class Agenda:
    """The actions wanted now, and the latest time to decide again (seconds since the epoch)."""

    state: CampaignState
    rules: Rules
    now: float
    memory: AgendaCache = field(default_factory=AgendaCache)
    found: list[Action] = field(default_factory=list)
    wake_at: float | None = None

    def add(self, action: Action) -> None:
        """Add an action."""
        self.found.append(action)

    def of(self, idea: IdeaState, mark: Mark, want: Callable[[Agenda, IdeaState], None]) -> None:
        """Add the actions that `want` finds for an idea.

        They may depend only on the mark, the idea and the time.
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
        """Add the run of a trial that is due, if any."""
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
        # Machine failures are often transient.
        pause_s = self.rules.pause_s * 2 ** (failures - 1) if failures else 0.0
        # An end in the future came from another clock, or from before this clock was set back.
        if trial.ended_at <= self.now < trial.ended_at + pause_s:
            self.look_again(trial.ended_at + pause_s)
            return 0
        return trial.run + 1

    def look_again(self, at: float) -> None:
        """Decide again at this time at the latest."""
        self.wake_at = at if self.wake_at is None else min(self.wake_at, at)

    def is_used_up(self, trial: TrialState) -> bool:
        """Return whether this driver has no rerun left after machine failures of a trial."""
        return is_used_up(trial, self.state.generation, self.rules.retries)

    def is_lost(self, trial: TrialState) -> bool:
        """Return whether two drivers lost this trial to machine failures; it is then given up."""
        return is_lost(trial, self.rules.retries)


def is_used_up(trial: TrialState, generation: int, retries: int) -> bool:
    """Return whether a generation's driver has no rerun left after a trial's machine failures."""
    return trial.has_ended and trial.infra_failed and trial.failed_in(generation) > retries


def is_lost(trial: TrialState, retries: int) -> bool:
    """Return whether two drivers lost this trial to machine failures; it is then given up."""
    return trial.run > retries + 1
