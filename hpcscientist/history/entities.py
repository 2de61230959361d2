"""How trials, ideas and batches stand, as the journal says. Parts of its fold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hpcscientist.records.events import (
    AttemptReviewed,
    AuthorGaveUp,
    BatchQueued,
    BudgetDecided,
    ConfirmationSetAside,
    IdeaBriefed,
    IdeaEnded,
    IdeaPlanned,
    IdeaRevised,
    IdeaSetAside,
    RunsRead,
    SeedsDecided,
    SplitSpent,
)
from hpcscientist.records.idea import Arm, KnobValue
from hpcscientist.records.trial import Intent, MachineFailed, RunId, Stage, TrialReport

Phase = Literal["queued", "running", "scored", "failed"]


@dataclass(slots=True)
class TrialState:
    """The last run of a trial.

    Its report is kept as text: as records it would take several times as much, and of a campaign
    of thousands of trials hardly one is looked at again.
    """

    trial_id: str
    idea_id: str
    attempt: int
    stage: Stage
    seed: int
    run: int
    phase: Phase = "queued"
    driver: int = 0  # the generation that had it started, 0: none has
    infra_failed: bool = False  # the machine failed it
    failures: int = 0  # of the machine, that the generation `failed_by` has to answer for
    failed_by: int = 0
    ended_at: float = 0.0  # seconds since the epoch by the driver's clock: a node's may be wrong
    _report: bytes | None = None

    @property
    def report(self) -> TrialReport | None:
        """How it ended, None before; read anew each time."""
        return None if self._report is None else TrialReport.model_validate_json(self._report)

    @property
    def has_ended(self) -> bool:
        """Whether this run has."""
        return self._report is not None

    def end(self, report: TrialReport, generation: int, at: float = 0.0) -> None:
        """Take note of how it ended, under the driver of a generation, `at` by its clock."""
        self._report = report.model_dump_json().encode()
        self.infra_failed, self.ended_at = isinstance(report.outcome, MachineFailed), at
        # What an earlier driver had started has cost this one nothing.
        if self.infra_failed and not 0 < self.driver < generation:
            self.failures = self.failed_in(generation) + 1
            self.failed_by = generation

    def failed_in(self, generation: int) -> int:
        """Return how often the machine failed it under the driver of a generation."""
        return self.failures if self.failed_by == generation else 0


@dataclass(slots=True)
class IdeaState:
    """An idea, from its proposal to its end."""

    idea_id: str
    number: int
    round: int
    title: str
    parent_ids: tuple[str, ...]
    summary: str = ""
    knobs: dict[str, KnobValue] | None = None
    shown: tuple[str, ...] = ()
    idea_hash: str = ""  # of idea.json, "" where no proposal was usable
    touches: tuple[str, ...] = ()  # names of the reference's code that the proposal writes
    revised: bool = False  # it went back to its proposer
    admitted: bool = False
    planned: IdeaPlanned | None = None
    briefed: IdeaBriefed | None = None
    set_aside: IdeaSetAside | None = None
    code_hashes: dict[int, str] = field(default_factory=dict)
    note_hashes: dict[int, str] = field(default_factory=dict)  # "": version 1 of the journal
    notes: dict[int, str] = field(default_factory=dict)  # while it is open
    only_knobs: dict[int, bool] = field(default_factory=dict)  # whether attempts set knobs alone
    reviews: dict[int, AttemptReviewed] = field(default_factory=dict)
    readings: dict[int, RunsRead] = field(default_factory=dict)
    gave_up: dict[str, str] = field(default_factory=dict)  # task -> reason
    decided: dict[tuple[int, int], SeedsDecided] = field(default_factory=dict)  # attempt, seeds
    climbed: dict[tuple[int, str], BudgetDecided] = field(default_factory=dict)  # attempt, step
    spent: SplitSpent | None = None
    unconfirmed: ConfirmationSetAside | None = None
    ended: IdeaEnded | None = None
    arm: Arm = "model"
    changes: int = 0  # what has been recorded of it and its trials

    @property
    def attempts(self) -> int:
        """How many versions there are."""
        return len(self.code_hashes)

    def revise(self, event: IdeaRevised) -> None:
        """Take note of another proposal in place of one that repeated an earlier idea."""
        self.title, self.summary, self.parent_ids = event.title, event.summary, event.parent_ids
        self.idea_hash, self.touches, self.revised = event.idea_hash, event.changes, True

    @property
    def only_sets_knobs(self) -> bool | None:
        """Whether its code, that of its end or else the latest, differs from the reference by
        values of knobs alone; None where it has none, or an earlier version recorded it.
        """
        ended = self.ended.attempt if self.ended is not None else None
        attempt = ended or max(self.code_hashes, default=0)
        return self.only_knobs.get(attempt)

    def give_up(self, event: AuthorGaveUp) -> None:
        """Take note that a task came to nothing; what was written for it was another's double."""
        self.gave_up[event.task] = event.reason
        self.code_hashes.pop(event.attempt, None)
        self.note_hashes.pop(event.attempt, None)
        self.notes.pop(event.attempt, None)
        self.only_knobs.pop(event.attempt, None)

    def left_short(self, attempt: int) -> str | None:
        """Say why an attempt was left below the full budget, or with fewer seeds than it might
        have had; None if it was not.
        """
        reasons = [
            e.reason for e in self.climbed.values() if e.attempt == attempt and not e.goes_on
        ]
        reasons += [e.reason for e in self.decided.values() if e.attempt == attempt and e.given_up]
        return reasons[-1] if reasons else None

    @property
    def left(self) -> BudgetDecided | None:
        """Where an idea was left below the full budget: it ended scored, and has no value."""
        if self.ended is None or self.ended.status != "scored":
            return None
        steps = (e for (attempt, _), e in self.climbed.items() if attempt == self.ended.attempt)
        return next((event for event in steps if not event.goes_on), None)


@dataclass(slots=True)
class Intents:
    """The batches that drivers meant to submit and of which not all runs have ended; each run is in
    the one it was queued in last.
    """

    _batches: dict[str, Intent] = field(default_factory=dict)
    _left: dict[str, int] = field(default_factory=dict)  # by batch: runs that have not ended
    _of: dict[RunId, str] = field(default_factory=dict)

    def queued(self, event: BatchQueued) -> None:
        """Take note of a batch. What is queued again was not queued before, or was lost unbegun."""
        self._batches[event.batch_id] = Intent(event.batch_id, event.elements)
        for run in (run for element in event.elements for run in element):
            self._leave(run)
            self._of[run] = event.batch_id
            self._left[event.batch_id] = self._left.get(event.batch_id, 0) + 1

    def ended(self, trial_id: str, run: int) -> None:
        """Take note of a run's end."""
        if self._of:
            self._leave(RunId(trial_id=trial_id, run=run))

    def open(self) -> list[Intent]:
        """Return them, the earliest first."""
        return list(self._batches.values())

    def _leave(self, run: RunId) -> None:
        batch_id = self._of.pop(run, None)
        if batch_id is not None:
            self._left[batch_id] -= 1
            if not self._left[batch_id]:
                del self._batches[batch_id], self._left[batch_id]
