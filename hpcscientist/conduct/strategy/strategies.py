"""Which strategy each idea is pursued by, as a campaign is configured."""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.authoring.tree import Bounds
from hpcscientist.conduct.strategy.branches import Branches
from hpcscientist.conduct.strategy.following import Following
from hpcscientist.conduct.strategy.line import Legs, Line
from hpcscientist.conduct.strategy.measuring import Measuring
from hpcscientist.conduct.strategy.strategy import Strategy, Way
from hpcscientist.records.idea import Arm, idea_seed


@dataclass(frozen=True, slots=True)
class Strategies:
    """Chooses strategies. `bounds` are those of trees, None where each idea has one first version.

    `seed` is the campaign's. `debug_rounds`, `advice_rounds`, `further_runs`: as the settings have
    them; `advised` and `analysed`: a reviewer, or an analyst, takes part.
    """

    bounds: Bounds | None
    seed: int
    debug_rounds: int
    advice_rounds: int
    further_runs: int
    advised: bool
    analysed: bool
    measuring: Measuring

    def of(self, number: int, arm: Arm, parts: tuple[str, ...]) -> Strategy:
        """Return the strategy of idea `number`; `parts` of its method may be left out in turn.

        A setting of the control arm has one version, and nobody to look at it.
        """
        by_model = arm == "model"
        advised = self.advised and by_model
        legs = Legs(self.debug_rounds, self.advice_rounds, advised, self.measuring)
        way: Way = Line(legs)
        if self.bounds is not None and by_model:
            way = Branches(self.bounds, idea_seed(self.seed, number), legs)
        if self.bounds is None:
            parts = ()
        return Strategy(way, Following(self.further_runs, self.analysed and by_model, parts, legs))
