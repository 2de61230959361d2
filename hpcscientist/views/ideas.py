"""Views of ideas and their attempts in any state, and of the best so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hpcscientist.feedback.statistics import noise
from hpcscientist.files.text import printable
from hpcscientist.history.entities import IdeaState
from hpcscientist.history.state import CampaignState
from hpcscientist.records.findings import ResultRow, Verdict
from hpcscientist.records.idea import Arm
from hpcscientist.records.trial import Direction, MetricSpec
from hpcscientist.views.timeline import AttemptMade, Timeline, TrialSpan


@dataclass(frozen=True, slots=True)
class AttemptView:
    """An attempt of an idea. `outcome` is "failed" if the idea's code failed any of its trials."""

    number: int
    parent: int
    kind: str
    outcome: Literal["written", "running", "scored", "failed"]
    cause: str


@dataclass(frozen=True, slots=True)
class IdeaView:
    """An idea in any state. `row` is its row of `hpcsci results`, None until the idea has ended.

    `proposed` and `ended` are seconds since the epoch, or None if the journal has no such event.
    """

    idea_id: str
    number: int
    title: str
    arm: Arm
    parent_ids: tuple[str, ...]
    status: Literal["open", "scored", "failed", "rejected"]
    reason: str | None
    like: str | None
    proposed: float | None
    ended: float | None
    attempts: tuple[AttemptView, ...]
    tokens: int
    cpu_s: float
    gpu_s: float
    row: ResultRow | None


def ideas_of(
    state: CampaignState,
    timeline: Timeline,
    trials: Sequence[TrialSpan],
    rows: Mapping[str, ResultRow],
) -> tuple[IdeaView, ...]:
    """Return the ideas in order of their numbers; `rows` are those of `hpcsci results` by idea."""
    of_attempts: dict[tuple[str, int], list[TrialSpan]] = {}
    for span in trials:
        of_attempts.setdefault((span.idea_id, span.attempt), []).append(span)
    return tuple(
        _idea(idea, timeline, of_attempts, state, rows.get(idea.idea_id))
        for idea in state.in_order()
    )


def _idea(
    idea: IdeaState,
    timeline: Timeline,
    trials: Mapping[tuple[str, int], list[TrialSpan]],
    state: CampaignState,
    row: ResultRow | None,
) -> IdeaView:
    idea_id = idea.idea_id
    cpu_s, gpu_s = state.used.get(idea_id, (0.0, 0.0))
    made = timeline.attempts.get(idea_id, ())
    return IdeaView(
        idea_id=idea_id,
        number=idea.number,
        title=printable(idea.title),
        arm=idea.arm,
        parent_ids=idea.parent_ids,
        status=idea.ended.status if idea.ended else "open",
        reason=row.reason if row else None,
        like=idea.ended.like if idea.ended else None,
        proposed=timeline.proposed.get(idea_id),
        ended=timeline.ended.get(idea_id),
        attempts=tuple(_attempt(a, trials.get((idea_id, a.number), ())) for a in made),
        tokens=state.tokens.get(idea_id, 0),
        cpu_s=cpu_s,
        gpu_s=gpu_s,
        row=row,
    )


def _attempt(made: AttemptMade, trials: Sequence[TrialSpan]) -> AttemptView:
    failed = next((t for t in trials if t.phase == "idea_failed"), None)
    outcome: Literal["written", "running", "scored", "failed"] = "written"
    if failed is not None:
        outcome = "failed"
    elif any(t.phase in ("queued", "running") for t in trials):
        outcome = "running"
    elif any(t.phase == "scored" for t in trials):
        outcome = "scored"
    cause = failed.cause if failed else ""
    return AttemptView(made.number, made.parent, made.kind, outcome, cause)


# The best so far, over ideas, time and cost, with the band that noise alone explains.

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Point:
    """A scored idea.

    `seconds` is its end since the campaign began; `hours` and `tokens` are what the campaign had
    spent by then. `test` is its difference to the baseline on the test split.
    """

    idea_id: str
    number: int
    seconds: float
    hours: float
    tokens: int
    mean: float
    delta: float | None
    test: float | None
    finding: str | None
    confirmed: bool | None


@dataclass(frozen=True, slots=True)
class Best:
    """The scored ideas of a campaign, in the order in which they ended.

    `unit` is that of `hours`: GPU-hours if any trial used a GPU. `baseline` is the baseline's mean.
    `band` is the half-width of the 95% interval of the difference between two runs of the
    baseline's code, or None if it has too few seeds. `by_number` and `by_time` are the indices in
    `points` of each new best improvement, in order of number and of time.
    """

    points: tuple[Point, ...]
    unit: Literal["CPU-hours", "GPU-hours"]
    baseline: float | None
    band: float | None
    by_number: tuple[int, ...]
    by_time: tuple[int, ...]


def best_so_far(
    metric: MetricSpec,
    baseline: ResultRow | None,
    ideas: Sequence[IdeaView],
    trials: Sequence[TrialSpan],
    timeline: Timeline,
) -> Best:
    """Return the best so far, over the ideas that have ended and have a mean."""
    on_gpus = any(span.gpu_s for span in trials)
    start = timeline.first or 0.0
    spent = sorted(
        (span.ended, span.gpu_s if on_gpus else span.cpu_s) for span in trials if span.ended
    )
    replies = timeline.replies
    points, hours, tokens, trial, reply = [], 0.0, 0, 0, 0
    scored = [(idea.ended, idea) for idea in ideas if idea.ended is not None and idea.row]
    for ended, idea in sorted(scored, key=lambda pair: (pair[0], pair[1].number)):
        while trial < len(spent) and (spent[trial][0] or 0.0) <= ended:
            hours += spent[trial][1] / _HOUR_S
            trial += 1
        while reply < len(replies) and replies[reply].at <= ended:
            tokens += replies[reply].read + replies[reply].written
            reply += 1
        row = idea.row
        if row is None or row.mean is None:
            continue
        points.append(
            Point(
                idea_id=idea.idea_id,
                number=idea.number,
                seconds=max(0.0, ended - start),
                hours=hours,
                tokens=tokens,
                mean=row.mean,
                delta=row.delta,
                test=row.test_delta,
                finding=row.finding,
                confirmed=row.confirmed,
            )
        )
    known = baseline is not None and baseline.std is not None and baseline.n is not None
    return Best(
        points=tuple(points),
        unit="GPU-hours" if on_gpus else "CPU-hours",
        baseline=baseline.mean if baseline else None,
        band=noise(baseline.std, baseline.n) if known else None,  # type: ignore[union-attr,arg-type]
        by_number=_records(
            points, sorted(range(len(points)), key=lambda i: points[i].number), metric
        ),
        by_time=_records(points, range(len(points)), metric),
    )


def _records(points: Sequence[Point], order: Sequence[int], metric: MetricSpec) -> tuple[int, ...]:
    """Return the indices of the improvements that are better than all before, in `order`."""
    sign = 1.0 if metric.direction is Direction.MAXIMIZE else -1.0
    found, best = [], float("-inf")
    for place in order:
        point = points[place]
        if point.finding == Verdict.IMPROVEMENT and sign * point.mean > best:
            best = sign * point.mean
            found.append(place)
    return tuple(found)
