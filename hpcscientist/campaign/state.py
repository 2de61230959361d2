"""The campaign's state: a fold over the journal. Pure; reads and writes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic_core import to_json

from hpcscientist.campaign.intents import Intents
from hpcscientist.campaign.losses import Losses
from hpcscientist.errors import RunDirectoryError
from hpcscientist.records.events import (
    AttemptReviewed,
    AttemptWritten,
    AuthorGaveUp,
    BatchQueued,
    BudgetDecided,
    CampaignEnded,
    CampaignStarted,
    DriverStarted,
    DriverStopped,
    Event,
    IdeaAdmitted,
    IdeaEnded,
    IdeaPlanned,
    IdeaProposed,
    IdeaSetAside,
    NoteTaken,
    ProposalsExhausted,
    ReplyRecorded,
    ResultsCompacted,
    RunsRead,
    SeedsDecided,
    SplitSpent,
    TrialEnded,
    TrialQueued,
    TrialStarted,
)
from hpcscientist.records.idea import BASELINE_ID, Arm, KnobValue
from hpcscientist.records.outcome import MachineFailed, Scored, is_measured
from hpcscientist.records.trial import Stage, TrialReport

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
    queued_by: int  # the generation that queued this run
    phase: Phase = "queued"
    driver: int = 0  # the generation that had it started, 0: none has
    spoilt: bool = False  # the machine failed it
    _report: bytes | None = None

    @property
    def report(self) -> TrialReport | None:
        """How it ended, None before; read anew each time."""
        return None if self._report is None else TrialReport.model_validate_json(self._report)

    def end(self, report: TrialReport) -> None:
        """Take note of how it ended."""
        # Numbers that are none too: a metric may be NaN, which no JSON holds.
        self._report = to_json(report.model_dump(), inf_nan_mode="constants")
        self.spoilt = isinstance(report.outcome, MachineFailed)


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
    admitted: bool = False
    planned: IdeaPlanned | None = None
    set_aside: IdeaSetAside | None = None
    attempts: int = 0
    code_hashes: dict[int, str] = field(default_factory=dict)
    note_hashes: dict[int, str] = field(default_factory=dict)  # "": version 1 of the journal
    reviews: dict[int, AttemptReviewed] = field(default_factory=dict)
    readings: dict[int, RunsRead] = field(default_factory=dict)
    gave_up: dict[str, str] = field(default_factory=dict)  # task -> reason
    decided: dict[tuple[int, int], SeedsDecided] = field(default_factory=dict)  # attempt, seeds
    climbed: dict[tuple[int, str], BudgetDecided] = field(default_factory=dict)  # attempt, step
    spent: SplitSpent | None = None
    ended: IdeaEnded | None = None
    arm: Arm = "model"

    @property
    def left(self) -> BudgetDecided | None:
        """Where an idea was left below the full budget: it ended scored, and has no value."""
        if self.ended is None or self.ended.status != "scored":
            return None
        steps = (e for (attempt, _), e in self.climbed.items() if attempt == self.ended.attempt)
        return next((event for event in steps if not event.goes_on), None)


@dataclass(slots=True)
class CampaignState:
    """Everything the journal says."""

    campaign_id: str = ""
    ideas: dict[str, IdeaState] = field(default_factory=dict)
    trials: dict[str, TrialState] = field(default_factory=dict)
    full: dict[tuple[str, int], dict[str, TrialState]] = field(default_factory=dict)
    confirming: dict[tuple[str, int], dict[str, TrialState]] = field(default_factory=dict)
    baseline_spent: SplitSpent | None = None
    phases: Counter[Phase] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    tokens: dict[str, int] = field(default_factory=dict)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cpu_s: float = 0.0
    gpu_s: float = 0.0
    losses: Losses = field(default_factory=Losses)
    intents: Intents = field(default_factory=Intents)
    used: dict[str, tuple[float, float]] = field(default_factory=dict)  # by idea: CPU, GPU seconds
    generation: int = 0  # of the latest driver
    exhausted: int | None = None  # the first idea for which nothing is left to propose
    compacted: int = 0  # trials
    stopped: DriverStopped | None = None
    ended: bool = False

    def apply(self, event: Event) -> None:
        """Take one event in.

        Raises RunDirectoryError when it speaks of an idea or a trial that no earlier event
        has named: then lines are missing from the journal, or in another order.
        """
        try:
            self._apply(event)
        except KeyError as error:
            raise RunDirectoryError(
                f"journal.jsonl: {event.key} comes before anything about {error}; lines are "
                "missing or out of order: restore the file from a backup"
            ) from error

    def _apply(self, event: Event) -> None:
        match event:
            case CampaignStarted():
                self.campaign_id = event.campaign_id
            case DriverStarted():
                self.stopped, self.generation = None, event.generation
                self.losses.driver_started()
            case DriverStopped():
                self.stopped = event
                if not event.lets_go:
                    self._requeue()
            case CampaignEnded():
                self.ended = True
            case NoteTaken():
                self.notes.append(event.text)
            case ProposalsExhausted():
                if event.reason not in self.notes:
                    self.notes.append(event.reason)
                self.exhausted = min(event.number, self.exhausted or event.number)
            case ResultsCompacted():
                self.compacted = event.trials
            case ReplyRecorded():
                self.prompt_tokens += event.prompt_tokens
                self.completion_tokens += event.completion_tokens
                spent = event.prompt_tokens + event.completion_tokens
                self.tokens[event.idea_id] = self.tokens.get(event.idea_id, 0) + spent
            case TrialQueued() | BatchQueued() | TrialStarted() | TrialEnded():
                self._apply_trial(event)
            case _:
                self._apply_idea(event)

    def _apply_idea(self, event: Event) -> None:
        match event:
            case IdeaProposed():
                self.ideas[event.idea_id] = IdeaState(
                    *(event.idea_id, event.number, event.round, event.title, event.parent_ids),
                    summary=event.summary,
                    knobs=event.knobs,
                    shown=event.shown,
                    idea_hash=event.idea_hash,
                    arm=event.arm,
                )
            case IdeaAdmitted():
                self.ideas[event.idea_id].admitted = True
            case IdeaPlanned():
                self.ideas[event.idea_id].planned = event
            case IdeaSetAside():
                self.ideas[event.idea_id].set_aside = event
            case IdeaEnded():
                idea = self.ideas[event.idea_id]
                idea.ended, idea.set_aside = event, None
                self.losses.idea_ended(event.idea_id)
            case SplitSpent(idea_id=idea_id) if idea_id == BASELINE_ID:
                self.baseline_spent = event
            case SplitSpent():
                self.ideas[event.idea_id].spent = event
            case _:
                self._apply_attempt(event)

    def _apply_attempt(self, event: Event) -> None:
        match event:
            case AttemptWritten():
                idea = self.ideas[event.idea_id]
                idea.admitted = True  # which the first version of the journal did not say
                idea.code_hashes[event.attempt] = event.code_hash
                idea.note_hashes[event.attempt] = event.note_hash
                idea.attempts = len(idea.code_hashes)
            case AuthorGaveUp():
                self.ideas[event.idea_id].gave_up[event.task] = event.reason
            case AttemptReviewed():
                self.ideas[event.idea_id].reviews[event.attempt] = event
            case RunsRead():
                self.ideas[event.idea_id].readings[event.number] = event
            case SeedsDecided():
                self.ideas[event.idea_id].decided[event.attempt, event.seeds] = event
            case BudgetDecided():
                self.ideas[event.idea_id].climbed[event.attempt, event.budget] = event

    def _requeue(self) -> None:
        for trial in self.trials.values():
            if trial.phase == "running":
                self._move(trial, "queued")

    def _move(self, trial: TrialState, phase: Phase) -> None:
        """Counted as it changes: asked at every event of a sweep, a count must cost nothing."""
        self.phases[trial.phase] -= 1
        self.phases[phase] += 1
        trial.phase = phase

    def _apply_trial(self, event: TrialQueued | BatchQueued | TrialStarted | TrialEnded) -> None:
        match event:
            case BatchQueued():
                self.intents.queued(event)
            case TrialQueued():
                queued = TrialState(
                    event.trial_id,
                    event.idea_id,
                    event.attempt,
                    event.stage,
                    event.seed,
                    event.run,
                    event.generation,
                )
                before = self.trials.get(event.trial_id)
                if before is not None:  # an earlier run, which the machine failed
                    self.phases[before.phase] -= 1
                self.phases["queued"] += 1
                self.trials[event.trial_id] = queued
                if event.stage in (Stage.BASELINE, Stage.SEARCH):
                    attempt = self.full.setdefault((event.idea_id, event.attempt), {})
                    attempt[event.trial_id] = queued
                elif event.stage is Stage.CONFIRM:
                    attempt = self.confirming.setdefault((event.idea_id, event.attempt), {})
                    attempt[event.trial_id] = queued
            case TrialStarted():
                trial = self.trials[event.trial_id]
                trial.driver = event.generation
                self._move(trial, "running")
                self.losses.started(event.trial_id)
            case TrialEnded():
                trial = self.trials[event.report.trial_id]
                trial.end(event.report)
                self.losses.ended(event.idea_id, event.report)
                scored = isinstance(event.report.outcome, Scored)
                self._move(trial, "scored" if scored else "failed")
                self.intents.ended(event.report.trial_id, event.report.run)
                usage = event.report.usage
                self.cpu_s += usage.cpu_s
                self.gpu_s += usage.gpu_s
                cpu_s, gpu_s = self.used.get(trial.idea_id, (0.0, 0.0))
                self.used[trial.idea_id] = cpu_s + usage.cpu_s, gpu_s + usage.gpu_s

    def count_trials(self, phase: Phase) -> int:
        """How many trials are in a phase."""
        return self.phases[phase]

    def count_ideas(self, status: Literal["scored", "failed", "rejected"]) -> int:
        """How many ideas ended with a status."""
        return sum(i.ended is not None and i.ended.status == status for i in self.ideas.values())

    def scored_an_idea(self) -> bool:
        """Whether any trial of an idea was scored; the baseline's do not count."""
        return any(t.phase == "scored" and t.idea_id in self.ideas for t in self.trials.values())

    def scores(self, idea_id: str, attempt: int, metric: str) -> dict[int, float]:
        """Return seed -> value of an attempt's full trials on validation that were scored."""
        return _scores(self.full.get((idea_id, attempt), {}), metric)

    def test_scores(self, idea_id: str, attempt: int, metric: str) -> dict[int, float]:
        """Return seed -> value of an attempt's trials on the test split that were scored."""
        return _scores(self.confirming.get((idea_id, attempt), {}), metric)


def _scores(trials: Mapping[str, TrialState], metric: str) -> dict[int, float]:
    return {
        trial.seed: value
        for trial in trials.values()
        if (report := trial.report) is not None
        and isinstance(report.outcome, Scored)
        and is_measured(value := report.outcome.metrics[metric])
    }


def fold(events: Iterable[Event]) -> CampaignState:
    """Fold a journal into its state."""
    state = CampaignState()
    for event in events:
        state.apply(event)
    return state
