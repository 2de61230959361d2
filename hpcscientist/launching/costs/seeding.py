"""How many seeds ideas will be given, and how far they climb, told before anything is run."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

from hpcscientist.config.settings import LoopSettings
from hpcscientist.feedback.effort import Schedule, most_seeds, schedule_of


@dataclass(frozen=True, slots=True)
class Seeding:
    """Seeds of one attempt of every idea, all ideas together.

    `least` and `most` are bounds where every idea is scored. `likely` is a guess, and so is
    `whole`: how many ideas are not given up before their last seed, and so have further runs.
    `on_steps` guesses how many ideas come to each step below the full budget, `least_steps` bounds
    their trials there.
    """

    least: int
    likely: int
    most: int
    whole: int
    on_steps: tuple[int, ...] = ()
    least_steps: int = 0


def seeding(loop: LoopSettings, seeds: int, ideas: int, steps: int = 0) -> Seeding:
    """Return what ideas will be given, by the recipe's number of seeds, and of `steps` to climb.

    Guesses: a sequential test takes the recipe's number, which it is built around; of those that
    come to a rung as many go on as if they came in any order.
    """
    schedule, most = schedule_of(loop, seeds), most_seeds(loop, seeds)
    if schedule is None:
        return Seeding(ideas * seeds, ideas * seeds, ideas * seeds, ideas)
    first = schedule.looks[0]
    if loop.allocation == "sequential":
        return Seeding(ideas * first, ideas * min(seeds, most), ideas * most, ideas)
    unranked = min(ideas, ceil(loop.halving) - 1)
    on_steps, come = [], float(ideas)
    for _ in range(steps):
        on_steps.append(round(come))
        come = _going_on(come, loop.halving)
    likely, whole = _climb(schedule, loop.halving, come)
    arrive = unranked if steps else ideas  # at the full budget, at the least
    least = arrive * first + unranked * (most - first)
    least_steps = ideas + unranked * (steps - 1) if steps else 0
    return Seeding(least, likely, ideas * most, whole, tuple(on_steps), least_steps)


def seeds_said(loop: LoopSettings, seeds: int) -> str:
    """Say in words how many seeds an idea is given."""
    schedule = schedule_of(loop, seeds)
    if schedule is None:
        return f"{seeds} seeds"
    first, most = schedule.looks[0], schedule.at_most
    spread = f"{most}" if first == most else f"{first} to {most}"
    return f"{spread} seeds ({loop.allocation})"


def _climb(schedule: Schedule, rate: float, come: float) -> tuple[int, int]:
    """Guess the seeds of ideas on a ladder of rungs, and how many come to its end."""
    total, below = 0.0, 0
    for rung in schedule.looks:
        if below:
            come = _going_on(come, rate)
        total += come * (rung - below)
        below = rung
    return round(total), round(come)


def _going_on(come: float, rate: float) -> float:
    """Guess how many of those that come to a rung go on from it."""
    return sum(_share(number, rate) for number in range(1, round(come) + 1))


def _share(number: int, rate: float) -> float:
    """How probable it is that the idea that comes to a rung as this number goes on."""
    return 1.0 if number < rate else floor(number / rate) / number
