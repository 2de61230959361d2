"""Runs campaigns with a model and with the control arm, a pair for each seed."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from hpcscientist.bench import campaigns
from hpcscientist.config import model_size
from hpcscientist.config.settings import Settings
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal
from hpcscientist.history.entities import IdeaState
from hpcscientist.history.state import CampaignState, fold
from hpcscientist.history.upcasting import JournalLine
from hpcscientist.judgement.summary import read_rows
from hpcscientist.models.chat import ChatLine
from hpcscientist.models.open import role_specs
from hpcscientist.models.playbook import recorded_calls
from hpcscientist.models.structured import CUT_OFF
from hpcscientist.ports import Tell
from hpcscientist.records.events import CampaignEnded, DriverStarted, ReplyRecorded, TrialEnded
from hpcscientist.records.findings import ResultRow, Verdict
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import IdeaFailed, Scored, Stage

# Reads a model's cost by stage, and how far its ideas came, from a run directory.

# The steps of an idea, in order. Each step counts the ideas that came at least this far.
STEPS = (
    "proposed",
    "distinct",
    "feasible",
    "planned",
    "code applied",
    "ran",
    "scored",
    "improved",
    "confirmed",
)


@dataclass(frozen=True, slots=True)
class StageCost:
    """The calls of one stage. `prompt` and `completion` are tokens; `repairs` fix a reply's format.

    `first_try` counts questions whose first reply matched its schema, `cut` replies that ended at
    their token limit.
    """

    questions: int
    first_try: int
    repairs: int
    cut: int
    prompt: int
    completion: int
    seconds: float

    @property
    def calls(self) -> int:
        """The number of requests, including repairs."""
        return self.questions + self.repairs


@dataclass(frozen=True, slots=True)
class CampaignCounts:
    """One campaign. `steps` counts ideas by the names in STEPS, `failures` ideas by cause.

    `seconds` is the time from the first request to the end, None if the campaign was resumed.
    `trials` are those of ideas, without confirmations. `improved_at` holds an entry for each idea
    that ended: the trials used so far, and how many ideas had improved and were confirmed.
    `knob_settings` counts ideas whose code only sets knobs, as the control arm's does.
    """

    stages: Mapping[str, StageCost]
    steps: Mapping[str, int]
    failures: Mapping[str, int]
    trials: int
    seconds: float | None
    improved_at: Sequence[tuple[int, int, int]] = field(default=())
    knob_settings: int = 0

    @property
    def tokens(self) -> int:
        """All tokens, in prompts and replies."""
        return sum(cost.prompt + cost.completion for cost in self.stages.values())

    def at(self, trials: int) -> tuple[int, int]:
        """Return the improved and the confirmed ideas among the first that took `trials` trials."""
        within = [counts for used, *counts in self.improved_at if used <= trials]
        return (within[-1][0], within[-1][1]) if within else (0, 0)


def read(paths: RunPaths) -> CampaignCounts:
    """Read a campaign. Raises RunDirectoryError and ModelSpecError."""
    lines = journal.read_lines(paths.journal)
    state = fold(line.event for line in lines)
    rows = {row.idea_id: row for row in read_rows(paths).rows if row.status != "baseline"}
    stages = stage_costs(call for _, calls in recorded_calls(paths.root) for call in calls)
    # Confirmations do not count: they would penalise an arm that finds more improvements.
    trials = Counter(
        trial.idea_id
        for trial in state.trials.values()
        if trial.idea_id != BASELINE_ID and trial.stage is not Stage.CONFIRM and trial.has_ended
    )
    ran = {
        line.event.idea_id
        for line in lines
        if isinstance(line.event, TrialEnded) and isinstance(line.event.report.outcome, Scored)
    }
    return CampaignCounts(
        stages=stages,
        steps=_steps(state, rows, ran),
        failures=_failures(state, lines),
        trials=trials.total(),
        seconds=_seconds(lines),
        improved_at=_improved_at(state, rows, trials),
        knob_settings=sum(bool(idea.only_sets_knobs) for idea in state.ideas.values()),
    )


def stage_costs(calls: Iterable[ChatLine]) -> dict[str, StageCost]:
    """Return the cost of each stage, in the order of their first calls."""
    by_stage: dict[str, list[ChatLine]] = defaultdict(list)
    for call in calls:
        by_stage[call.stage].append(call)
    return {stage: _cost(of) for stage, of in by_stage.items()}


def _cost(calls: Sequence[ChatLine]) -> StageCost:
    repairs = [call for call in calls if call.repair]
    questions = len(calls) - len(repairs)
    return StageCost(
        questions=questions,
        first_try=questions - sum(call.repair == 1 for call in repairs),
        repairs=len(repairs),
        cut=sum(call.finish == CUT_OFF for call in calls),
        prompt=sum(call.prompt_tokens for call in calls),
        completion=sum(call.completion_tokens for call in calls),
        seconds=sum(call.latency_s for call in calls),
    )


def _steps(state: CampaignState, rows: Mapping[str, ResultRow], ran: set[str]) -> dict[str, int]:
    found = Counter[str]()
    for idea in state.ideas.values():
        row = rows.get(idea.idea_id)
        came = {
            "proposed": bool(idea.idea_hash),
            "distinct": idea.admitted,
            "feasible": idea.admitted and not (idea.ended and idea.ended.vetted),
            "planned": idea.planned is not None,
            "code applied": idea.attempts > 0,
            "ran": idea.idea_id in ran,
            "scored": row is not None and row.status == "scored",
            "improved": row is not None and row.finding is Verdict.IMPROVEMENT,
            "confirmed": row is not None and row.confirmed is True,
        }
        found.update(step for step, has_come in came.items() if has_come)
    return {step: found[step] for step in STEPS}


def _failures(state: CampaignState, lines: Sequence[JournalLine]) -> dict[str, int]:
    """Count the ideas that were not scored by their cause, the most frequent first."""
    last: dict[str, IdeaFailed] = {}
    for line in lines:
        if isinstance(line.event, TrialEnded):
            outcome = line.event.report.outcome
            if isinstance(outcome, IdeaFailed):
                last[line.event.idea_id] = outcome
    causes = Counter(
        _cause(idea, last.get(idea.idea_id))
        for idea in state.ideas.values()
        if idea.ended is not None and idea.ended.status != "scored"
    )
    return dict(causes.most_common())


def _cause(idea: IdeaState, failed: IdeaFailed | None) -> str:
    ended = idea.ended
    if ended is None or ended.status == "rejected":
        return "look-alike" if ended and ended.like else "set aside before code"
    if failed is not None and idea.attempts:
        return f"trial: {failed.failure.value.replace('_', ' ')}"
    where = "after its code" if idea.attempts else "no code"
    return f"{where}: {_kind_of(ended.reason or 'no reason')}"


def _kind_of(reason: str) -> str:
    """Return a reason without the names and numbers that are specific to one case."""
    without = re.sub(r"`[^`]*`|'[^']*'|\"[^\"]*\"", "…", reason)
    return re.sub(r"\d+", "N", without)[:80]


def _improved_at(
    state: CampaignState, rows: Mapping[str, ResultRow], trials: Mapping[str, int]
) -> list[tuple[int, int, int]]:
    ideas = [idea.idea_id for idea in state.in_order() if idea.ended is not None]
    own = [rows.get(idea_id) for idea_id in ideas]
    improved = (row is not None and row.finding is Verdict.IMPROVEMENT for row in own)
    confirmed = (row is not None and row.confirmed is True for row in own)
    counts = (accumulate(map(int, each)) for each in (improved, confirmed))
    used = accumulate(trials.get(idea_id, 0) for idea_id in ideas)
    return list(zip(used, *counts, strict=True))


def _seconds(lines: Sequence[JournalLine]) -> float | None:
    """Return the seconds from the first request to the end, without the time to load a model."""
    if sum(isinstance(line.event, DriverStarted) for line in lines) != 1:
        return None
    asked = [line.t - e.latency_s for line in lines if isinstance(e := line.event, ReplyRecorded)]
    ends = [line.t for line in lines if isinstance(line.event, CampaignEnded)]
    return ends[0] - min(asked) if ends and asked else None


CONTROL = "search"

# Parts of the loop, with the section of their settings and what leaves them out.
PARTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "survey": ("literature", {"survey": False}),
    "directions": ("proposing", {"batch": 1}),
    "reflection": ("proposing", {"reflections": 0}),
    "novelty": ("proposing", {"novelty_rounds": 0}),
    "feasibility": ("proposing", {"feasibility": False}),
    "concepts": ("literature", {"concepts": 0}),
    "plan": ("authoring", {"plan": False}),
    "analysis": ("authoring", {"analysis": False}),
    "review": ("authoring", {"advice_rounds": 0}),
    "structure": ("authoring", {"debugging": "none"}),
    "further-runs": ("authoring", {"further_runs": 0}),
}


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """What to measure: campaigns of `settings` in `folder`, one for each of `seeds` seeds.

    With `control`, the control arm also runs as many ideas with each seed. `ablate` names parts in
    `PARTS`: for each, further campaigns with the same seeds lack it, or have it if the settings for
    a model of this size leave it out.
    """

    settings: Settings
    folder: Path
    seeds: int = 3
    control: bool = True
    ablate: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Ablation:
    """A campaign that lacks a part, or `has_part`, unlike the model's own."""

    has_part: bool
    measured: CampaignCounts


@dataclass(frozen=True, slots=True)
class Pair:
    """The campaigns of one seed.

    `control` is None if the control arm was left out. `ablations` are by part.
    """

    seed: int
    model: CampaignCounts
    control: CampaignCounts | None
    ablations: Mapping[str, Ablation] = field(default_factory=dict)


def measure(options: ModelOptions, tell: Tell) -> list[Pair]:
    """Run and read every campaign. Raises what a launch or a driver raises."""
    first = options.settings.seed
    seeds = range(first, first + options.seeds)
    return [
        _pair(options.settings.model_copy(update={"seed": seed}), options, tell) for seed in seeds
    ]


def _pair(settings: Settings, options: ModelOptions, tell: Tell) -> Pair:
    def run(name: str, own: Settings) -> CampaignCounts:
        return read(campaigns.run(f"{name}-{settings.seed}", own, options.folder, tell))

    model = run("model", settings)  # first: whatever a launch refuses is said at once
    control = None
    if options.control:
        control = run(CONTROL, settings.model_copy(update={"model": CONTROL, "control": 0.0}))
    ablations = {}
    for part in options.ablate:
        own, has_part = ablated(settings, part)
        name = f"{'with' if has_part else 'without'}-{part}"
        ablations[part] = Ablation(has_part, run(name, own))
    return Pair(settings.seed, model, control, ablations)


def ablated(settings: Settings, part: str) -> tuple[Settings, bool]:
    """Return settings that differ in one part from a launch's, and whether they have that part.

    A launch leaves some parts out for a small model (`model_size`); these are put in. Raises
    ModelSpecError for a SPEC that cannot be read.
    """
    settings, _ = model_size.fitted(settings, role_specs(settings, settings.model))
    name, without = PARTS[part]
    section = getattr(settings, name)
    has_part = all(getattr(section, key) == value for key, value in without.items())
    defaults = type(section)()
    changes = {key: getattr(defaults, key) for key in without} if has_part else dict(without)
    changed = {name: section.model_copy(update=changes), "model_size": "large"}  # none left out
    return settings.model_copy(update=changed), has_part
