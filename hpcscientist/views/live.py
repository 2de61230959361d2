"""Follows a running campaign by reading its files only, so the driver is not disturbed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from hpcscientist.confirmation.outcomes import confirmed
from hpcscientist.execution import presence
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import printable
from hpcscientist.history import frozen, journal, status
from hpcscientist.history.state import CampaignState
from hpcscientist.history.status import Waiting, read_holder, read_state
from hpcscientist.judgement.findings import campaign_findings
from hpcscientist.launching.jobs.tail import JournalTail
from hpcscientist.models.serving.lease import plane_state
from hpcscientist.models.serving.order import ServingPaths
from hpcscientist.recipe.folder_copy import LaunchedRecipe
from hpcscientist.records.events import Event
from hpcscientist.records.findings import Comparison, Verdict
from hpcscientist.records.trial import Direction, Stage, index_of
from hpcscientist.views.timeline import Timeline, TrialSpan

_WINDOW_S: Final = 120.0  # window of the tokens per second
_LATELY: Final = 20  # latest ideas whose pace estimates the end
_SHOWN: Final = 50  # trials whose node is looked up
_SHARE: Final = 20.0  # judging takes at most one twentieth of the time


@dataclass(frozen=True, slots=True)
class Running:
    """A running trial: its node, its run time so far and its time limit, in seconds."""

    trial_id: str
    node: str
    since_s: float
    limit_s: float


@dataclass(frozen=True, slots=True)
class LiveLeader:
    """The best improvement by its difference to the baseline; `confirmed` is None if untested."""

    idea_id: str
    title: str
    comparison: Comparison
    confirmed: bool | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A campaign at one moment, in seconds, hours and counts.

    `end_s` is the estimated time left, or None. `plane` is the state of the model servers, "" if
    there are none. `improved` and `confirmed` are as of the last judging, as is `best`.
    """

    campaign_id: str
    state: str
    model: str
    metric: str
    elapsed_s: float
    end_s: float | None
    planned: int
    ideas: Counter[str]
    trials: Counter[str]
    improved: int
    confirmed: int
    running: tuple[Running, ...]
    waiting: Waiting | None
    oldest_wait_s: float | None
    best: LiveLeader | None
    failures: tuple[TrialSpan, ...]
    tokens: int
    tokens_a_second: float
    cpu_hours: float
    gpu_hours: float
    plane: str
    note: str


@dataclass
class LiveFollower:
    """A follower of one campaign; each look reads only what was appended to the journal since.

    Raises NoRunDirectory, RunDirectoryError.
    """

    paths: RunPaths
    clock: Callable[[], float] = time.time
    _tail: JournalTail = field(init=False)
    _timeline: Timeline = field(init=False)
    _state: CampaignState | None = None
    _best: LiveLeader | None = None
    _improved: int = 0
    _confirmed: int = 0
    _judged: tuple[int, int] = (-1, -1)
    _judge_at: float = 0.0

    def __post_init__(self) -> None:
        self._config = frozen.read(self.paths)
        recipe = LaunchedRecipe(self.paths.recipe, self._config.recipe_hash).load()
        self._recipe = recipe.spec
        read_state(self.paths)  # raises for a bad folder before anything is drawn
        self._tail = JournalTail(self.paths.journal)
        self._timeline = Timeline(self._recipe.primary.name)

    def look(self) -> Snapshot:
        """Return the campaign as it is now."""
        self._read()
        state, timeline, now = self._tail.state, self._timeline, self.clock()
        holder = read_holder(self.paths.lock)
        is_driven = holder is not None and bool(holder["alive"])
        self._rank(state, now)
        begun = timeline.first or now
        until = now if is_driven else (timeline.last or now)
        running = self._running(now) if is_driven else ()
        queued = [s.queued for s in timeline.open() if s.phase == "queued"] if is_driven else []
        lasting = timeline.replies_since(now - _WINDOW_S)
        ended = {kind: state.count_ideas(kind) for kind in ("scored", "failed", "rejected")}
        return Snapshot(
            campaign_id=state.campaign_id or self._config.campaign_id,
            state=_phase(state, is_driven=is_driven),
            model=printable(self._config.model_name),
            metric=self._recipe.primary.name,
            elapsed_s=max(0.0, until - begun),
            end_s=self._end(now) if is_driven else None,
            planned=self._config.settings.ideas,
            ideas=Counter(ended | {"open": len(state.ideas) - sum(ended.values())}),
            trials=Counter(
                {p: state.count_trials(p) for p in ("queued", "running", "scored", "failed")}
            ),
            improved=self._improved,
            confirmed=self._confirmed,
            running=running,
            waiting=status.read_waiting(self.paths) if is_driven else None,
            oldest_wait_s=now - min(queued) if queued else None,
            best=self._best,
            failures=tuple(timeline.failed),
            tokens=state.prompt_tokens + state.completion_tokens,
            tokens_a_second=sum(r.written for r in lasting) / _WINDOW_S,
            cpu_hours=state.cpu_s / 3600,
            gpu_hours=state.gpu_s / 3600,
            plane=plane_state(ServingPaths(self.paths.serving)) if is_driven else "",
            note=printable(state.notes[-1]) if state.notes else "",
        )

    def _read(self) -> None:
        def observe(event: Event) -> None:
            self._timeline.take(event, self._tail.time)

        self._tail.read(observe)
        if self._state is not None and self._tail.state is not self._state:
            # The journal lost a line, so the tail has read all of it again.
            self._timeline = Timeline(self._recipe.primary.name)
            for line in journal.lines(self.paths.journal):
                self._timeline.take(line.event, line.t)
        self._state = self._tail.state

    def _rank(self, state: CampaignState, now: float) -> None:
        """Judge again if ideas or confirming trials may have ended, but not too often."""
        seen = state.progress.ended, sum(map(len, state.confirming.values()))
        if (seen == self._judged and not state.confirming) or now < self._judge_at:
            return
        begun = time.monotonic()
        objective, settings = self._recipe.objective, self._config.settings
        judged = campaign_findings(state, objective, settings, seeds=self._recipe.seeds)
        told = confirmed(state, objective, settings.loop.q)
        improved = {i: f for i, f in judged.items() if f.verdict is Verdict.IMPROVEMENT}
        outcomes = {i: told[i].confirmation for i in improved if i in told}
        held = {i for i, outcome in outcomes.items() if outcome is not None and outcome.confirmed}
        sign = 1 if objective.primary.direction is Direction.MAXIMIZE else -1
        best = max(
            improved, key=lambda i: (i in held, sign * improved[i].comparison.delta), default=None
        )
        self._improved, self._confirmed, self._judged = len(improved), len(held), seen
        outcome = outcomes.get(best) if best is not None else None
        self._best = None  # an earlier leader may be no improvement any more
        if best is not None:
            self._best = LiveLeader(
                idea_id=best,
                title=printable(state.ideas[best].title),
                comparison=improved[best].comparison,
                confirmed=outcome.confirmed if outcome is not None else None,
            )
        self._judge_at = now + _SHARE * (time.monotonic() - begun)

    def _running(self, now: float) -> tuple[Running, ...]:
        steps = [step.seconds for step in self._recipe.budgets.steps]
        found: list[Running] = []
        spans = sorted(
            (span for span in self._timeline.open() if span.phase == "running"),
            key=lambda span: span.started or span.queued,
        )
        for span in spans:
            limit_s = self._recipe.budgets.full.seconds
            if span.stage is Stage.PILOT:
                limit_s = self._recipe.budgets.pilot.seconds
            elif span.stage is Stage.STEP:
                limit_s = steps[index_of(span.trial_id)]
            found.append(
                Running(
                    trial_id=span.trial_id,
                    node=self._node(span.trial_id) if len(found) < _SHOWN else "",
                    since_s=max(0.0, now - (span.started or now)),
                    limit_s=limit_s,
                )
            )
        return tuple(found)

    def _node(self, trial_id: str) -> str:
        """Return the host of the worker that runs a trial; "" if unknown."""
        worker = presence.read(self.paths.trial(trial_id))
        return printable(worker.host) if worker else ""

    def _end(self, now: float) -> float | None:
        """Return the estimated seconds until the end, by the pace of the latest ideas, or None."""
        ended = sorted(self._timeline.ended.values())
        left = self._config.settings.ideas - len(ended)
        if len(ended) < 2 or left <= 0:
            return None
        lately = ended[-_LATELY:]
        before = (
            ended[-_LATELY - 1] if len(ended) > _LATELY else (self._timeline.first or lately[0])
        )
        # Measure until now, not until the last end, so that the estimate grows if ideas stall.
        return left * (now - before) / len(lately)


def _phase(state: CampaignState, *, is_driven: bool) -> str:
    if state.ended:
        return "finished"
    if is_driven:
        return "running"
    return "failed" if state.stopped is not None and state.stopped.failed else "stopped"
