"""The campaign's state, computed event by event from the journal. Pure: it reads no files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal

from hpcscientist.errors import RunDirectoryError
from hpcscientist.history.entities import IdeaState, Intents, Phase, TrialState
from hpcscientist.history.failure_attribution import Losses
from hpcscientist.records.events import (
    AttemptReviewed,
    AttemptWritten,
    AuthorGaveUp,
    BatchQueued,
    BudgetDecided,
    CampaignEnded,
    CampaignStarted,
    ConfirmationSetAside,
    DriverStarted,
    DriverStopped,
    Event,
    IdeaAdmitted,
    IdeaBriefed,
    IdeaEnded,
    IdeaPlanned,
    IdeaProposed,
    IdeaRevised,
    IdeaSetAside,
    IdeasJudged,
    NoteTaken,
    ProposalsExhausted,
    ReplyRecorded,
    ResultsCompacted,
    RunsRead,
    SeedsDecided,
    SplitSpent,
    TamperingFound,
    TrialEnded,
    TrialQueued,
    TrialStarted,
)
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import Scored, Stage, is_measured

# The progress of a campaign's ideas. Decisions read this part of the state, so that their cost does
# not grow with the number of ended ideas.


@dataclass(slots=True)
class Frontier:
    """The set of numbers that were reached, counted from 1: all up to `low`, and some above."""

    low: int = 0
    high: int = 0  # the largest number reached
    _above: set[int] = field(default_factory=set)

    def __contains__(self, number: int) -> bool:
        """Return whether a number has been reached."""
        return number <= self.low or number in self._above

    def reach(self, number: int) -> None:
        """Add a number. Idempotent."""
        if number <= self.low:
            return
        self._above.add(number)
        self.high = max(self.high, number)
        while self.low + 1 in self._above:
            self.low += 1
            self._above.discard(self.low)

    def withdraw(self, numbers: Iterable[int]) -> None:
        """Remove numbers."""
        gone = {number for number in numbers if number in self}
        if not gone:
            return
        self._above -= gone
        first = min(gone)
        if first <= self.low:
            self._above |= set(range(first + 1, self.low + 1)) - gone
            self.low = first - 1


@dataclass(slots=True)
class IdeasProgress:
    """The progress of a campaign's ideas, by number.

    `open` holds ideas that were proposed and are not over; `aside` those set aside until the next
    driver, after machine failures or because their files are damaged. `over` holds ideas that ended
    or were set aside. `confirming` holds ideas chosen to be confirmed, until their trials ended.
    """

    open: dict[str, int] = field(default_factory=dict)
    aside: dict[str, int] = field(default_factory=dict)
    proposed: Frontier = field(default_factory=Frontier)
    judged: Frontier = field(default_factory=Frontier)  # admitted or rejected
    over: Frontier = field(default_factory=Frontier)
    ended: int = 0  # ideas
    judged_at: int = 0  # ideas that had ended when the findings were last computed
    judged_last: bool = False  # whether that was after the last idea
    confirming: dict[str, None] = field(default_factory=dict)
    reference: dict[str, None] = field(default_factory=dict)  # baseline trials not yet settled
    settled: int = 0  # trials whose result files are no longer read
    _done: Counter[str] = field(default_factory=Counter)  # by open idea: settled trials

    def driver_started(self) -> None:
        """Reopen the ideas that were set aside."""
        self.over.withdraw(self.aside.values())
        self.open = self.aside | self.open
        self.aside = {}

    def idea_proposed(self, idea_id: str, number: int) -> None:
        """Add a proposed idea."""
        self.open[idea_id] = number
        self.proposed.reach(number)

    def idea_judged(self, number: int) -> None:
        """Note that an idea was admitted or rejected."""
        self.judged.reach(number)

    def idea_set_aside(self, idea_id: str, number: int) -> None:
        """Note that an idea waits for the next driver."""
        if self.open.pop(idea_id, None) is not None:
            self.aside[idea_id] = number
            self.over.reach(number)

    def idea_ended(self, idea_id: str, number: int) -> None:
        """Note that an idea ended."""
        self.open.pop(idea_id, None)
        self.aside.pop(idea_id, None)
        self.judged.reach(number)
        self.over.reach(number)
        self.ended += 1
        self.settled += self._done.pop(idea_id, 0)

    def ideas_judged(self, ended: int, improved: Iterable[str], *, last: bool) -> None:
        """Note that findings were computed, and ideas chosen to be confirmed."""
        self.judged_at, self.judged_last = ended, last
        self.confirming.update(dict.fromkeys(improved))

    def trial_settled(self, idea_id: str, *, is_over: bool) -> None:
        """Note a trial's final end; `is_over`: its files are no longer read."""
        if is_over:
            self.settled += 1
        else:
            self._done[idea_id] += 1


@dataclass(slots=True)
class CampaignState:
    """The campaign's state after the events that were applied."""

    campaign_id: str = ""
    ideas: dict[str, IdeaState] = field(default_factory=dict)
    trials: dict[str, TrialState] = field(default_factory=dict)
    full: dict[tuple[str, int], dict[str, TrialState]] = field(default_factory=dict)
    confirming: dict[tuple[str, int], dict[str, TrialState]] = field(default_factory=dict)
    baseline_spent: SplitSpent | None = None
    phases: Counter[Phase] = field(default_factory=Counter)
    running: dict[str, None] = field(default_factory=dict)  # trials
    tampering: list[TamperingFound] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tokens: dict[str, int] = field(default_factory=dict)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cpu_s: float = 0.0
    gpu_s: float = 0.0
    losses: Losses = field(default_factory=Losses)
    intents: Intents = field(default_factory=Intents)
    progress: IdeasProgress = field(default_factory=IdeasProgress)
    used: dict[str, tuple[float, float]] = field(default_factory=dict)  # by idea: CPU, GPU seconds
    generation: int = 0  # of the latest driver
    of_reference: int = 0  # counts changes to baseline trials
    exhausted: int | None = None  # number of the first idea with nothing left to propose
    compacted: int = 0  # trials
    stopped: DriverStopped | None = None
    ended: bool = False

    def apply(self, event: Event) -> None:
        """Apply one event.

        Raises RunDirectoryError when it refers to an idea or a trial that no earlier event
        introduced: then lines of the journal are missing or out of order. So it does where a
        trial's run ends twice, or as another idea's: then a line was changed.
        """
        try:
            self._apply(event)
        except KeyError as error:
            raise RunDirectoryError(
                f"journal.jsonl: {event.key} comes before anything about {error}; lines are "
                "missing or out of order: restore the file from a backup"
            ) from error

    def _apply(self, event: Event) -> None:
        match event:  # trial events first: they are the most frequent
            case TrialQueued() | TrialStarted() | TrialEnded() | BatchQueued():
                self._apply_trial(event)
            case CampaignStarted():
                self.campaign_id = event.campaign_id
            case DriverStarted():
                self.stopped, self.generation = None, event.generation
                self.losses.driver_started()
                self.progress.driver_started()
            case DriverStopped():
                self.stopped = event
                if not event.lets_go:
                    self._requeue()
            case CampaignEnded():
                self.ended = True
            case NoteTaken() | ProposalsExhausted():
                self._apply_note(event)
            case TamperingFound():
                self.tampering.append(event)
            case IdeasJudged():
                chosen = [i for i in event.improved if self.ideas[i].spent is None]
                self.progress.ideas_judged(event.ended, chosen, last=event.last)
            case ResultsCompacted():
                self.compacted = event.trials
            case ReplyRecorded():
                self._apply_reply(event)
            case _:
                self._apply_idea(event)

    def _apply_note(self, event: NoteTaken | ProposalsExhausted) -> None:
        if isinstance(event, NoteTaken):
            self.notes.append(event.text)
            return
        if event.reason not in self.notes:
            self.notes.append(event.reason)
        self.exhausted = min(event.number, self.exhausted or event.number)

    def _apply_reply(self, event: ReplyRecorded) -> None:
        self.prompt_tokens += event.prompt_tokens
        self.completion_tokens += event.completion_tokens
        spent = event.prompt_tokens + event.completion_tokens
        self.tokens[event.idea_id] = self.tokens.get(event.idea_id, 0) + spent

    def _apply_idea(self, event: Event) -> None:
        self._apply_to_idea(event)
        idea = self.ideas.get(getattr(event, "idea_id", ""))
        if idea is not None:
            idea.changes += 1

    def _touch(self, idea_id: str) -> None:
        """Count a change of a trial's idea, so that the idea's next actions are decided again."""
        if idea_id == BASELINE_ID:
            self.of_reference += 1
        elif idea_id in self.ideas:
            self.ideas[idea_id].changes += 1

    def _apply_to_idea(self, event: Event) -> None:
        match event:
            case IdeaProposed():
                self.ideas[event.idea_id] = IdeaState(
                    *(event.idea_id, event.number, event.round, event.title, event.parent_ids),
                    summary=event.summary,
                    knobs=event.knobs,
                    shown=event.shown,
                    idea_hash=event.idea_hash,
                    arm=event.arm,
                    touches=event.changes,
                )
                self.progress.idea_proposed(event.idea_id, event.number)
            case IdeaRevised():
                self.ideas[event.idea_id].revise(event)
            case IdeaAdmitted():
                self._admit(self.ideas[event.idea_id])
            case IdeaPlanned():
                self.ideas[event.idea_id].planned = event
            case IdeaBriefed():
                self.ideas[event.idea_id].briefed = event
            case IdeaSetAside():
                idea = self.ideas[event.idea_id]
                idea.set_aside = event
                self.progress.idea_set_aside(event.idea_id, idea.number)
            case IdeaEnded():
                idea = self.ideas[event.idea_id]
                idea.ended, idea.set_aside = event, None
                idea.notes.clear()  # only people read them from now on
                self.losses.idea_ended(event.idea_id)
                self.progress.idea_ended(event.idea_id, idea.number)
            case SplitSpent(idea_id=idea_id) if idea_id == BASELINE_ID:
                self.baseline_spent = event
            case SplitSpent():
                self.ideas[event.idea_id].spent = event
                self.progress.confirming[event.idea_id] = None
            case ConfirmationSetAside():
                self.ideas[event.idea_id].unconfirmed = event
            case _:
                self._apply_attempt(event)

    def _apply_attempt(self, event: Event) -> None:
        match event:
            case AttemptWritten():
                idea = self.ideas[event.idea_id]
                self._admit(idea)  # the first journal version had no IdeaAdmitted events
                idea.code_hashes[event.attempt] = event.code_hash
                idea.note_hashes[event.attempt] = event.note_hash
                if event.note is not None:
                    idea.notes[event.attempt] = event.note
                if event.only_knobs is not None:
                    idea.only_knobs[event.attempt] = bool(event.only_knobs)
            case AuthorGaveUp():
                self.ideas[event.idea_id].give_up(event)
            case AttemptReviewed():
                self.ideas[event.idea_id].reviews[event.attempt] = event
            case RunsRead():
                self.ideas[event.idea_id].readings[event.number] = event
            case SeedsDecided():
                self.ideas[event.idea_id].decided[event.attempt, event.seeds] = event
            case BudgetDecided():
                self.ideas[event.idea_id].climbed[event.attempt, event.budget] = event

    def _admit(self, idea: IdeaState) -> None:
        idea.admitted = True
        self.progress.idea_judged(idea.number)

    def _requeue(self) -> None:
        for trial_id in list(self.running):
            self._move(self.trials[trial_id], "queued")

    def _move(self, trial: TrialState, phase: Phase) -> None:
        """Change a trial's phase, and keep the counts: they are read at every event of a sweep."""
        self.phases[trial.phase] -= 1
        self.phases[phase] += 1
        trial.phase = phase
        if phase == "running":
            self.running[trial.trial_id] = None
        else:
            self.running.pop(trial.trial_id, None)

    def _apply_trial(self, event: TrialQueued | BatchQueued | TrialStarted | TrialEnded) -> None:
        match event:
            case TrialQueued():
                queued = TrialState(
                    event.trial_id,
                    event.idea_id,
                    event.attempt,
                    event.stage,
                    event.seed,
                    event.run,
                )
                before = self.trials.get(event.trial_id)
                if before is not None:  # an earlier run, lost to a machine failure
                    self.phases[before.phase] -= 1
                    queued.failures, queued.failed_by = before.failures, before.failed_by
                if event.idea_id == BASELINE_ID:
                    self.progress.reference[event.trial_id] = None
                self._touch(event.idea_id)
                self.phases["queued"] += 1
                self.running.pop(event.trial_id, None)
                self.trials[event.trial_id] = queued
                if event.stage in (Stage.BASELINE, Stage.SEEDS):
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
                if trial.idea_id != event.idea_id or trial.ended_in(event.report.run):
                    # The end of another trial is lost then: its idea would have a seed less.
                    raise RunDirectoryError(
                        f"journal.jsonl: {event.key} does not follow from what is before it; a "
                        "line was changed: restore the file from a backup"
                    )
                trial.end(event.report, self.generation, event.at)
                self._touch(event.idea_id)
                self.losses.ended(event.idea_id, event.report)
                scored = isinstance(event.report.outcome, Scored)
                self._move(trial, "scored" if scored else "failed")
                if not trial.infra_failed:
                    self._settle(trial)
                self.intents.ended(event.report.trial_id, event.report.run)
                usage = event.report.usage
                self.cpu_s += usage.cpu_s
                self.gpu_s += usage.gpu_s
                cpu_s, gpu_s = self.used.get(trial.idea_id, (0.0, 0.0))
                self.used[trial.idea_id] = cpu_s + usage.cpu_s, gpu_s + usage.gpu_s
            case BatchQueued():
                self.intents.queued(event)

    def _settle(self, trial: TrialState) -> None:
        """Note a trial's final end, which no rerun follows."""
        self.progress.reference.pop(trial.trial_id, None)
        idea = self.ideas.get(trial.idea_id)
        # The files of baseline reruns and of ended ideas are not read again.
        over = trial.attempt > 1 if idea is None else idea.ended is not None
        self.progress.trial_settled(trial.idea_id, is_over=over)
        if idea is not None and idea.spent is not None and trial.stage is Stage.CONFIRM:
            beside = self.confirming[trial.idea_id, trial.attempt].values()
            settled = sum(t.has_ended and not t.infra_failed for t in beside)
            if settled == len(idea.spent.seeds):
                self.progress.confirming.pop(trial.idea_id, None)

    def in_order(self) -> list[IdeaState]:
        """Return the ideas in the order of their numbers, which may differ from their arrival."""
        return sorted(self.ideas.values(), key=attrgetter("number"))

    def count_trials(self, phase: Phase) -> int:
        """Return how many trials are in a phase."""
        return self.phases[phase]

    def count_ideas(self, status: Literal["scored", "failed", "rejected"]) -> int:
        """Return how many ideas ended with a status."""
        return sum(i.ended is not None and i.ended.status == status for i in self.ideas.values())

    def count_knob_settings(self) -> int:
        """Return how many of a model's ideas only change values of knobs."""
        return sum(i.arm == "model" and bool(i.only_sets_knobs) for i in self.ideas.values())

    def scored_an_idea(self) -> bool:
        """Return whether any trial of an idea was scored; baseline trials do not count."""
        return any(t.phase == "scored" and t.idea_id in self.ideas for t in self.trials.values())

    def scores(self, idea_id: str, attempt: int, metric: str) -> dict[int, float]:
        """Return seed -> value of an attempt's scored full-budget trials on validation."""
        return _scores(self.full.get((idea_id, attempt), {}), metric)

    def test_scores(self, idea_id: str, attempt: int, metric: str) -> dict[int, float]:
        """Return seed -> value of an attempt's scored trials on the test split."""
        return _scores(self.confirming.get((idea_id, attempt), {}), metric)


def _scores(trials: Mapping[str, TrialState], metric: str) -> dict[int, float]:
    return {
        trial.seed: value
        for trial in trials.values()
        if (report := trial.report) is not None
        and isinstance(report.outcome, Scored)
        and is_measured(value := report.outcome.value(metric))
    }


def fold(events: Iterable[Event]) -> CampaignState:
    """Return the state after all of these events."""
    state = CampaignState()
    for event in events:
        state.apply(event)
    return state
