"""Runs campaigns with a model and with the control arm, a pair for each seed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hpcscientist.bench import campaigns
from hpcscientist.bench.model.reading import Measured, read
from hpcscientist.config.settings import Settings
from hpcscientist.ports.telling import Tell

CONTROL = "search"


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured: campaigns of `settings` in `folder`, one for each of `seeds` seeds.

    `control` has the control arm run as many ideas with each seed, too.
    """

    settings: Settings
    folder: Path
    seeds: int = 3
    control: bool = True


@dataclass(frozen=True, slots=True)
class Pair:
    """The campaigns of one seed; `control` is None where the control arm was left out."""

    seed: int
    model: Measured
    control: Measured | None


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
    return Pair(settings.seed, model, control)
