"""Collects all facts of a campaign from its run directory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hpcscientist.files.hashing import hash_file
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen, journal
from hpcscientist.history.entities import IdeaState
from hpcscientist.history.state import CampaignState, fold
from hpcscientist.history.status import check_campaign
from hpcscientist.judgement.summary import read_rows
from hpcscientist.papers.facts import counted
from hpcscientist.papers.facts.measured import MeasuredFacts, groups_of
from hpcscientist.recipe.checks.files import RECIPE_FILE
from hpcscientist.recipe.folder_copy import LaunchedRecipe
from hpcscientist.recipe.schema import RecipeSpec
from hpcscientist.records.events import AttemptWritten, Event, IdeaBriefed, RunsRead
from hpcscientist.records.facts import (
    BASELINE,
    Fact,
    FactIdea,
    FactMetric,
    FactSheet,
    FileHash,
    RunOf,
    Source,
)
from hpcscientist.records.findings import ResultRow
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import IdeaFailed

_FURTHER: Mapping[str, RunOf] = {
    "ablation": "ablation",
    "sensitivity": "sensitivity",
    "follow-up": "follow-up",
}
_NAME = re.compile(r"\b(?=\w*[^\W\d_])(?=\w*\d)\w[\w.\-]*\w\b")
_UNCHANGED = "unchanged"  # the idea failed: its predictions were those of the reference
_NO_RESULT = "no_result"


@dataclass(frozen=True, slots=True)
class Collected:
    """The facts, and each disagreement between the records as one line."""

    sheet: FactSheet
    problems: tuple[str, ...]


def collect(paths: RunPaths) -> Collected:
    """Return the facts of a campaign. Raises NoRunDirectory, RunDirectoryError."""
    config = frozen.read(paths)
    events = journal.read(paths.journal)
    state = fold(events)
    check_campaign(paths, state)
    recipe = LaunchedRecipe(paths.recipe, config.recipe_hash).load()
    spec = recipe.spec
    rows = {row.idea_id: row for row in read_rows(paths).rows}
    runs, titles = _further(events)
    ideas = tuple(_ideas(state, rows, titles))
    measured = MeasuredFacts(paths, state, spec.metrics)
    source = counted.journal_source(paths)
    recipe_file = FileHash(file="recipe/recipe.toml", sha256=hash_file(recipe.folder / RECIPE_FILE))
    facts = [*measured.of(groups_of(state, ideas, runs), rows)]
    facts += counted.ideas_and_trials(state, ideas, source)
    facts += counted.costs(state, source)
    facts += counted.settings(
        spec, config, Source(method="set by the recipe", files=(recipe_file,))
    )
    facts += counted.data_sizes(config)
    facts += counted.hyperparameters(paths, recipe, state.in_order(), runs)
    measured.check_claims(config, recipe, state.ideas)
    sheet = FactSheet(
        campaign_id=config.campaign_id,
        recipe=config.recipe_name,
        metrics=tuple(
            FactMetric(name=m.name, direction=m.direction, share=measured.is_share(m.name))
            for m in spec.metrics
        ),
        ideas=ideas,
        names=tuple(_names(spec)),
        facts=tuple(_once(facts)),
    )
    return Collected(sheet, tuple(dict.fromkeys(measured.problems)))


def _once(facts: Iterable[Fact]) -> Iterator[Fact]:
    seen: set[str] = set()
    for fact in facts:
        if fact.id not in seen:
            seen.add(fact.id)
            yield fact


def _further(
    events: Iterable[Event],
) -> tuple[dict[tuple[str, int], RunOf], dict[tuple[str, int], str]]:
    """Return the kinds and the titles of further runs by idea and attempt.

    The title is that of the run that an analyst asked for. Otherwise the tree search made the
    ablation, and it leaves the plan's parts out in their order.
    """
    runs: dict[tuple[str, int], RunOf] = {}
    titles: dict[tuple[str, int], str] = {}
    asked: dict[str, str] = {}
    parts: dict[str, list[str]] = {}
    for event in events:
        if isinstance(event, IdeaBriefed):
            parts[event.idea_id] = list(event.parts)
        elif isinstance(event, RunsRead) and event.run is not None:
            asked[event.idea_id] = event.run.title
        elif isinstance(event, AttemptWritten):
            key = (event.idea_id, event.attempt)
            if event.kind in _FURTHER:
                runs[key] = _FURTHER[event.kind]
                left_out = parts.get(event.idea_id, [])
                known = asked.get(event.idea_id)
                titles[key] = known or (f"Without {left_out.pop(0)}" if left_out else "")
            elif (parent := (event.idea_id, event.parent)) in runs:  # a fix of a further run
                runs[key], titles[key] = runs[parent], titles[parent]
    return runs, titles


def _ideas(
    state: CampaignState,
    rows: Mapping[str, ResultRow],
    titles: Mapping[tuple[str, int], str],
) -> Iterator[FactIdea]:
    yield FactIdea(
        idea_id=BASELINE,
        title="the recipe's reference code",
        status="baseline",
        attempt=BASELINE_ATTEMPT,
        names=("baseline", "reference"),
    )
    for idea in state.in_order():
        row = rows.get(idea.idea_id)
        if row is None or row.status == "baseline" or idea.idea_id == BASELINE_ID:
            continue
        yield FactIdea(
            idea_id=idea.idea_id,
            title=idea.title,
            status=row.status,
            arm=idea.arm,
            verdict=row.finding,
            confirmed=row.confirmed,
            reason=row.reason,
            failure=_failure(state, idea) if row.status == "failed" else None,
            attempt=idea.ended.attempt if idea.ended else None,
            names=(idea.title,),
            parts={
                attempt: title
                for (of, attempt), title in titles.items()
                if of == idea.idea_id and title
            },
        )


def _failure(state: CampaignState, idea: IdeaState) -> str:
    """Return the failure kind of an idea's last failed trial, or why the idea has no result."""
    outcomes = [
        trial.report.outcome
        for trial in state.trials.values()
        if trial.idea_id == idea.idea_id and trial.report is not None
    ]
    failed = [outcome.failure for outcome in outcomes if isinstance(outcome, IdeaFailed)]
    if failed:
        return failed[-1].value
    reason = idea.ended.reason if idea.ended is not None else None
    return _UNCHANGED if "unchanged reference" in (reason or "") else _NO_RESULT


def _names(spec: RecipeSpec) -> Iterator[str]:
    """Yield the recipe's words that contain digits: CIFAR-100, WRN-28-10, 8x8."""
    topic = spec.topic
    texts = [spec.name, topic.title, topic.description, topic.inputs, topic.outputs]
    texts += [*topic.attributes, *(metric.name for metric in spec.metrics)]
    yield from dict.fromkeys(name for text in texts for name in _NAME.findall(text))
