"""How far and how wide a campaign goes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hpcscientist.records.idea import Arm

_ROUNDING: Final = 1e-9  # 5 x 0.2 is to be 1


@dataclass(frozen=True, slots=True)
class Extent:
    """How far and how wide the loop goes. `rounds` 0 means steady state.

    `control` is the share of ideas that the control arm proposes beside a language model. What
    idea `n` is proposed from are outcomes up to `n - lag`, where outcomes alone are told.
    """

    ideas: int
    rounds: int
    in_flight: int
    lag: int
    model_name: str
    seed: int
    control: float = 0.0

    def arm(self, number: int) -> Arm:
        """Who proposes an idea: the control arm's are spread evenly over the campaign."""
        drawn, before = (drawn_of(count, self.control) for count in (number, number - 1))
        return "control" if drawn > before else "model"

    def first_of(self, round_number: int) -> int:
        """The first idea of a round."""
        rounds = min(self.rounds, self.ideas) or 1
        return (round_number - 1) * self.ideas // rounds + 1

    def round_of(self, number: int) -> int:
        """The round of an idea, from 1; all are of the first where there are no rounds."""
        rounds = min(self.rounds, self.ideas) or 1
        # By the definition of `first_of`: the largest whose first idea is not after this one.
        return min(rounds, (number * rounds - 1) // self.ideas + 1)

    def batch(self, number: int, round_number: int, size: int) -> tuple[int, ...]:
        """The ideas of one batch; a batch ends with its round. The control arm's are not among
        them, so nor need `number` be.
        """
        start, end = self.first_of(round_number), self.first_of(round_number + 1)
        first = start + (number - start) // size * size
        numbers = range(first, min(first + size, end))
        return tuple(n for n in numbers if self.arm(n) == "model")

    def chunks(self) -> Iterator[tuple[int, range]]:
        """Yield (round, idea numbers); there is a barrier after each."""
        rounds = min(self.rounds, self.ideas) or 1
        for index in range(rounds):
            yield index + 1, range(self.first_of(index + 1), self.first_of(index + 2))


def drawn_of(ideas: int, control: float) -> int:
    """Return how many of the first ideas the control arm proposes, if its share is `control`."""
    return math.floor(ideas * control + _ROUNDING)


# How many versions of an idea's code there will be: what is likely, and the most.

FIXES = 1  # guess: how often an idea's code is fixed
RUNS = 2  # guess: further runs of an idea, or ablations of its plan


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of one idea. Guesses: `fixes`, `improvements`, `runs`; the rest are bounds.

    `first` are written from the reference; `beside` have a pilot and no seeds, for another
    version of their tree is better. `ablates`: further runs are those that a plan names.
    """

    first: int
    beside: int
    fixes: int
    improvements: int
    runs: int
    runs_at_most: int
    ablates: bool


ONE = Versions(1, 0, 0, 0, 0, 0, ablates=False)  # of an idea of the control arm
