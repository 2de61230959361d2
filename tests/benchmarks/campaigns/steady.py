"""Ideas that flow, beside ideas in rounds: how long the same campaign takes, and what it costs.

A barrier makes all wait for the slowest idea of a round. The same recipe, model, seed and number
of ideas is run both ways; the order takes turns from run to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.campaigns.measuring import Ran, run, spread
from hpcscientist.bench.figure import Figure
from hpcscientist.config.settings import Settings
from hpcscientist.errors import UsageError
from hpcscientist.ports import Tell

IDEAS, EACH = 40, 10


@dataclass(frozen=True, slots=True)
class Options:
    """`settings.ideas` ideas, with a barrier after each `each` of them or without; `runs` pairs."""

    folder: Path
    settings: Settings = field(default_factory=Settings)
    each: int = EACH
    runs: int = 1


def measure(options: Options, tell: Tell) -> dict[str, list[Ran]]:
    """Run both ways `runs` times. Raises UsageError where there would be no barrier."""
    rounds, over = divmod(options.settings.ideas, options.each)
    if rounds < 2 or over:
        raise UsageError(
            f"{options.settings.ideas} ideas are not two or more rounds of {options.each}; give "
            "--ideas a multiple of --each"
        )
    ways = {"steady": 0, "rounds": rounds}
    found: dict[str, list[Ran]] = {way: [] for way in ways}
    for number in range(options.runs):
        order = list(ways) if number % 2 == 0 else list(reversed(ways))
        for way in order:
            settings = options.settings.model_copy(
                update={"rounds": ways[way], "seed": options.settings.seed + number}
            )
            found[way].append(run(f"{way}-{number}", settings, options.folder, tell))
    return found


def figures(found: dict[str, list[Ran]]) -> list[Figure]:
    """Return the times side by side, and the trials for each confirmed finding of either way."""
    times = {way: [r.seconds for r in runs if r.seconds is not None] for way, runs in found.items()}
    shown: list[Figure] = []
    if all(times.values()):
        steady, rounds = median(times["steady"]), median(times["rounds"])
        shown.append(
            Figure(
                name="makespan, steady state",
                value=steady,
                unit="s",
                compared_with=f"the same ideas in rounds, {rounds:.1f} s",
                ratio=steady / rounds,
                target=1.0,
                spread=spread(times["steady"]),
                runs=len(times["steady"]),
            )
        )
    return [*shown, *(_cost(way, runs) for way, runs in found.items())]


def _cost(way: str, runs: Sequence[Ran]) -> Figure:
    trials, confirmed = sum(r.trials for r in runs), sum(r.confirmed for r in runs)
    name = "steady state" if way == "steady" else "rounds"
    return Figure(
        name=f"trials for each confirmed finding, {name}",
        value=trials / confirmed if confirmed else float(trials),
        unit=f"trials ({trials} in all, {confirmed} confirmed)",
        compared_with=None,
        ratio=None,
        target=None,
        spread=spread([r.trials / r.confirmed if r.confirmed else float(r.trials) for r in runs]),
        runs=len(runs),
    )
