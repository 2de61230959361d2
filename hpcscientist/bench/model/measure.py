"""Runs campaigns with a model and with the control arm, a pair for each seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpcscientist.bench import campaigns
from hpcscientist.bench.model.reading import Measured, read
from hpcscientist.config.settings import Settings
from hpcscientist.ports.telling import Tell

CONTROL = "search"

# Parts of the loop that can be left out, each by a section of the settings and what it sets there.
PARTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "survey": ("literature", {"survey": False}),
    "directions": ("proposing", {"batch": 1}),
    "reflection": ("proposing", {"reflections": 0}),
    "novelty": ("proposing", {"novelty_rounds": 0}),
    "feasibility": ("proposing", {"feasibility": False}),
    "concepts": ("literature", {"concepts": 0}),
    "plan": ("authoring", {"plan": False}),
    "review": ("authoring", {"advice_rounds": 0}),
    "structure": ("authoring", {"debugging": "none"}),
    "further-runs": ("authoring", {"further_runs": 0}),
}


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured: campaigns of `settings` in `folder`, one for each of `seeds` seeds.

    `control` has the control arm run as many ideas with each seed, too. `without` names parts of
    `PARTS` that are left out, one at a time, in further campaigns with the same seeds.
    """

    settings: Settings
    folder: Path
    seeds: int = 3
    control: bool = True
    without: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """The campaigns of one seed; `control` is None where the control arm was left out, `without`
    holds those that lack a part, by its name.
    """

    seed: int
    model: Measured
    control: Measured | None
    without: Mapping[str, Measured] = field(default_factory=dict)


def measure(options: Options, tell: Tell) -> list[Pair]:
    """Run every campaign and read it. Raises what a launch or a driver raises."""
    first = options.settings.seed
    seeds = range(first, first + options.seeds)
    return [
        _pair(options.settings.model_copy(update={"seed": seed}), options, tell) for seed in seeds
    ]


def _pair(settings: Settings, options: Options, tell: Tell) -> Pair:
    control = None
    if options.control:
        searched = settings.model_copy(update={"model": CONTROL, "control": 0.0})
        name = f"{CONTROL}-{settings.seed}"
        control = read(campaigns.run(name, searched, options.folder, tell))
    model = read(campaigns.run(f"model-{settings.seed}", settings, options.folder, tell))
    lacking = {}
    for part in options.without:
        name = f"without-{part}-{settings.seed}"
        lacking[part] = read(campaigns.run(name, _left_out(settings, part), options.folder, tell))
    return Pair(settings.seed, model, control, lacking)


def _left_out(settings: Settings, part: str) -> Settings:
    section, changes = PARTS[part]
    changed = getattr(settings, section).model_copy(update=dict(changes))
    return settings.model_copy(update={section: changed})
