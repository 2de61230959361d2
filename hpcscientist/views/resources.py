"""Sums up requested and used resources: trials and tokens by stage, failures by cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Literal

from hpcscientist.config.settings import LoopSettings
from hpcscientist.feedback.effort import steps_of
from hpcscientist.recipe.schema import RecipeSpec
from hpcscientist.records.trial import Budget, Stage
from hpcscientist.views.ideas import IdeaView
from hpcscientist.views.timeline import Reply, TrialSpan

_HOUR_S = 3600.0

Whose = Literal["idea", "machine", "none"]
"""What caused a failure; none: no trial failed, the idea was rejected or had no working code."""


@dataclass(frozen=True, slots=True)
class StageTokens:
    """The tokens of one stage of one role. `seconds` is the total time of its requests."""

    role: str
    stage: str
    calls: int
    read: int
    written: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StageTrials:
    """The ended trials of one stage, with requested and used resources.

    Hours are core-hours or GPU-hours: `asked_hours` is deadlines times processors, `used_hours` run
    time times processors, `cpu_hours` the time that the processors were busy. Waits are seconds in
    the queue. `peak_mb` is the largest peak.
    """

    stage: str
    trials: int
    asked_hours: float
    used_hours: float
    cpu_hours: float
    gpu_hours: float
    asked_mb: int
    peak_mb: float
    wait_median_s: float | None
    wait_p90_s: float | None
    run_median_s: float | None


@dataclass(frozen=True, slots=True)
class Failure:
    """One cause of failures: the trials and ideas it hit, the resources they used, an example."""

    whose: Whose
    cause: str
    trials: int
    ideas: int
    cpu_hours: float
    gpu_hours: float
    tokens: int
    example: str
    example_id: str


def tokens_by_stage(replies: Iterable[Reply]) -> tuple[StageTokens, ...]:
    """Return the tokens of each stage of each role, the costliest first."""
    found: dict[tuple[str, str], list[Reply]] = {}
    for reply in replies:
        found.setdefault((reply.role, reply.stage), []).append(reply)
    stages = [
        StageTokens(
            role=role,
            stage=stage,
            calls=len(own),
            read=sum(reply.read for reply in own),
            written=sum(reply.written for reply in own),
            seconds=sum(reply.seconds for reply in own),
        )
        for (role, stage), own in found.items()
    ]
    return tuple(sorted(stages, key=lambda s: (-s.read - s.written, s.role, s.stage)))


def trials_by_stage(
    trials: Sequence[TrialSpan], recipe: RecipeSpec, loop: LoopSettings
) -> tuple[StageTrials, ...]:
    """Return the requested and used resources of each stage's trials, in order of stages."""
    steps = [step.name for step in steps_of(loop, recipe.budgets)]
    climbed: dict[tuple[str, int], list[str]] = {}
    processors = recipe.resources.gpus or recipe.resources.cpus
    by_stage: dict[Stage, list[tuple[TrialSpan, float]]] = {}
    for span in sorted(trials, key=lambda span: span.queued):
        budget: str = Budget.PILOT if span.stage is Stage.PILOT else Budget.FULL
        if span.stage is Stage.STEP:  # an attempt runs the steps in order
            own = climbed.setdefault((span.idea_id, span.attempt), [])
            if span.trial_id not in own:
                own.append(span.trial_id)
            place = own.index(span.trial_id)
            budget = steps[place] if place < len(steps) else Budget.FULL
        if span.ended is not None and span.started is not None:
            asked = recipe.budgets.seconds(budget)
            by_stage.setdefault(span.stage, []).append((span, asked))
    return tuple(
        _stage(stage, by_stage[stage], processors, recipe.resources.memory_mb)
        for stage in Stage
        if stage in by_stage
    )


def _stage(
    stage: Stage, ended: Sequence[tuple[TrialSpan, float]], processors: int, memory_mb: int
) -> StageTrials:
    spans = [span for span, _ in ended]
    waits = [span.wait_s or 0.0 for span in spans]
    runs = [span.run_s or 0.0 for span in spans]
    return StageTrials(
        stage=stage.value,
        trials=len(spans),
        asked_hours=sum(asked for _, asked in ended) * processors / _HOUR_S,
        used_hours=sum(runs) * processors / _HOUR_S,
        cpu_hours=sum(span.cpu_s for span in spans) / _HOUR_S,
        gpu_hours=sum(span.gpu_s for span in spans) / _HOUR_S,
        asked_mb=memory_mb,
        peak_mb=max((span.peak_mb for span in spans), default=0.0),
        wait_median_s=median(waits),
        wait_p90_s=quantiles(waits, n=10)[-1] if len(waits) > 1 else waits[0],
        run_median_s=median(runs),
    )


@dataclass(slots=True)
class _Counting:
    trials: int = 0
    ideas: set[str] = field(default_factory=set)
    cpu_s: float = 0.0
    gpu_s: float = 0.0
    tokens: int = 0
    example: str = ""
    example_id: str = ""


def failures(trials: Iterable[TrialSpan], ideas: Sequence[IdeaView]) -> tuple[Failure, ...]:
    """Return the causes of failed trials, and of ideas that failed without a failed trial.

    The costliest come first. A failed trial counts with its own hours, an idea without a failed
    trial with all that it used.
    """
    found: dict[tuple[Whose, str], _Counting] = {}
    for span in trials:
        if span.phase not in ("idea_failed", "machine_failed"):
            continue
        whose: Whose = "idea" if span.phase == "idea_failed" else "machine"
        own = found.setdefault((whose, span.cause), _Counting())
        own.trials += 1
        own.ideas.add(span.idea_id)
        own.cpu_s += span.cpu_s
        own.gpu_s += span.gpu_s
        if not own.example:
            own.example, own.example_id = span.detail, span.idea_id
    for idea in ideas:
        if (cause := _without_a_trial(idea)) is None:
            continue
        own = found.setdefault(("none", cause), _Counting())
        own.ideas.add(idea.idea_id)
        own.tokens += idea.tokens
        own.cpu_s += idea.cpu_s
        own.gpu_s += idea.gpu_s
        if not own.example:
            own.example, own.example_id = idea.reason or "", idea.idea_id
    causes = [
        Failure(
            whose=whose,
            cause=cause,
            trials=own.trials,
            ideas=len(own.ideas),
            cpu_hours=own.cpu_s / _HOUR_S,
            gpu_hours=own.gpu_s / _HOUR_S,
            tokens=own.tokens,
            example=own.example,
            example_id=own.example_id,
        )
        for (whose, cause), own in found.items()
    ]
    return tuple(
        sorted(causes, key=lambda f: (-f.gpu_hours, -f.cpu_hours, -f.tokens, f.whose, f.cause))
    )


def _without_a_trial(idea: IdeaView) -> str | None:
    """Return why an idea was rejected or failed without a failed trial; None for other ideas."""
    if idea.status == "rejected":
        return "repeats an earlier idea" if idea.like else "rejected before a trial"
    failed = any(attempt.outcome == "failed" for attempt in idea.attempts)
    return (
        "its code did nothing, or there was none"
        if idea.status == "failed" and not failed
        else None
    )
