"""Simulated campaigns: the values that ideas and baseline would score, with known true effects.

A value is the baseline's level, plus the idea's true effect, plus what its seed does to every
method alike (so that pairing by seed helps), plus noise of its own. The unit is the standard
deviation of one value of the baseline: of its square, `correlation` is the seed's part. The
validation and the test split have the same true effects and nothing else in common: other
seeds, other noise.

Not simulated: effects that differ between the splits, noise that is not normal, and ideas that
learn from one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

LEVEL: Final = 10.0  # of the baseline; far from 0, as a metric's values are
FRESH: Final = 1_000_000  # the first seed of a confirmation

Numbers = npt.NDArray[np.float64]
BySeed = dict[int, float]


@dataclass(frozen=True, slots=True)
class Ideas:
    """What is true of a campaign's ideas: effect, and how much noisier than the baseline (1)."""

    effects: Numbers
    noise: Numbers


@dataclass(frozen=True, slots=True)
class Split:
    """The values by seed of the baseline and of each idea, by its id."""

    baseline: BySeed
    ideas: dict[str, BySeed]

    def first(self, seeds: int) -> Split:
        """Return the same with the first seeds alone."""
        return Split(
            dict(list(self.baseline.items())[:seeds]),
            {idea: dict(list(values.items())[:seeds]) for idea, values in self.ideas.items()},
        )


@dataclass(frozen=True, slots=True)
class Campaign:
    """One simulated campaign: the true effect of each idea, and what both splits show of it."""

    effects: dict[str, float]
    validation: Split
    test: Split

    def first(self, seeds: int) -> Campaign:
        """Return the same with the first seeds of each split alone."""
        return Campaign(self.effects, self.validation.first(seeds), self.test.first(seeds))


@dataclass(frozen=True, slots=True)
class World:
    """How many campaigns of how many ideas, and how they are drawn.

    The same `seed` gives the same campaigns, whatever is asked of them.
    """

    campaigns: int = 1000
    ideas: int = 50
    correlation: float = 0.5
    seed: int = 0

    def draw(self, ideas: Callable[[np.random.Generator], Ideas], seeds: int) -> Iterator[Campaign]:
        """Draw campaigns with `seeds` seeds on each split, and their ideas in order of proposal.

        Raises ValueError for counts below 1 and a correlation outside [0, 1).
        """
        if min(self.campaigns, self.ideas, seeds) < 1:
            raise ValueError("campaigns, ideas and seeds are at least 1")
        if not 0 <= self.correlation < 1:
            raise ValueError("the correlation is at least 0 and below 1")
        for number in range(self.campaigns):
            of_ideas, of_search, of_test = (
                np.random.default_rng([self.seed, number, what]) for what in range(3)
            )
            true = ideas(of_ideas)
            fresh = range(FRESH, FRESH + seeds)
            names = [f"idea-{k:04d}" for k in range(1, self.ideas + 1)]
            yield Campaign(
                effects=dict(zip(names, true.effects.tolist(), strict=True)),
                validation=self._split(of_search, true, names, range(seeds)),
                test=self._split(of_test, true, names, fresh),
            )

    def _split(
        self, source: np.random.Generator, true: Ideas, names: list[str], seeds: range
    ) -> Split:
        effects = np.concatenate([[0.0], true.effects])[:, None]
        noise = np.concatenate([[1.0], true.noise])[:, None]
        # Seed after seed, so that more of them leave the values of the first ones as they were.
        drawn = source.normal(size=(len(seeds), self.ideas + 2)).T
        shared, own = (
            drawn[0] * np.sqrt(self.correlation),
            drawn[1:] * np.sqrt(1 - self.correlation),
        )
        rows = (LEVEL + effects + shared + noise * own).tolist()
        by_seed = [dict(zip(seeds, row, strict=True)) for row in rows]
        return Split(by_seed[0], dict(zip(names, by_seed[1:], strict=True)))
