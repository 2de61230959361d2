"""The extent of a campaign: ideas, rounds, ideas in flight, and which arm proposes each idea."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hpcscientist.records.idea import Arm

_ROUNDING: Final = 1e-9  # so that 5 x 0.2 is 1


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of the loop. `rounds` 0 means steady state.

    `control` is the share of ideas that the control arm proposes beside a language model. The
    control arm, which sees only outcomes, proposes idea `n` from outcomes up to idea `n - lag`.
    """

    ideas: int
    rounds: int
    in_flight: int
    lag: int
    model_name: str
    seed: int
    control: float = 0.0

    def arm(self, number: int) -> Arm:
        """Return which arm proposes an idea; the control arm's are spread evenly."""
        drawn, before = (drawn_of(count, self.control) for count in (number, number - 1))
        return "control" if drawn > before else "model"

    def first_of(self, round_number: int) -> int:
        """Return the number of the first idea of a round."""
        rounds = min(self.rounds, self.ideas) or 1
        return (round_number - 1) * self.ideas // rounds + 1

    def round_of(self, number: int) -> int:
        """Return the round of an idea, from 1; without rounds all ideas are in the first."""
        rounds = min(self.rounds, self.ideas) or 1
        # The inverse of `first_of`: the last round whose first idea is not after this one.
        return min(rounds, (number * rounds - 1) // self.ideas + 1)

    def batch(self, number: int, round_number: int, size: int) -> tuple[int, ...]:
        """Return the ideas of the batch that contains `number`; a batch ends with its round.

        Ideas of the control arm are left out, so `number` itself may be missing.
        """
        start, end = self.first_of(round_number), self.first_of(round_number + 1)
        first = start + (number - start) // size * size
        numbers = range(first, min(first + size, end))
        return tuple(n for n in numbers if self.arm(n) == "model")

    def chunks(self) -> Iterator[tuple[int, range]]:
        """Yield (round, idea numbers); a barrier follows each round."""
        rounds = min(self.rounds, self.ideas) or 1
        for index in range(rounds):
            yield index + 1, range(self.first_of(index + 1), self.first_of(index + 2))


def drawn_of(ideas: int, control: float) -> int:
    """Return how many of the first ideas the control arm proposes, if its share is `control`."""
    return math.floor(ideas * control + _ROUNDING)


# How many versions an idea's code has: guesses and bounds.

FIXES = 1  # guess: how often an idea's code is fixed
RUNS = 2  # guess: further runs of an idea, or ablations of its plan


@dataclass(frozen=True, slots=True)
class Versions:
    """The numbers of versions of one idea. `fixes`, `improvements`, `runs` are guesses; the rest
    are bounds.

    `first` counts versions written from the reference. `beside` counts versions with a pilot but
    no seeds, because another version of their tree is better. `ablates`: the further runs are the
    ablations that a plan names.
    """

    first: int
    beside: int
    fixes: int
    improvements: int
    runs: int
    runs_at_most: int
    ablates: bool


ONE = Versions(1, 0, 0, 0, 0, 0, ablates=False)  # for an idea of the control arm
