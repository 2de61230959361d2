"""A library of generated papers, each labelled with its task, made from a seed.

What makes retrieval hard in earnest is in it. Four schools of authors word each task in four
ways that share no telling word, and few name another's, so words alone miss most schools; what
all share are the data sets and measures of their task. And the tasks of a family share what
their papers are about, every method, and the names of each other: a paper on captions says
"image classification" too. Who searches for a task must tell it from its neighbours.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hpcscientist.records.literature import Paper, TaskAttributes

_TASKS = Path(__file__).with_name("tasks.toml")
_METHODS = (
    ("contrastive pre-training", "learns from pairs that should agree before any label is seen"),
    ("attention", "weighs all parts of the input against each other"),
    ("knowledge distillation", "lets a small network follow a large one"),
    ("data augmentation", "enlarges the training set by transformations that keep its meaning"),
    ("curriculum learning", "orders the examples from easy to hard"),
    ("mixture of experts", "routes each input to a few specialised parts"),
    ("adversarial training", "asks for the same answer under the worst small change"),
    ("a low-rank adapter", "changes few parameters of a frozen backbone"),
    ("a diffusion prior", "refines a first guess in many small steps"),
    ("self-training", "takes its own confident outputs as targets"),
    ("a memory bank", "keeps what was seen and looks it up"),
    ("Bayesian averaging", "averages over many weights instead of trusting one"),
    ("sparse gating", "switches most of the network off"),
    ("meta-learning", "learns how to adapt from a handful of examples"),
)
_QUALITIES = ("Robust", "Efficient", "Simple", "Scalable", "Calibrated", "Deep", "Fast", "Unified")
_NAMES = ("Ada", "Bo", "Chen", "Dufour", "Eze", "Farah", "Gómez", "Hoffmann", "Ito", "Jansen")
_SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo")
_TITLES = (
    "{quality} {phrase} with {method}",
    "{Method} for {phrase}",
    "How to {act}: the case for {method}",
    "On {phrase} by {method}",
    "{quality} networks that {act}",
)
_OPENINGS = (
    "{Phrase} matters wherever {thing} are plentiful and experts are few.",
    "We ask how to {act} when {thing} vary more than the training set does.",
    "To {act} remains hard, although {thing} are cheap to collect.",
)
_ALIASES = (
    "Others know it as {alias}.",
    "The problem goes by other names too, and the communities rarely cite each other.",
    "Little of what is published states its assumptions.",
)
_GAPS = (
    "Earlier work needs far more computation than a single node has.",
    "Most methods fail silently where the data shift.",
    "What is gained on one benchmark is often lost on the next.",
)
_NEIGHBOURS = (
    "Progress in {neighbour} has not carried over.",
    "Unlike {neighbour}, which starts from the same {thing}, it has no accepted recipe.",
    "We start from weights that were trained for {neighbour}.",
    "What is hard about it differs from site to site.",
    "No method is best on all of {thing}.",
)
_APPROACHES = (
    "We propose a method based on {method}, which {how}.",
    "Our network adds {method}: it {how}.",
    "The idea is {method}, which {how}; nothing else is changed.",
)
_RESULTS = (
    "On {mark} it improves on strong baselines, and {mark2} confirms it.",
    "Experiments with {mark} and {mark2} show gains over three seeds.",
    "Measured by {mark}, it is better; an analysis of {mark2} says why.",
)
_ENDINGS = (
    "Code and weights are released.",
    "Ablations show that {thing} matter less than believed.",
    "It trains in a day, and {mark3} no longer limits it.",
)


@dataclass(frozen=True, slots=True)
class Topic:
    """A task that one can search papers for.

    `queries` say the same in the words of each school, and once by what the task is measured
    with; `family` names the tasks that share its words.
    """

    task: str
    family: str
    attributes: TaskAttributes
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Labelled:
    """Papers, the task of each by its id, and the topics; a topic's `task` is its label."""

    papers: tuple[Paper, ...]
    tasks: Mapping[str, str]
    topics: tuple[Topic, ...]


@dataclass(frozen=True, slots=True)
class _Task:
    topic: Topic
    wordings: tuple[tuple[str, str], ...]
    marks: tuple[str, ...]
    things: tuple[str, ...]


def labelled(seed: int = 0, size: int = 600) -> Labelled:
    """Return `size` papers, as many of each task as possible, in an order drawn from `seed`.

    The same seed and size give the same papers everywhere.
    """
    tasks = _tasks()
    draw = random.Random(f"labelled {seed}")
    order = [number % len(tasks) for number in range(size)]
    draw.shuffle(order)
    papers = tuple(
        _paper(tasks[which], tasks, random.Random(f"labelled {seed} {number}"), number)
        for number, which in enumerate(order)
    )
    labels = {
        paper.paper_id: tasks[which].topic.task for paper, which in zip(papers, order, strict=True)
    }
    return Labelled(papers, MappingProxyType(labels), tuple(task.topic for task in tasks))


def _paper(task: _Task, tasks: tuple[_Task, ...], draw: random.Random, number: int) -> Paper:
    phrase, act = draw.choice(task.wordings)
    method, how = draw.choice(_METHODS)
    family = [t for t in tasks if t.topic.family == task.topic.family and t is not task]
    mark, mark2, mark3 = draw.sample(task.marks, 3)
    words = {
        "phrase": phrase,
        "Phrase": phrase[0].upper() + phrase[1:],
        "act": act,
        "method": method,
        "Method": method[0].upper() + method[1:],
        "how": how,
        "alias": draw.choice([name for name, _ in task.wordings if name != phrase]),
        "quality": draw.choice(_QUALITIES),
        "neighbour": draw.choice(draw.choice(family).wordings)[0],
        "mark": mark,
        "mark2": mark2,
        "mark3": mark3,
    }
    parts = (_OPENINGS, _ALIASES, _GAPS, _NEIGHBOURS, _APPROACHES, _RESULTS, _ENDINGS)
    sentences = [
        draw.choice(part).format(thing=draw.choice(task.things), **words) for part in parts
    ]
    return Paper(
        paper_id=f"openalex:W{4_000_000_000 + number}",
        title=f"{_name(number)}: {draw.choice(_TITLES).format(**words)}",
        abstract=" ".join(sentences),
        authors=tuple(draw.sample(_NAMES, draw.randint(1, 4))),
        year=draw.randint(2012, 2025),
        venue="Journal of Generated Papers",
        citations=int(draw.paretovariate(1.0)) - 1,
        source="openalex",
        origin=f"labelled.jsonl:{number + 1}",
    )


def _name(number: int) -> str:
    """Return the name of a method, as papers give their own: each number has another."""
    name = ""
    while number or len(name) < 6:
        number, place = divmod(number, len(_SYLLABLES))
        name += _SYLLABLES[place]
    return name.capitalize()


@lru_cache
def _tasks() -> tuple[_Task, ...]:
    document = tomllib.loads(_TASKS.read_text(encoding="utf-8"))
    return tuple(_task(entry, family) for family in document["family"] for entry in family["task"])


def _task(entry: dict[str, Any], family: dict[str, Any]) -> _Task:
    wordings = tuple((phrase, act) for phrase, act in entry["wordings"])
    topic = Topic(
        task=entry["name"],
        family=family["name"],
        attributes=TaskAttributes(
            inputs=entry["inputs"], outputs=entry["outputs"], other=tuple(entry["other"])
        ),
        queries=(
            *(f"{phrase}: {act}" for phrase, act in wordings),
            f"{entry['name']} measured on {', '.join(entry['marks'][:3])}",
        ),
    )
    return _Task(topic, wordings, tuple(entry["marks"]), tuple(family["things"]))
