"""Attributes lost workers to the idea's code or to the machine. Pure, like the state.

A candidate without a sandbox can kill or stop its own worker, other workers and the driver. So one
lost worker proves nothing. Its trial runs again alone. If it is lost once more, that idea's code is
to blame, unless losses of other ideas on the same host are still unexplained. Losses across ideas
are the host's fault: once several ideas in a row failed twice, with no run that ended well anywhere
in between, the campaign stops and says where and why.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hpcscientist.records.trial import MachineFailed, MachineFailure, TrialReport

TWICE = 2  # losses of a trial, or failed runs of an idea, that count as evidence
IDEAS = 3  # ideas that have to fail like that in a row before the machine is blamed

_NOBODYS = (MachineFailure.PREEMPTED, MachineFailure.CANCELLED, MachineFailure.TAMPERED)
_BY_ITSELF = (None, "", "FAILED", "COMPLETED")  # Slurm states of a task that ended by itself


@dataclass(frozen=True, slots=True)
class _Loss:
    """A lost run: its first and last event."""

    idea_id: str
    begin: int
    end: int


@dataclass(slots=True)
class Losses:
    """Lost runs by host, and counts of machine failures in a row."""

    _now: int = 0
    _begun: dict[str, int] = field(default_factory=dict)  # by trial: the event that its run started
    _of_trial: Counter[str] = field(default_factory=Counter)
    _open: dict[str, dict[str, _Loss]] = field(default_factory=dict)  # by host and idea
    _row: Counter[str] = field(default_factory=Counter)  # failed runs by idea, since the last good
    _hosts: Counter[str] = field(default_factory=Counter)  # the same runs by host
    _kinds: set[MachineFailure] = field(default_factory=set)  # how these runs failed
    _last: str = ""  # the last of these runs, and why it failed

    def driver_started(self) -> None:
        """Reset the row of failures: a new driver gives the machine another chance."""
        self._end_row()

    def started(self, trial_id: str) -> None:
        """Note that a run of a trial has started."""
        self._now += 1
        self._begun[trial_id] = self._now

    def of(self, trial_id: str) -> int:
        """Return how many runs of a trial were lost."""
        return self._of_trial[trial_id]

    def ended(self, idea_id: str, report: TrialReport) -> None:
        """Note how a run ended."""
        self._now += 1
        host, outcome = report.usage.node, report.outcome
        begin = self._begun.pop(report.trial_id, self._now)
        if not isinstance(outcome, MachineFailed):
            self._open.get(host, {}).pop(idea_id, None)
            self._end_row()
            return
        if outcome.failure not in _NOBODYS:
            self._row[idea_id] += 1
            self._hosts[host] += 1
            self._kinds.add(outcome.failure)
            self._last = f"{report.trial_id} ({outcome.failure.value}: {outcome.detail})"
        if is_loss(report):
            self._of_trial[report.trial_id] += 1
            self._open.setdefault(host, {})[idea_id] = _Loss(idea_id, begin, self._now)

    def idea_ended(self, idea_id: str) -> None:
        """Drop the losses of an ended idea: they are no longer evidence about the machine."""
        for losses in self._open.values():
            losses.pop(idea_id, None)

    def are_its_own_doing(self, idea_id: str, report: TrialReport, with_driver: bool) -> bool:
        """Return whether the idea's own code is to blame for a run that was lost just now.

        `with_driver`: the driver was lost with it, so it could not rerun the other ideas' trials.
        """
        if not is_loss(report) or self.of(report.trial_id) + 1 < TWICE:
            return False
        others = [
            loss
            for loss in self._open.get(report.usage.node, {}).values()
            if loss.idea_id != idea_id
        ]
        begin = self._begun.get(report.trial_id, self._now)
        if any(loss.end >= begin for loss in others):
            return False  # they were lost together
        return with_driver or not others

    def pattern(self) -> str:
        """Return where runs of several ideas failed in a row, and the last failure; "" if none."""
        ideas = [idea for idea, failed in self._row.items() if failed >= TWICE]
        if len(ideas) < IDEAS:
            return ""
        hosts = ", ".join(sorted(host or "an unknown host" for host in self._hosts))
        count = f"{self._row.total()} trials of {len(self._row)} ideas"
        return f"{hosts}: {count} failed in a row, at last {self._last}"

    def are_scorers(self) -> bool:
        """Return whether the recipe's scorer failed in each run of the row."""
        return self._kinds == {MachineFailure.SCORER}

    def _end_row(self) -> None:
        self._row.clear()
        self._hosts.clear()
        self._kinds.clear()


def is_loss(report: TrialReport) -> bool:
    """Return whether a worker was lost after its start, and nobody is known to have ended it."""
    return (
        isinstance(report.outcome, MachineFailed)
        and report.outcome.failure is MachineFailure.LOST
        and report.usage.started_at < report.usage.ended_at
        and report.usage.slurm_state in _BY_ITSELF
    )
