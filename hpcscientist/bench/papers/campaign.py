"""A small campaign, its facts and its library, which the benchmark's statements are about.

The seeds' values are made up; the facts are computed from them as for a real campaign.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hpcscientist.papers.facts.counted import count
from hpcscientist.papers.facts.measured import Group, Maker, statistics
from hpcscientist.records.facts import (
    BASELINE,
    Fact,
    FactIdea,
    FactKind,
    FactMetric,
    FactSheet,
    RunOf,
    Scope,
    Source,
    TrialRow,
    exact,
    printed,
)
from hpcscientist.records.findings import ResultRow, Verdict
from hpcscientist.records.literature import Paper
from hpcscientist.records.trial import Direction, MetricSpec, Split

F1 = MetricSpec(name="f1", direction=Direction.MAXIMIZE, minimum_effect=0.005)
LOSS = MetricSpec(name="loss", direction=Direction.MINIMIZE)
_SEEDS = {Split.VALIDATION: 5, Split.TEST: 8}
# The seeds' deviations from their mean, in units of the spread; each row has mean 0.
_NOISE = {
    Split.VALIDATION: (-1.2, 0.4, 1.1, -0.6, 0.3),
    Split.TEST: (0.9, -1.1, 0.2, -0.4, 1.3, -0.8, 0.5, -0.6),
}


@dataclass(frozen=True)
class _Measured:
    """An attempt's mean F1 and loss by split; `spread` is that of F1."""

    idea: str
    attempt: int
    run: RunOf
    means: Mapping[Split, tuple[float, float]]
    spread: float
    turn: int  # rotates the noise, so that attempts differ
    learning_rate: float = 0.05
    p_adjusted: float | None = None


_V, _T = Split.VALIDATION, Split.TEST
_ATTEMPTS = (
    _Measured(BASELINE, 1, "main", {_V: (0.8412, 0.561), _T: (0.8356, 0.572)}, 0.0041, 0),
    _Measured(
        *("idea-0001", 1, "main", {_V: (0.8694, 0.498), _T: (0.8617, 0.511)}, 0.0036, 1),
        learning_rate=0.1,
        p_adjusted=0.0031,
    ),
    _Measured("idea-0001", 2, "ablation", {_V: (0.8533, 0.534)}, 0.0044, 2, 0.1),
    _Measured("idea-0001", 3, "sensitivity", {_V: (0.8607, 0.519)}, 0.0039, 3, 0.05),
    _Measured(
        "idea-0002",
        1,
        "main",
        {_V: (0.8561, 0.602), _T: (0.8371, 0.611)},
        0.0052,
        4,
        p_adjusted=0.021,
    ),
    _Measured("idea-0003", 1, "main", {_V: (0.8127, 0.643)}, 0.0061, 2, p_adjusted=0.0012),
    _Measured("idea-0004", 1, "main", {_V: (0.8425, 0.559)}, 0.0047, 3, p_adjusted=0.44),
    _Measured(
        "idea-0005", 1, "main", {_V: (0.8586, 0.521), _T: (0.8539, 0.529)}, 0.0029, 1, 0.02, 0.0044
    ),
    _Measured("idea-0005", 2, "ablation", {_V: (0.8481, 0.547)}, 0.0033, 4, 0.02),
    _Measured("idea-0008", 1, "main", {_V: (0.8549, 0.532)}, 0.0038, 2, p_adjusted=0.018),
)

IDEAS = (
    FactIdea(
        idea_id=BASELINE,
        title="the recipe's reference code",
        status="baseline",
        attempt=1,
        names=("baseline", "reference"),
    ),
    FactIdea(
        idea_id="idea-0001",
        title="Cosine schedule of the learning rate with warm-up",
        status="scored",
        verdict=Verdict.IMPROVEMENT,
        confirmed=True,
        attempt=1,
        parts={2: "No warm-up", 3: "Half the peak rate"},
    ),
    FactIdea(
        idea_id="idea-0002",
        title="Label smoothing",
        status="scored",
        verdict=Verdict.IMPROVEMENT,
        confirmed=False,
        attempt=1,
    ),
    FactIdea(
        idea_id="idea-0003",
        title="Heavy dropout on all layers",
        status="scored",
        verdict=Verdict.DECLINE,
        attempt=1,
    ),
    FactIdea(
        idea_id="idea-0004",
        title="Gradient clipping by the global norm",
        status="scored",
        verdict=Verdict.MAINTENANCE,
        attempt=1,
    ),
    FactIdea(
        idea_id="idea-0005",
        title="Mixup of recordings",
        status="scored",
        verdict=Verdict.IMPROVEMENT,
        confirmed=True,
        attempt=1,
        parts={2: "No silence filter"},
    ),
    FactIdea(
        idea_id="idea-0006",
        title="A committee of recorders",
        status="failed",
        failure="timeout",
        reason="timeout: it ran past its deadline",
    ),
    FactIdea(
        idea_id="idea-0007",
        title="Smoothed targets for labels",
        status="rejected",
        reason="looks like idea-0002",
    ),
    FactIdea(
        idea_id="idea-0008",
        title="Wider receptive fields",
        status="scored",
        verdict=Verdict.IMPROVEMENT,
        attempt=1,
    ),
)

_ABSTRACTS = (
    (
        "arxiv:1608.03983",
        "SGDR: Stochastic Gradient Descent with Warm Restarts",
        ("Loshchilov, Ilya", "Hutter, Frank"),
        2017,
        "It restarts the learning rate with a cosine decay and improves the anytime performance of "
        "stochastic gradient descent when deep networks for images are trained.",
    ),
    (
        "arxiv:1706.02677",
        "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour",
        ("Goyal, Priya", "Dollar, Piotr", "Girshick, Ross"),
        2017,
        "The recipe scales the learning rate with the minibatch size and warms it up over the "
        "first epochs, so that training with large minibatches loses no accuracy.",
    ),
    (
        "arxiv:1906.02629",
        "When Does Label Smoothing Help?",
        ("Mueller, Rafael", "Kornblith, Simon", "Hinton, Geoffrey"),
        2019,
        "It shows that label smoothing improves the calibration of networks but hurts knowledge "
        "distillation, since it draws examples of one class together.",
    ),
    (
        "arxiv:1710.09412",
        "mixup: Beyond Empirical Risk Minimization",
        ("Zhang, Hongyi", "Cisse, Moustapha", "Dauphin, Yann", "Lopez-Paz, David"),
        2018,
        "Mixup trains a network on convex combinations of pairs of examples and their labels. This "
        "regularises the network to favour simple linear behaviour between training examples.",
    ),
    (
        "srivastava2014dropout",
        "Dropout: A Simple Way to Prevent Neural Networks from Overfitting",
        ("Srivastava, Nitish", "Hinton, Geoffrey", "Krizhevsky, Alex"),
        2014,
        "The method drops units at random during training, which prevents them from co-adapting "
        "too much and reduces overfitting.",
    ),
    (
        "arxiv:1211.5063",
        "On the difficulty of training Recurrent Neural Networks",
        ("Pascanu, Razvan", "Mikolov, Tomas", "Bengio, Yoshua"),
        2013,
        "It rescales gradients whose norm exceeds a threshold, which deals with exploding "
        "gradients in recurrent networks.",
    ),
    (
        "arxiv:1512.03385",
        "Deep Residual Learning for Image Recognition",
        ("He, Kaiming", "Zhang, Xiangyu", "Ren, Shaoqing", "Sun, Jian"),
        2016,
        "Residual connections ease the training of deep networks for images, as experiments on "
        "ImageNet and CIFAR-10 show.",
    ),
)


@dataclass(frozen=True)
class PaperShelf:
    """Papers by their ids."""

    papers: Mapping[str, Paper] = field(
        default_factory=lambda: {
            paper_id: Paper(
                paper_id=paper_id,
                title=title,
                authors=authors,
                year=year,
                abstract=abstract,
                source="bibtex",
                origin="papers.bib",
            )
            for paper_id, title, authors, year, abstract in _ABSTRACTS
        }
    )

    def paper(self, paper_id: str) -> Paper | None:
        """Return a paper; None if it is not there."""
        return self.papers.get(paper_id)


def sheet() -> FactSheet:
    """Return the campaign's facts."""
    return FactSheet(
        campaign_id="sounds-0001",
        recipe="sounds",
        metrics=(
            FactMetric(name="f1", direction=Direction.MAXIMIZE, share=True),
            FactMetric(name="loss", direction=Direction.MINIMIZE, share=False),
        ),
        ideas=IDEAS,
        names=("ESC-50", "WRN-28-10", "f1"),
        facts=(*_measured(), *_counted(), *_set()),
    )


def _measured() -> Iterator[Fact]:
    baseline = _ATTEMPTS[0]
    for attempt in _ATTEMPTS:
        for split in attempt.means:
            for place, metric in enumerate((F1, LOSS)):
                part = "" if attempt.run == "main" else f"{attempt.run}-{attempt.attempt}."
                group = Group(
                    prefix=f"{attempt.idea}.{part}{split}",
                    whose=attempt.idea,
                    idea=attempt.idea,
                    attempt=attempt.attempt,
                    run=attempt.run,
                    split=split,
                    trials={},
                )
                rows = _rows(attempt, split, place)
                theirs = {} if attempt is baseline else _rows(baseline, split, place)
                source = Source(trials=(*rows.values(), *theirs.values()))
                make = Maker(group, metric, metric is F1, source)
                yield from statistics(make, rows, theirs, source, _row(attempt, metric))


def _rows(attempt: _Measured, split: Split, place: int) -> dict[int, TrialRow]:
    mean, noise = attempt.means[split][place], _NOISE[split]
    spread = attempt.spread if place == 0 else -3 * attempt.spread
    stage = "search" if split is Split.VALIDATION else "confirm"
    return {
        seed: TrialRow(
            trial=f"{attempt.idea}-a{attempt.attempt}-{stage}-{index}",
            run=1,
            position=place,
            seed=seed,
            value=round(mean + spread * noise[(index + attempt.turn) % len(noise)], 6),
            file=f"trials/{attempt.idea}-a{attempt.attempt}-{stage}-{index}/result.arrow",
            row_hash=f"{index:064x}",
        )
        for index in range(_SEEDS[split])
        for seed in [1000 * (1 + list(Split).index(split)) + index]
    }


def _row(attempt: _Measured, metric: MetricSpec) -> ResultRow | None:
    if attempt.p_adjusted is None or attempt.run != "main" or metric is not F1:
        return None
    idea = next(idea for idea in IDEAS if idea.idea_id == attempt.idea)
    baseline = _ATTEMPTS[0].means
    on_test = attempt.means.get(Split.TEST)
    values = dict.fromkeys(ResultRow.model_fields)
    values |= {
        "idea_id": idea.idea_id,
        "parent_ids": (),
        "round": 1,
        "title": idea.title,
        "status": "scored",
        "finding": idea.verdict,
        "metric": metric.name,
        "direction": metric.direction.value,
        "delta": attempt.means[Split.VALIDATION][0] - baseline[Split.VALIDATION][0],
        "p_adjusted": attempt.p_adjusted,
        "test_delta": on_test[0] - baseline[Split.TEST][0] if on_test else None,
        "undecided": False,
    }
    return ResultRow.model_validate(values)


def _counted() -> Iterator[Fact]:
    source = Source(method="counted in the journal")
    for name, number in (
        *(("proposed", 12), ("rejected", 3), ("failed", 2), ("scored", 7), ("improved", 4)),
        *(("unchanged", 1), ("declined", 1), ("undecided", 1), ("confirmed", 2)),
        *(("unconfirmed", 1), ("failed.timeout", 1), ("failed.error", 1)),
    ):
        label = f"ideas {name.replace('.', ': ')}"
        yield count(f"campaign.ideas.{name}", label, number, "ideas", name, source)
    yield count("campaign.looks.test", "looks at the test split", 3, "looks", "looks", source)
    for name, number in (("run", 96), ("scored", 91), ("failed", 5), ("machine_failed", 0)):
        yield count(f"campaign.trials.{name}", f"trials {name}", number, "trials", name, source)
    for name, cost, unit in (
        ("tokens.total", 412_733.0, "tokens"),
        ("cost.cpu", 3.417, "CPU-hours"),
        ("cost.gpu", 0.862, "GPU-hours"),
    ):
        fact_id = f"campaign.{name}"
        yield Fact(
            id=fact_id, label=unit, kind=FactKind.COST, unit=unit, value=cost, text=printed(cost)
        )


def _set() -> Iterator[Fact]:
    for fact_id, value, unit in (
        ("recipe.seeds", 5.0, "seeds"),
        ("recipe.budget.pilot", 60.0, "seconds"),
        ("recipe.budget.full", 600.0, "seconds"),
        ("recipe.resources.memory_mb", 2048.0, "MiB"),
        ("recipe.minimum_effect.f1", 0.005, "f1"),
        ("campaign.level", 0.05, ""),
        ("campaign.confidence", 0.95, ""),
    ):
        yield Fact(
            id=fact_id,
            label=fact_id.replace(".", " "),
            kind=FactKind.SETTING,
            unit=unit,
            value=value,
            text=exact(value),
            share=fact_id.startswith("campaign."),
            scope=Scope(of=fact_id.partition(".")[2]),
        )
    for folder, rows in (("train", 1840), ("validation", 420), ("test", 460)):
        yield Fact(
            id=f"recipe.data.{folder}.rows",
            label=f"rows of the {folder} data",
            kind=FactKind.SIZE,
            unit="rows",
            value=float(rows),
            text=str(rows),
            scope=Scope(of=folder),
        )
    yield Fact(
        id="recipe.published",
        label="published f1 of the baseline",
        kind=FactKind.PUBLISHED,
        unit="f1",
        value=0.8801,
        text="0.8801",
        scope=Scope(idea=BASELINE, metric="f1"),
        source=Source(setup="their own split, ten times as many recordings"),
    )
    for attempt in _ATTEMPTS:
        part = "" if attempt.run == "main" else f".{attempt.run}-{attempt.attempt}"
        for name, value in (
            ("LEARNING_RATE", attempt.learning_rate),
            ("BATCH_SIZE", 64.0),
            ("EPOCHS", 30.0),
        ):
            yield Fact(
                id=f"{attempt.idea}{part}.code.{name}",
                label=f"{name} in the code of {attempt.idea}{part}",
                kind=FactKind.HYPERPARAMETER,
                value=value,
                text=exact(value),
                scope=Scope(idea=attempt.idea, attempt=attempt.attempt, run=attempt.run, of=name),
                source=Source(lines=(12, 12)),
            )
