"""Computes what a campaign has cost from its journal: tokens by role, experiments, serving."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from hpcscientist.confirmation.outcomes import confirmed as confirmed_ideas
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen, journal
from hpcscientist.history.state import CampaignState, fold
from hpcscientist.history.upcasting import JournalLine
from hpcscientist.judgement.findings import campaign_findings
from hpcscientist.recipe.folder_copy import LaunchedRecipe
from hpcscientist.records.base import Record
from hpcscientist.records.events import (
    DriverStarted,
    PlaneStarted,
    PlaneStopped,
    ReplyRecorded,
    TrialEnded,
)
from hpcscientist.records.findings import ResultRow, Verdict

SECONDS_PER_HOUR = 3600.0

Span = tuple[float, float]
"""A start and an end, in seconds since the epoch."""


class RoleTokens(Record):
    """The tokens of one role. `estimated`: for some replies the server gave no counts.

    `stages` holds the tokens of each stage, read and written, in the order of their first calls.
    """

    role: str
    calls: int
    prompt: int
    completion: int
    estimated: bool
    stages: dict[str, int] = Field(default={})


class Serving(Record):
    """A period in which models were served. `gpus` counts those of all nodes together.

    `unended`: no event records its end, because the driver was killed or is still serving. It then
    counts until the last event of its driver, which is somewhat too short.
    """

    start: float
    end: float
    nodes: int
    gpus: int
    unended: bool


class Counted(Record):
    """The numbers of findings. `confirmed`: confirmed improvements, None without confirmation."""

    findings: int
    improvements: int
    confirmed: int | None = None

    @classmethod
    def of(cls, rows: Iterable[ResultRow], *, confirms: bool) -> Counted:
        """Return the counts of a table's rows; `confirms`: the campaign confirms improvements."""
        found = [row for row in rows if row.finding is not None]
        improved = [row for row in found if row.finding is Verdict.IMPROVEMENT]
        held = sum(row.confirmed is True for row in improved)
        return cls(
            findings=len(found),
            improvements=len(improved),
            confirmed=held if confirms else None,
        )


class Spending(Record):
    """What a campaign has cost. Hours are run time; those of trials include reruns.

    Hours of serving are None if nothing was served, and too small if a period is `unended`.
    `busy` is the share of the time served in which a request was in flight.
    """

    roles: tuple[RoleTokens, ...]
    cpu_hours: float
    gpu_hours: float
    serving_node_hours: float | None
    serving_gpu_hours: float | None
    unended: bool
    busy: float | None
    found: Counted

    @property
    def tokens(self) -> int:
        """The number of all tokens, read and written."""
        return sum(role.prompt + role.completion for role in self.roles)


class CostLines:
    """A filter that keeps the lines that `spent` needs while a journal is read once.

    A period of serving without an end lasts until the last line before the next driver's first
    line, so these lines and the very last one are kept too.
    """

    def __init__(self) -> None:
        self._kept: list[JournalLine] = []
        self._last: JournalLine | None = None

    def take(self, line: JournalLine) -> None:
        """Take in the next line."""
        if isinstance(line.event, DriverStarted | PlaneStarted):
            self._keep_last()
        if isinstance(
            line.event, DriverStarted | ReplyRecorded | TrialEnded | PlaneStarted | PlaneStopped
        ):
            self._kept.append(line)
        self._last = line

    def all(self) -> list[JournalLine]:
        """Return the kept lines, after all lines were taken."""
        self._keep_last()
        return self._kept

    def _keep_last(self) -> None:
        if self._last is not None and (not self._kept or self._kept[-1] is not self._last):
            self._kept.append(self._last)


def spent(lines: Sequence[JournalLine], found: Counted) -> Spending:
    """Return the spending from a journal's lines; `found` counts the findings."""
    served = servings(lines)
    ended = [line.event.report.usage for line in lines if isinstance(line.event, TrialEnded)]
    seconds = sum(part.end - part.start for part in served)
    # A reply is recorded as it arrives, so the time of its line is the end of its request.
    requests = (
        (line.t - line.event.latency_s, line.t)
        for line in lines
        if isinstance(line.event, ReplyRecorded)
    )
    return Spending(
        roles=tokens_by_role(lines),
        cpu_hours=sum(usage.cpu_s for usage in ended) / SECONDS_PER_HOUR,
        gpu_hours=sum(usage.gpu_s for usage in ended) / SECONDS_PER_HOUR,
        serving_node_hours=_hours([(part, part.nodes) for part in served]),
        serving_gpu_hours=_hours([(part, part.gpus) for part in served]),
        unended=any(part.unended for part in served),
        busy=overlap(((part.start, part.end) for part in served), requests) / seconds
        if seconds
        else None,
        found=found,
    )


def _hours(held: Sequence[tuple[Serving, int]]) -> float | None:
    """Return the hours of (period, nodes or GPUs) pairs; None if there are none."""
    seconds = sum((part.end - part.start) * count for part, count in held)
    return seconds / SECONDS_PER_HOUR if held else None


def tokens_by_role(lines: Iterable[JournalLine]) -> tuple[RoleTokens, ...]:
    """Return the tokens of each role, in the order of their first calls."""
    found: dict[str, RoleTokens] = {}
    for line in lines:
        event = line.event
        if not isinstance(event, ReplyRecorded):
            continue
        stage = event.call.partition("/")[0]
        role = event.role
        before = found.get(role) or RoleTokens(
            role=role, calls=0, prompt=0, completion=0, estimated=False
        )
        spent_here = event.prompt_tokens + event.completion_tokens
        found[role] = RoleTokens(
            role=role,
            calls=before.calls + 1,
            prompt=before.prompt + event.prompt_tokens,
            completion=before.completion + event.completion_tokens,
            estimated=before.estimated or event.tokens_estimated,
            stages=before.stages | {stage: before.stages.get(stage, 0) + spent_here},
        )
    return tuple(found.values())


def servings(lines: Sequence[JournalLine]) -> list[Serving]:
    """Return the periods in which models were served.

    A period without an end (the driver was killed, or is still serving) counts until the last
    event before the next driver's first, or until the journal's last event.
    """
    found: list[Serving] = []
    open_: PlaneStarted | None = None
    last = 0.0

    def close(plane: PlaneStarted, end: float, *, unended: bool) -> None:
        found.append(
            Serving(
                start=plane.time,
                end=max(plane.time, end),
                nodes=plane.nodes,
                gpus=plane.gpus,
                unended=unended,
            )
        )

    for line in lines:
        event = line.event
        if (
            open_ is not None
            and isinstance(event, DriverStarted | PlaneStarted)
            and event.generation > open_.generation
        ):
            close(open_, last, unended=True)
            open_ = None
        if isinstance(event, PlaneStarted):
            open_ = event
        elif (
            isinstance(event, PlaneStopped)
            and open_ is not None
            and event.generation == open_.generation
        ):
            close(open_, event.time, unended=False)
            open_ = None
        last = line.t
    if open_ is not None:
        close(open_, last, unended=True)
    return found


def overlap(served: Iterable[Span], requests: Iterable[Span]) -> float:
    """Return the seconds of `served` in which at least one request was in flight."""
    total, until = 0.0, float("-inf")
    spans = sorted(requests)
    for begin, end in sorted(served):
        until = begin
        for start, stop in spans:
            if start >= end:
                break
            low, high = max(start, until), min(stop, end)
            if high > low:
                total += high - low
                until = high
    return total


def read(paths: RunPaths, found: Counted | None = None) -> Spending:
    """Return what the campaign in a run directory has cost so far.

    `found` counts the findings; None computes them from the journal. Raises RunDirectoryError and
    RecipeError.
    """
    lines = journal.read_lines(paths.journal)
    return spent(lines, found or count(paths, fold(line.event for line in lines)))


def count(paths: RunPaths, state: CampaignState) -> Counted:
    """Return the numbers of findings, improvements and confirmations, from the journal's values."""
    config = frozen.read(paths)
    spec, settings = LaunchedRecipe(paths.recipe, config.recipe_hash).load().spec, config.settings
    judged = campaign_findings(state, spec.objective, settings, seeds=spec.seeds)
    findings = {i: found.verdict for i, found in judged.items() if found.verdict is not None}
    improved = [i for i, verdict in findings.items() if verdict is Verdict.IMPROVEMENT]
    if not settings.loop.confirm:
        return Counted(findings=len(findings), improvements=len(improved))
    told = confirmed_ideas(state, spec.objective, settings.loop.q)
    outcomes = (told[i].confirmation for i in improved if i in told)
    held = sum(o is not None and o.confirmed for o in outcomes)
    return Counted(findings=len(findings), improvements=len(improved), confirmed=held)
