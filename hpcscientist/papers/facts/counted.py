"""Makes the facts that are counted or looked up: ideas, trials, costs, data, settings, code."""

from __future__ import annotations

import ast
import contextlib
import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from hpcscientist.errors import RecipeError
from hpcscientist.feedback.statistics import CONFIDENCE
from hpcscientist.files.handed import LARGEST_TEXT, Read, read_regular
from hpcscientist.files.hashing import hash_bytes, hash_file
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.history.entities import IdeaState
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.state import CampaignState
from hpcscientist.papers.facts.measured import slug
from hpcscientist.recipe import knobs
from hpcscientist.recipe.load import Recipe
from hpcscientist.recipe.schema import RecipeSpec
from hpcscientist.records.facts import (
    BASELINE,
    Fact,
    FactIdea,
    FactKind,
    FileHash,
    RunOf,
    Scope,
    Source,
    exact,
    printed,
)
from hpcscientist.records.findings import Verdict
from hpcscientist.records.idea import BASELINE_ATTEMPT
from hpcscientist.records.trial import IdeaFailed, MachineFailed, Scored, Split

_HOUR = 3600.0
_JOURNAL = "journal.jsonl"


def count(fact_id: str, label: str, value: int, unit: str, of: str, source: Source) -> Fact:
    """Return a count of `unit` (ideas, trials, ...) in the state `of` (failed, scored, ...)."""
    return Fact(
        id=fact_id,
        label=label,
        kind=FactKind.COUNT,
        unit=unit,
        value=float(value),
        text=str(value),
        scope=Scope(of=of),
        source=source,
    )


def ideas_and_trials(
    state: CampaignState, ideas: Iterable[FactIdea], journal: Source
) -> Iterator[Fact]:
    """Yield the counts of ideas and of trials, by outcome."""
    own = [idea for idea in ideas if idea.status != "baseline"]

    def ideas_that(of: str, label: str, number: int) -> Fact:
        return count(f"campaign.ideas.{of}", label, number, "ideas", of, journal)

    scored = [idea for idea in own if idea.status == "scored"]
    yield ideas_that("proposed", "ideas proposed", len(state.ideas))
    for status in ("rejected", "failed", "scored"):
        number = sum(idea.status == status for idea in own)
        yield ideas_that(status, f"ideas {status}", number)
    for verdict, of in (
        (Verdict.IMPROVEMENT, "improved"),
        (Verdict.MAINTENANCE, "unchanged"),
        (Verdict.DECLINE, "declined"),
        (None, "undecided"),
    ):
        number = sum(idea.verdict is verdict for idea in scored)
        yield ideas_that(of, f"ideas that {of} on validation", number)
    confirmed = sum(idea.confirmed is True for idea in own)
    tested = sum(idea.confirmed is not None for idea in own)
    yield ideas_that("confirmed", "improvements confirmed on the test split", confirmed)
    yield ideas_that(
        "unconfirmed", "improvements not confirmed on the test split", tested - confirmed
    )
    kinds = Counter(idea.failure for idea in own if idea.failure)
    for kind, number in sorted(kinds.items()):
        label = f"ideas that failed: {kind.replace('_', ' ')}"
        yield count(
            f"campaign.ideas.failed.{kind}", label, number, "ideas", f"failed.{kind}", journal
        )
    arms = Counter(idea.arm for idea in state.ideas.values())
    for arm in sorted(arms):
        yield ideas_that(f"arm.{arm}", f"ideas of the {arm} arm", arms[arm])
    looks = sum(idea.spent is not None for idea in state.ideas.values())
    yield count("campaign.looks.test", "looks at the test split", looks, "looks", "looks", journal)
    versions = sum(idea.attempts for idea in state.ideas.values())
    yield count(
        "campaign.attempts", "versions of code written", versions, "attempts", "written", journal
    )
    outcomes = [t.report.outcome for t in state.trials.values() if t.report is not None]
    for of, number in (
        ("run", len(outcomes)),
        ("scored", sum(isinstance(o, Scored) for o in outcomes)),
        ("failed", sum(isinstance(o, IdeaFailed) for o in outcomes)),
        ("machine_failed", sum(isinstance(o, MachineFailed) for o in outcomes)),
    ):
        label = f"trials {of.replace('_', ' ')}"
        yield count(f"campaign.trials.{of}", label, number, "trials", of, journal)


def costs(state: CampaignState, journal: Source) -> Iterator[Fact]:
    """Yield the tokens and hours of the campaign and of each idea."""

    def cost(fact_id: str, label: str, value: float, unit: str) -> Fact:
        return Fact(
            id=fact_id,
            label=label,
            kind=FactKind.COST,
            unit=unit,
            value=value,
            text=printed(value),
            scope=Scope(
                idea=fact_id.partition(".")[0] if fact_id.startswith("idea-") else None,
                of=fact_id.rpartition(".")[2] if unit == "tokens" else None,
            ),
            source=journal,
        )

    yield cost("campaign.tokens.prompt", "tokens read", float(state.prompt_tokens), "tokens")
    yield cost(
        "campaign.tokens.completion", "tokens written", float(state.completion_tokens), "tokens"
    )
    total = state.prompt_tokens + state.completion_tokens
    yield cost("campaign.tokens.total", "tokens read and written", float(total), "tokens")
    yield cost("campaign.cost.cpu", "CPU-hours of trials", state.cpu_s / _HOUR, "CPU-hours")
    yield cost("campaign.cost.gpu", "GPU-hours of trials", state.gpu_s / _HOUR, "GPU-hours")
    for idea in state.in_order():
        cpu, gpu = state.used.get(idea.idea_id, (0.0, 0.0))
        yield cost(
            f"{idea.idea_id}.cost.cpu", f"CPU-hours of {idea.idea_id}", cpu / _HOUR, "CPU-hours"
        )
        if gpu:
            yield cost(
                f"{idea.idea_id}.cost.gpu", f"GPU-hours of {idea.idea_id}", gpu / _HOUR, "GPU-hours"
            )
        if idea.idea_id in state.tokens:
            tokens = float(state.tokens[idea.idea_id])
            yield cost(
                f"{idea.idea_id}.tokens", f"tokens spent on {idea.idea_id}", tokens, "tokens"
            )


def settings(spec: RecipeSpec, config: CampaignConfig, recipe: Source) -> Iterator[Fact]:
    """Yield the settings of the recipe and the campaign: seeds, budgets, limits, levels, knobs."""

    def setting(
        fact_id: str, label: str, value: float, unit: str = "", share: bool = False
    ) -> Fact:
        return Fact(
            id=fact_id,
            label=label,
            kind=FactKind.SETTING,
            unit=unit,
            value=value,
            text=exact(value),
            share=share,
            scope=Scope(of=fact_id.partition(".")[2]),
            source=recipe,
        )

    yield setting("recipe.seeds", "seeds of a finding by the recipe", float(spec.seeds), "seeds")
    for name in spec.budgets.names:
        seconds = spec.budgets.seconds(name)
        yield setting(f"recipe.budget.{name}", f"seconds of a {name} trial", seconds, "seconds")
    for name, unit in (
        ("cpus", "CPUs"),
        ("gpus", "GPUs"),
        ("memory_mb", "MiB"),
        ("output_mb", "MiB"),
    ):
        value = float(getattr(spec.resources, name))
        yield setting(f"recipe.resources.{name}", f"{name} of a trial", value, unit)
    for metric in spec.metrics:
        if metric.minimum_effect:
            yield setting(
                f"recipe.minimum_effect.{slug(metric.name)}",
                f"minimum effect on {metric.name} by the recipe",
                metric.minimum_effect,
                metric.name,
            )
    for knob in spec.knobs:
        for end in ("low", "high"):
            value = getattr(knob, end)
            if value is not None:
                label = f"{end} end of the search range of {knob.name}"
                yield setting(f"recipe.knob.{slug(knob.name)}.{end}", label, value)
    loop = config.settings.loop
    yield setting("campaign.level", "false discovery rate that is allowed", loop.q, share=True)
    yield setting("campaign.confidence", "confidence of the intervals", CONFIDENCE, share=True)
    yield setting("campaign.seed", "seed of the campaign", float(config.settings.seed))
    if config.settings.rounds:
        rounds = float(config.settings.rounds)
        yield setting("campaign.rounds", "rounds of the campaign", rounds, "rounds")
    if spec.published is not None:
        yield Fact(
            id="recipe.published",
            label=f"published {spec.primary.name} of the baseline",
            kind=FactKind.PUBLISHED,
            unit=spec.primary.name,
            value=spec.published.value,
            text=exact(spec.published.value),
            scope=Scope(idea=BASELINE, metric=spec.primary.name),
            source=recipe.model_copy(update={"setup": spec.published.source}),
        )


def data_sizes(config: CampaignConfig) -> Iterator[Fact]:
    """Yield the row counts of the prepared data that candidate code sees, by folder and file."""
    seen: dict[tuple[str, str], int] = {}
    hashes: dict[tuple[str, str], FileHash] = {}
    for split in Split:
        view = Path(config.views.get(split, ""))
        if not view.is_dir():
            continue
        for path in sorted(view.rglob("*")):
            rows = _rows(path)
            if rows is None:
                continue
            folder = path.parent.relative_to(view).as_posix()
            name = "rows" if folder == "." else folder
            seen[name, path.stem] = rows
            relative = f"{split}/{path.relative_to(view).as_posix()}"
            hashes[name, path.stem] = FileHash(file=relative, sha256=hash_file(path))
    by_folder: dict[str, set[int]] = {}
    for (folder, _), rows in seen.items():
        by_folder.setdefault(folder, set()).add(rows)
    for (folder, stem), rows in seen.items():
        same = len(by_folder[folder]) == 1
        fact_id = f"recipe.data.{slug(folder.replace('/', '-'))}." + (
            "rows" if same else slug(stem)
        )
        source = Source(method="rows of a file of the prepared data", files=(hashes[folder, stem],))
        yield Fact(
            id=fact_id,
            label=f"rows of the {folder} data",
            kind=FactKind.SIZE,
            unit="rows",
            value=float(rows),
            text=str(rows),
            scope=Scope(of=folder),
            source=source,
        )


def _rows(path: Path) -> int | None:
    """Return the number of rows of a table or an array; None for any other file."""
    if not path.is_file() or path.stat().st_size > LARGEST_TEXT:
        return None
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            return max(0, sum(1 for _ in csv.reader(file)) - 1)
    if path.suffix == ".npy":
        return _npy_rows(path)
    return None


_SHAPE = re.compile(rb"'shape':\s*(\([^)]*\))")


def _npy_rows(path: Path) -> int | None:
    """Read the first dimension from an array's header, without NumPy."""
    with path.open("rb") as file:
        head = file.read(4096)
    found = _SHAPE.search(head) if head.startswith(b"\x93NUMPY") else None
    shape = ast.literal_eval(found[1].decode("ascii")) if found else ()
    return int(shape[0]) if shape else None


def hyperparameters(
    paths: RunPaths,
    recipe: Recipe,
    ideas: Iterable[IdeaState],
    runs: Mapping[tuple[str, int], RunOf],
) -> Iterator[Fact]:
    """Yield the module-level numbers in the code of the reference, the ideas and further runs."""
    read = frozen.reader(paths)
    code = _Code(recipe.folder / "reference", "recipe/reference", read_regular)
    yield from _constants(code, BASELINE, BASELINE, BASELINE_ATTEMPT, "main")
    for idea in ideas:
        if idea.ended is None or idea.ended.attempt is None:
            continue
        standing = idea.ended.attempt
        for attempt in idea.code_hashes:
            run = "main" if attempt == standing else runs.get((idea.idea_id, attempt))
            if run is None:
                continue
            prefix = idea.idea_id + ("" if run == "main" else f".{run}-{attempt}")
            folder = paths.idea(idea.idea_id).code(attempt)
            code = _Code(folder, folder.relative_to(paths.root).as_posix(), read)
            yield from _constants(code, prefix, idea.idea_id, attempt, run)


class _Code(NamedTuple):
    """A folder of code, its name in the run directory, and how its files are read."""

    folder: Path
    name: str
    read: Read


def _constants(code: _Code, prefix: str, idea: str, attempt: int, run: RunOf) -> Iterator[Fact]:
    contents: dict[Path, bytes] = {}
    for path in sorted(code.folder.rglob("*.py")) if code.folder.is_dir() else []:
        with contextlib.suppress(OSError):  # also for a file that the driver did not write
            contents[path] = code.read(path)
    for path, content in contents.items():
        try:
            found = knobs.constants(content.decode())
        except (UnicodeDecodeError, RecipeError, RecursionError):
            continue
        where = f"{code.name}/{path.relative_to(code.folder).as_posix()}"
        stem = "" if len(contents) == 1 else f"{slug(path.stem)}."
        for name, (line, value) in found.items():
            if isinstance(value, bool | str):
                continue
            yield Fact(
                id=f"{prefix}.code.{stem}{slug(name)}",
                label=f"{name} in the code of {prefix}",
                kind=FactKind.HYPERPARAMETER,
                value=float(value),
                text=exact(float(value)),
                scope=Scope(idea=idea, attempt=attempt, run=run, of=name),
                source=Source(
                    method="read from the code",
                    files=(FileHash(file=where, sha256=hash_bytes(content)),),
                    lines=(line, line),
                ),
            )


def journal_source(paths: RunPaths) -> Source:
    """Return the journal as the source of a fact."""
    content = hash_file(paths.journal)
    return Source(method="counted in the journal", files=(FileHash(file=_JOURNAL, sha256=content),))
