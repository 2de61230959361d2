"""The state of single trials, ideas and batches: parts of the campaign's state."""

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
    """The state of a trial's last run.

    Its report is kept as JSON text: as records it would take several times the memory, and of
    thousands of trials hardly one report is read again.
    """

    trial_id: str
    idea_id: str
    attempt: int
    stage: Stage
    seed: int
    run: int
    phase: Phase = "queued"
    driver: int = 0  # generation of the driver that started it, 0: not started
    infra_failed: bool = False  # it ended in a machine failure
    failures: int = 0  # machine failures that count against the retries of `failed_by`
    failed_by: int = 0
    ended_at: float = 0.0  # seconds since the epoch by the driver's clock: a node's may be wrong
    _report: bytes | None = None

    @property
    def report(self) -> TrialReport | None:
        """The run's report, None before its end; parsed again at each access."""
        return None if self._report is None else TrialReport.model_validate_json(self._report)

    @property
    def has_ended(self) -> bool:
        """Return whether this run has ended."""
        return self._report is not None

    def ended_in(self, run: int) -> bool:
        """Return whether this is the run of this number, and it has ended."""
        return self.has_ended and self.run == run

    def end(self, report: TrialReport, generation: int, at: float = 0.0) -> None:
        """Store the run's report; `generation` is the current driver's, `at` its clock's time."""
        self._report = report.model_dump_json().encode()
        self.infra_failed, self.ended_at = isinstance(report.outcome, MachineFailed), at
        # A run that an earlier driver started costs this driver no retry.
        if self.infra_failed and not 0 < self.driver < generation:
            self.failures = self.failed_in(generation) + 1
            self.failed_by = generation

    def failed_in(self, generation: int) -> int:
        """Return the number of machine failures under the driver of a generation."""
        return self.failures if self.failed_by == generation else 0


@dataclass(slots=True)
class IdeaState:
    """The state of an idea, from its proposal to its end."""

    idea_id: str
    number: int
    round: int
    title: str
    parent_ids: tuple[str, ...]
    summary: str = ""
    knobs: dict[str, KnobValue] | None = None
    shown: tuple[str, ...] = ()
    idea_hash: str = ""  # of idea.json, "" where no proposal was usable
    touches: tuple[str, ...] = ()  # names in the reference code that the proposal mentions
    revised: bool = False  # a look-alike that got another proposal
    admitted: bool = False
    planned: IdeaPlanned | None = None
    briefed: IdeaBriefed | None = None
    set_aside: IdeaSetAside | None = None
    code_hashes: dict[int, str] = field(default_factory=dict)
    note_hashes: dict[int, str] = field(default_factory=dict)  # "": version 1 of the journal
    notes: dict[int, str] = field(default_factory=dict)  # only while the idea is open
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
    changes: int = 0  # counts events about the idea and its trials

    @property
    def attempts(self) -> int:
        """The number of versions."""
        return len(self.code_hashes)

    def revise(self, event: IdeaRevised) -> None:
        """Replace the proposal, which repeated an earlier idea."""
        self.title, self.summary, self.parent_ids = event.title, event.summary, event.parent_ids
        self.idea_hash, self.touches, self.revised = event.idea_hash, event.changes, True

    @property
    def only_sets_knobs(self) -> bool | None:
        """Return whether its code differs from the reference code only in values of knobs.

        Its code is the final attempt's, else the latest. None if it has no code, or if an earlier
        version of the package recorded it.
        """
        ended = self.ended.attempt if self.ended is not None else None
        attempt = ended or max(self.code_hashes, default=0)
        return self.only_knobs.get(attempt)

    def give_up(self, event: AuthorGaveUp) -> None:
        """Note that a task was given up, and drop its version, a duplicate, if it has one."""
        self.gave_up[event.task] = event.reason
        self.code_hashes.pop(event.attempt, None)
        self.note_hashes.pop(event.attempt, None)
        self.notes.pop(event.attempt, None)
        self.only_knobs.pop(event.attempt, None)

    def left_short(self, attempt: int) -> str | None:
        """Return why an attempt stopped below the full budget, or before all seeds, else None."""
        reasons = [
            e.reason for e in self.climbed.values() if e.attempt == attempt and not e.goes_on
        ]
        reasons += [e.reason for e in self.decided.values() if e.attempt == attempt and e.given_up]
        return reasons[-1] if reasons else None

    @property
    def left(self) -> BudgetDecided | None:
        """The decision that stopped a scored idea below the full budget, so that it has no value;
        None for any other idea.
        """
        if self.ended is None or self.ended.status != "scored":
            return None
        steps = (e for (attempt, _), e in self.climbed.items() if attempt == self.ended.attempt)
        return next((event for event in steps if not event.goes_on), None)


@dataclass(slots=True)
class Intents:
    """The batches that drivers intended to submit and that have open runs. A run belongs to the
    batch in which it was last queued.
    """

    _batches: dict[str, Intent] = field(default_factory=dict)
    _left: dict[str, int] = field(default_factory=dict)  # by batch: number of open runs
    _of: dict[RunId, str] = field(default_factory=dict)

    def queued(self, event: BatchQueued) -> None:
        """Add a batch. A run that is queued again was never queued, or was lost before it began."""
        self._batches[event.batch_id] = Intent(event.batch_id, event.elements)
        for run in (run for element in event.elements for run in element):
            self._leave(run)
            self._of[run] = event.batch_id
            self._left[event.batch_id] = self._left.get(event.batch_id, 0) + 1

    def ended(self, trial_id: str, run: int) -> None:
        """Note a run's end."""
        if self._of:
            self._leave(RunId(trial_id=trial_id, run=run))

    def open(self) -> list[Intent]:
        """Return the open batches, the earliest first."""
        return list(self._batches.values())

    def _leave(self, run: RunId) -> None:
        batch_id = self._of.pop(run, None)
        if batch_id is not None:
            self._left[batch_id] -= 1
            if not self._left[batch_id]:
                del self._batches[batch_id], self._left[batch_id]
