"""`benchmarks retrieval`: how many of the papers on a task are found, on labelled papers.

Each search is asked every query of every task. Recall is the share of the task's papers that are
among the first 50 hits (of 50, where it has more), precision the share of the first 10 that are
on the task; both are averaged over queries. A library is built from files as any other.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from benchmarks.retrieval.files import write_openalex
from benchmarks.retrieval.labelled import Labelled, labelled
from hpcscientist.bench.figure import Figure
from hpcscientist.config.settings import EmbeddingSettings
from hpcscientist.literature.index.search import open_library
from hpcscientist.literature.index.update import LibraryIndex
from hpcscientist.literature.library.build import build
from hpcscientist.ports import Library, Tell
from hpcscientist.records.literature import SearchBy

RECALL_AT, PRECISION_AT = 50, 10
SEARCHES: tuple[SearchBy, ...] = get_args(SearchBy)
NAMES = {"keyword": "keyword", "embedding": "embedding", "both": "combined"}
# The combination should be as good as the better one, whichever that is, to within this.
TARGET = 0.97


@dataclass(frozen=True, slots=True)
class Quality:
    """Recall and precision, from 0 to 1, averaged over queries."""

    recall: float
    precision: float


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured: libraries of `size` papers, one a seed; vectors as `embedding` says."""

    size: int = 600
    seeds: int = 3
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)


@dataclass(frozen=True, slots=True)
class Measured:
    """The quality of each search in each library, and what draws at random would have."""

    by: Mapping[SearchBy, tuple[Quality, ...]]
    chance: Quality
    embedder: str

    def mean(self, by: SearchBy) -> Quality:
        """Return the mean over the libraries."""
        found = self.by[by]
        return Quality(
            statistics.fmean(q.recall for q in found), statistics.fmean(q.precision for q in found)
        )


def measure(options: Options, tell: Tell = lambda text: None) -> Measured:
    """Build the libraries and ask them. Raises LibraryError, ModelError."""
    found: dict[SearchBy, list[Quality]] = {by: [] for by in SEARCHES}
    chances, embedder = [], ""
    for seed in range(options.seeds):
        tell(f"library {seed + 1} of {options.seeds}, {options.size} papers")
        made = labelled(seed, options.size)
        chances.append(_chance(made))
        with tempfile.TemporaryDirectory(prefix="hpcsci-bench-") as folder:
            write_openalex(made.papers, Path(folder, "papers.jsonl"))
            out = Path(folder, "library")
            build([Path(folder, "papers.jsonl")], out, index=LibraryIndex(options.embedding))
            library = open_library(out)
            embedder = library.embedding
            for by in SEARCHES:
                found[by].append(quality(made, library, by))
    chance = Quality(
        statistics.fmean(q.recall for q in chances), statistics.fmean(q.precision for q in chances)
    )
    return Measured({by: tuple(q) for by, q in found.items()}, chance, embedder)


def quality(made: Labelled, library: Library, by: SearchBy) -> Quality:
    """Return the quality of one search in a library of labelled papers."""
    recalls, precisions = [], []
    for topic in made.topics:
        relevant = {paper for paper, task in made.tasks.items() if task == topic.task}
        for query in topic.queries if relevant else ():
            hits = [hit.paper_id for hit in library.search(query, RECALL_AT, by)]
            recalls.append(len(relevant.intersection(hits)) / min(RECALL_AT, len(relevant)))
            first = hits[:PRECISION_AT]
            precisions.append(len(relevant.intersection(first)) / PRECISION_AT)
    return Quality(statistics.fmean(recalls), statistics.fmean(precisions))


def figures(measured: Measured) -> list[Figure]:
    """Return the figures of contract 1."""
    return [_figure(measured, by, name, at) for name, at in _MEASURES.items() for by in SEARCHES]


def table(measured: Measured) -> str:
    """Return the figures as one table for people."""
    lines = [f"{'search':<10} {'recall@50':>10} {'precision@10':>13}"]
    rows = {NAMES[by]: measured.mean(by) for by in SEARCHES} | {"at random": measured.chance}
    lines += [f"{name:<10} {q.recall:>10.3f} {q.precision:>13.3f}" for name, q in rows.items()]
    return "\n".join(lines)


_MEASURES = {"recall": RECALL_AT, "precision": PRECISION_AT}


def _figure(measured: Measured, by: SearchBy, name: str, at: int) -> Figure:
    each = [getattr(q, name) for q in measured.by[by]]
    value = statistics.fmean(each)
    alone = {NAMES[b]: getattr(measured.mean(b), name) for b in SEARCHES if b != "both"}
    better = max(alone, key=alone.__getitem__)
    chance = getattr(measured.chance, name)
    against, other = (better, alone[better]) if by == "both" else ("at random", chance)
    return Figure(
        name=f"{name}@{at} by {NAMES[by]} search",
        value=value,
        unit="of 1",
        compared_with=f"{against}: {other:.3f}",
        ratio=value / other if other else None,
        target=TARGET if by == "both" else None,
        spread=max(each) - min(each),
        runs=len(each),
        at_least=True,
    )


def _chance(made: Labelled) -> Quality:
    """Return what papers drawn at random would have."""
    size = max(1, len(made.papers))
    counts = [list(made.tasks.values()).count(topic.task) for topic in made.topics]
    counts = [count for count in counts if count]
    drawn = min(RECALL_AT, size) / size
    return Quality(
        statistics.fmean(drawn * n / min(RECALL_AT, n) for n in counts),
        statistics.fmean(n / size for n in counts),
    )
