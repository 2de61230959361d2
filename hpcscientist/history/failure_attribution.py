"""Whose doing it is that workers are lost: an idea's, or the machine's. Pure, as the fold is.

A candidate without a sandbox may kill or stop its worker, those of others and the driver. So one
lost worker says nothing. Its trial is run again with nothing beside it, and what is lost then once
more is the doing of that idea's code, while no other idea of the same host waits to be seen to
run again. What is lost across ideas is the host's doing: once several ideas in a row have lost
runs twice, with none that ended well anywhere, the campaign stops and says where and why.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hpcscientist.records.trial import MachineFailed, MachineFailure, TrialReport

TWICE = 2  # so many losses of a trial tell, and so many failed runs of an idea
IDEAS = 3  # that failed like that in a row, before the machine is said to

_NOBODYS = (MachineFailure.PREEMPTED, MachineFailure.CANCELLED, MachineFailure.TAMPERED)
_BY_ITSELF = (None, "", "FAILED", "COMPLETED")  # Slurm's states of a task that nobody ended


@dataclass(frozen=True, slots=True)
class _Loss:
    """A run that was lost: from which event to which."""

    idea_id: str
    begin: int
    end: int


@dataclass(slots=True)
class Losses:
    """What the machine lost, by host, and how often in a row it failed ideas."""

    _now: int = 0
    _begun: dict[str, int] = field(default_factory=dict)  # by trial: the event of its run's start
    _of_trial: Counter[str] = field(default_factory=Counter)
    _open: dict[str, dict[str, _Loss]] = field(default_factory=dict)  # by host and idea
    _row: Counter[str] = field(default_factory=Counter)  # by idea: failed runs since the last good
    _hosts: Counter[str] = field(default_factory=Counter)  # of the same runs
    _last: str = ""  # the last of them, and why it failed

    def driver_started(self) -> None:
        """A driver that takes up the campaign gives the machine another chance."""
        self._row.clear()
        self._hosts.clear()

    def started(self, trial_id: str) -> None:
        """Take note that a run of a trial is under way."""
        self._now += 1
        self._begun[trial_id] = self._now

    def of(self, trial_id: str) -> int:
        """Return how many runs of a trial were lost."""
        return self._of_trial[trial_id]

    def ended(self, idea_id: str, report: TrialReport) -> None:
        """Take note of how a run ended."""
        self._now += 1
        host, outcome = report.usage.node, report.outcome
        begin = self._begun.pop(report.trial_id, self._now)
        if not isinstance(outcome, MachineFailed):
            self._open.get(host, {}).pop(idea_id, None)
            self._row.clear()
            self._hosts.clear()
            return
        if outcome.failure not in _NOBODYS:
            self._row[idea_id] += 1
            self._hosts[host] += 1
            self._last = f"{report.trial_id} ({outcome.failure.value}: {outcome.detail})"
        if is_loss(report):
            self._of_trial[report.trial_id] += 1
            self._open.setdefault(host, {})[idea_id] = _Loss(idea_id, begin, self._now)

    def idea_ended(self, idea_id: str) -> None:
        """An idea that has ended says nothing about the machine any more."""
        for losses in self._open.values():
            losses.pop(idea_id, None)

    def are_its_own_doing(self, idea_id: str, report: TrialReport, with_driver: bool) -> bool:
        """Tell whether a run that was lost now was lost for the idea's own code.

        `with_driver`: the driver was lost with it, so that nobody could run the others again.
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
        """Say where runs of several ideas fail in a row, and why the last, "" where they do not."""
        ideas = [idea for idea, failed in self._row.items() if failed >= TWICE]
        if len(ideas) < IDEAS:
            return ""
        hosts = ", ".join(sorted(host or "an unknown host" for host in self._hosts))
        count = f"{self._row.total()} trials of {len(self._row)} ideas"
        return f"{hosts}: {count} failed in a row, at last {self._last}"


def is_loss(report: TrialReport) -> bool:
    """Tell whether a worker was lost after it had begun, by nobody's order that is known."""
    return (
        isinstance(report.outcome, MachineFailed)
        and report.outcome.failure is MachineFailure.LOST
        and report.usage.started_at < report.usage.ended_at
        and report.usage.slurm_state in _BY_ITSELF
    )
