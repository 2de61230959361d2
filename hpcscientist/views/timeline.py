"""Records when and where everything happened, from the journal's events and their times.

Decisions are made from `history.state`, which keeps no times.
"""

from __future__ import annotations

import heapq
from bisect import bisect
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from hpcscientist.records.events import (
    AttemptWritten,
    DriverStarted,
    DriverStopped,
    Event,
    IdeaEnded,
    IdeaProposed,
    PlaneStarted,
    PlaneStopped,
    ReplyRecorded,
    TrialEnded,
    TrialQueued,
    TrialStarted,
)
from hpcscientist.records.idea import AttemptKind
from hpcscientist.records.trial import IdeaFailed, MachineFailed, Scored, Stage, Usage, is_measured

Phase = Literal["queued", "running", "scored", "idea_failed", "machine_failed", "stopped"]
_FAILED: Final = 20
_CLOCKS_S: Final = 120.0  # largest error of a node's clock; beyond it, the driver's clock counts


@dataclass(frozen=True, slots=True)
class TrialSpan:
    """One run of a trial. Times are seconds since the epoch, or None if not reached.

    `started` is by the node's clock if that agrees with the driver's. The phase "stopped" means
    that the driver ended first. `cause` and `detail` say why the run failed. `value` is that of
    the primary metric.
    """

    trial_id: str
    run: int
    idea_id: str
    attempt: int
    stage: Stage
    seed: int
    queued: float
    started: float | None = None
    ended: float | None = None
    phase: Phase = "queued"
    cause: str = ""
    detail: str = ""
    node: str = ""
    job: str = ""
    cpu_s: float = 0.0
    gpu_s: float = 0.0
    peak_mb: float = 0.0
    value: float | None = None

    @property
    def wait_s(self) -> float | None:
        """Seconds in the queue; None while the run waits."""
        return None if self.started is None else max(0.0, self.started - self.queued)

    @property
    def run_s(self) -> float | None:
        """Seconds of run time; None until the run has ended."""
        if self.started is None or self.ended is None:
            return None
        return max(0.0, self.ended - self.started)


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply. `at` is its arrival in seconds since the epoch, `seconds` its latency."""

    at: float
    seconds: float
    idea_id: str
    role: str
    stage: str
    read: int
    written: int


@dataclass(frozen=True, slots=True)
class AttemptMade:
    """An attempt of an idea, with its parent, its kind and the time it was written."""

    number: int
    parent: int
    kind: AttemptKind
    at: float


@dataclass(frozen=True, slots=True)
class Period:
    """A period in seconds since the epoch; `end` is None if it goes on or its end is unknown."""

    begin: float
    end: float | None
    what: str


@dataclass(slots=True)
class Timeline:
    """The times of a campaign's events. `metric` is the name of the primary metric."""

    metric: str
    spans: dict[tuple[str, int], TrialSpan] = field(default_factory=dict)
    replies: list[Reply] = field(default_factory=list)
    proposed: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    attempts: dict[str, list[AttemptMade]] = field(default_factory=dict)
    drivers: list[Period] = field(default_factory=list)
    planes: list[Period] = field(default_factory=list)
    failed: deque[TrialSpan] = field(default_factory=lambda: deque(maxlen=_FAILED))  # latest ones
    first: float | None = None
    last: float | None = None
    _open: dict[tuple[str, int], None] = field(default_factory=dict)  # runs without an end

    def take(self, event: Event, at: float) -> None:
        """Apply an event that was recorded at `at`, in seconds since the epoch."""
        self.first = at if self.first is None else self.first
        self.last = at
        match event:
            case TrialQueued() | TrialStarted() | TrialEnded():
                self._take_trial(event, at)
            case ReplyRecorded():
                stage = event.call.partition("/")[0]
                self.replies.append(
                    Reply(
                        at=at,
                        seconds=event.latency_s,
                        idea_id=event.idea_id,
                        role=event.role,
                        stage=stage,
                        read=event.prompt_tokens,
                        written=event.completion_tokens,
                    )
                )
            case IdeaProposed():
                self.proposed[event.idea_id] = at
            case AttemptWritten():
                made = AttemptMade(event.attempt, event.parent, event.kind, at)
                self.attempts.setdefault(event.idea_id, []).append(made)
            case IdeaEnded():
                self.ended[event.idea_id] = at
            case DriverStarted():
                self._close(self.drivers, at)
                self.drivers.append(Period(at, None, event.host))
            case DriverStopped():
                self._close(self.drivers, at)
                if not event.lets_go:
                    self._stop(at)
            case PlaneStarted():
                self._close(self.planes, at)
                self.planes.append(Period(event.time, None, ", ".join(event.models)))
            case PlaneStopped():
                self._close(self.planes, event.time)

    def open(self) -> list[TrialSpan]:
        """Return the runs that are queued or running according to the journal."""
        return [self.spans[key] for key in self._open]

    def replies_since(self, time: float) -> list[Reply]:
        """Return the replies since a time. Replies are sorted by time."""
        return self.replies[bisect(self.replies, time, key=lambda reply: reply.at) :]

    def _take_trial(self, event: TrialQueued | TrialStarted | TrialEnded, at: float) -> None:
        match event:
            case TrialQueued():
                key = event.trial_id, event.run
                self.spans[key] = TrialSpan(
                    *(event.trial_id, event.run, event.idea_id, event.attempt),
                    stage=event.stage,
                    seed=event.seed,
                    queued=at,
                )
                self._open[key] = None
            case TrialStarted():
                key = event.trial_id, event.run
                if key in self.spans:
                    self.spans[key] = replace(
                        self.spans[key], started=at, ended=None, phase="running"
                    )
                    self._open[key] = None
            case TrialEnded():
                key = event.report.trial_id, event.report.run
                if key in self.spans:
                    self._open.pop(key, None)
                    ended = self.spans[key] = self._ended(self.spans[key], event, event.at or at)
                    if ended.cause:
                        self.failed.append(ended)

    def _ended(self, span: TrialSpan, event: TrialEnded, at: float) -> TrialSpan:
        usage, outcome = event.report.usage, event.report.outcome
        started, ended = _times(span, usage, at)
        phase: Phase = "scored"
        cause = detail = ""
        value = None
        if isinstance(outcome, IdeaFailed | MachineFailed):
            phase = "idea_failed" if isinstance(outcome, IdeaFailed) else "machine_failed"
            cause, detail = outcome.failure.value, outcome.detail
        elif isinstance(outcome, Scored) and is_measured(found := outcome.value(self.metric)):
            value = found
        return replace(
            span,
            started=started,
            ended=ended,
            phase=phase,
            cause=cause,
            detail=detail,
            node=usage.node,
            job=usage.slurm_job or "",
            cpu_s=usage.cpu_s,
            gpu_s=usage.gpu_s,
            peak_mb=usage.peak_mb,
            value=value,
        )

    def _close(self, spans: list[Period], at: float) -> None:
        if spans and spans[-1].end is None:
            spans[-1] = replace(spans[-1], end=at)

    def _stop(self, at: float) -> None:
        """Mark running trials as stopped: they ended with their driver; the next requeues them."""
        for key in self._open:
            span = self.spans[key]
            if span.phase == "running":
                self.spans[key] = replace(span, ended=at, phase="stopped")
        self._open.clear()


def _times(span: TrialSpan, usage: Usage, at: float) -> tuple[float, float]:
    """Return when a run began and ended, by the node's clock or, if that is wrong, the driver's."""
    low, high = span.queued - _CLOCKS_S, at + _CLOCKS_S
    if low <= usage.started_at <= usage.ended_at <= high:
        return max(span.queued, usage.started_at), max(span.queued, usage.ended_at)
    return (span.queued if span.started is None else span.started), at


def lanes(spans: Iterable[TrialSpan]) -> list[int]:
    """Return a lane of its node for each span, in order of `started`, without overlaps."""
    free: dict[str, list[int]] = {}
    busy: dict[str, list[tuple[float, int]]] = {}
    found = []
    for span in spans:
        begin = span.started or span.queued
        open_, idle = busy.setdefault(span.node, []), free.setdefault(span.node, [])
        while open_ and open_[0][0] <= begin:
            heapq.heappush(idle, heapq.heappop(open_)[1])
        lane = heapq.heappop(idle) if idle else len(open_)
        heapq.heappush(open_, (span.ended or float("inf"), lane))
        found.append(lane)
    return found
