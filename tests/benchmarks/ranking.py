"""`benchmarks ranking`: what the ranking by task attributes keeps out of a survey.

The measure is that of Dolphin's table 4 (arXiv 2501.03916): the share of papers on a wrong task
among those that a survey keeps, without ranking, by the topic's score alone, and by topic and
attributes. Whoever keeps less can be choosier, so the first two also stand beside it with as many
papers as it keeps. A labelled library says what the task of each paper is.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.retrieval.files import write_openalex
from benchmarks.retrieval.labelled import Labelled, Topic, labelled
from hpcscientist.bench.figure import Figure
from hpcscientist.config.settings import Settings
from hpcscientist.literature.index.search import open_library
from hpcscientist.literature.index.update import LibraryIndex
from hpcscientist.literature.library.build import build
from hpcscientist.literature.ranking import Fit, ModelRanker, Ranker, WordRanker
from hpcscientist.literature.survey import Surveyor
from hpcscientist.models.role_client import RoleClient
from hpcscientist.ports import Tell
from hpcscientist.recipe import schema
from hpcscientist.records.literature import Hit, TaskAttributes
from hpcscientist.records.model_calls import Role

if TYPE_CHECKING:
    from hpcscientist.models.role_client import Roles
    from hpcscientist.ports import Library

SEEDS = (10, 11, 12, 13, 14)  # of libraries; none on which WordRanker was made
# What table 4 shows: of the papers that name a task, 71 of 153 named another than classification
# before, and 47 of 156 afterwards.
TARGET = (47 / 156) / (71 / 153)

_ROLES: tuple[Role, Role] = ("ideation", "review")
NAIVE, TOPIC, TASK = "no ranking", "topic", "topic and attributes"
NAIVE_AS_MANY, TOPIC_AS_MANY = f"{NAIVE}, as many", f"{TOPIC}, as many"
# What each arm stands beside.
_AGAINST = {NAIVE: "", TOPIC: NAIVE, TASK: NAIVE, NAIVE_AS_MANY: TASK, TOPIC_AS_MANY: TASK}


@dataclass(slots=True)
class Kept:
    """How many papers an arm keeps, and how many of them are on a wrong task."""

    papers: int = 0
    wrong: int = 0

    @property
    def share(self) -> float:
        """The share of the wrong ones; 0 of none."""
        return self.wrong / self.papers if self.papers else 0.0


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A survey of a task: retrieved papers, best first, with their topic scores; those kept."""

    task: str
    topical: Mapping[str, int | None]
    kept: Sequence[str]


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured: `topics` of each library (None: all), `model` a SPEC (None: words)."""

    settings: Settings = field(default_factory=Settings)
    model: str | None = None
    topics: int | None = None
    seeds: Sequence[int] = SEEDS
    size: int = 600  # papers of a library


def figures(options: Options, tell: Tell = lambda _: None) -> list[Figure]:
    """Measure; medians over the libraries. With a model one library is surveyed.

    Raises ModelSpecError for a SPEC that means nothing, EndpointError.
    """
    runs = [
        asyncio.run(_measure(options, labelled(seed, options.size), tell))
        for seed in (options.seeds[:1] if options.model else options.seeds)
    ]
    return _figures(runs)


async def _measure(options: Options, data: Labelled, tell: Tell) -> dict[str, Kept]:
    roles = _open(options)
    try:
        if roles is not None:
            await roles.probe()
        with tempfile.TemporaryDirectory(prefix="hpcsci-bench-") as folder:
            tell(f"building a library of {len(data.papers)} papers")
            library = build_library(data, Path(folder))
            surveys = []
            for topic in data.topics[: options.topics]:
                if roles is not None:
                    tell(f"surveying {topic.task}")
                surveys.append(await survey(topic, library, options.settings, roles))
    finally:
        if roles is not None:
            await roles.close()
    return arms(surveys, data.tasks, options.settings.literature.threshold)


async def survey(
    topic: Topic, library: Library, settings: Settings, roles: Roles | None = None
) -> Surveyed:
    """Survey a topic, by words where no models are given."""
    ideation, review = (_client(role, settings, roles) for role in _ROLES)
    ranker = _Observed(ModelRanker(review) if review else WordRanker())
    surveyor = Surveyor(ideation, review, library, settings.literature, ranker)
    made = await surveyor.survey(as_recipe(topic))
    topical = {hit.paper_id: fit.topic for hit, fit in ranker.seen}
    return Surveyed(topic.task, topical, [paper.paper_id for paper in made.kept])


def _client(role: Role, settings: Settings, roles: Roles | None) -> RoleClient | None:
    if roles is None:
        return None
    return RoleClient(roles, role, getattr(settings, role), settings.seed, roles.windows[role])


class _Observed:
    """A ranker that remembers what it was given, in the order of retrieval."""

    def __init__(self, inner: Ranker) -> None:
        self._inner = inner
        self.seen: list[tuple[Hit, Fit]] = []

    async def rank(
        self, topic: schema.Topic, attributes: TaskAttributes, papers: Sequence[Hit]
    ) -> tuple[Fit, ...]:
        fits = await self._inner.rank(topic, attributes, papers)
        self.seen += zip(papers, fits, strict=True)
        return fits


def arms(surveys: Sequence[Surveyed], tasks: Mapping[str, str], threshold: int) -> dict[str, Kept]:
    """Return what each arm keeps of the surveys; `tasks` says the task of each paper."""
    found = {name: Kept() for name in _AGAINST}
    for of in surveys:
        retrieved, count = list(of.topical), len(of.kept)
        best = sorted(retrieved, key=lambda paper: -(of.topical[paper] or 0))
        chosen = {
            NAIVE: retrieved,
            TOPIC: [p for p in retrieved if (of.topical[p] or threshold) >= threshold],
            TASK: of.kept,
            NAIVE_AS_MANY: retrieved[:count],
            TOPIC_AS_MANY: best[:count],
        }
        for name, papers in chosen.items():
            found[name].papers += len(papers)
            found[name].wrong += sum(tasks[paper] != of.task for paper in papers)
    return found


def as_recipe(topic: Topic) -> schema.Topic:
    """Return a labelled topic as a recipe would state it."""
    return schema.Topic(
        title=topic.task,
        description=f"{topic.queries[0]}.",
        inputs=topic.attributes.inputs,
        outputs=topic.attributes.outputs,
        attributes=topic.attributes.other,
    )


def build_library(data: Labelled, folder: Path) -> Library:
    """Build a library of labelled papers in a folder, as `hpcsci library build` does."""
    source, library = folder / "labelled.jsonl", folder / "library"
    write_openalex(data.papers, source)
    build([source], library, jobs=1, index=LibraryIndex())
    return open_library(library)


def _open(options: Options) -> Roles | None:
    if options.model is None:
        return None
    from hpcscientist.models.open import open_models, role_specs  # noqa: PLC0415

    settings = options.settings
    return open_models(role_specs(settings, options.model), None, settings)


def _figures(runs: Sequence[Mapping[str, Kept]]) -> list[Figure]:
    middle = {name: statistics.median(run[name].share for run in runs) for name in _AGAINST}
    found = []
    for name, against in _AGAINST.items():
        shares = [run[name].share for run in runs]
        kept = statistics.median(run[name].papers for run in runs)
        beside = middle[against] if against else 0.0
        found.append(
            Figure(
                name=f"wrong task, {name}",
                value=middle[name],
                unit=f"of {kept:g} papers",
                compared_with=f"{against} {beside:.3f}" if against else None,
                ratio=middle[name] / beside if beside else None,
                target=TARGET if name == TASK else None,
                spread=max(shares) - min(shares),
                runs=len(runs),
            )
        )
    return found
