"""The control arm: Optuna over a recipe's knobs, with no language model.

A model's proposals should be compared with this. The sampler is the tree-structured Parzen
estimator (Bergstra et al., 2011) as Optuna ships it.

It keeps no state: each proposal uses a fresh sampler, seeded by the idea's number and given the
outcomes in its task. So a proposal depends on these alone, not on the driver that asks, its slots,
or what happened in between.

The sampler computes with every outcome it is given, so proposals would take longer and longer. Old
outcomes have little weight in it (Watanabe, arXiv 2304.11127, section 3.2), except for the best
ones, of which it treats at most 25 as good. So it is given the best 25 and the latest, MOST_TOLD in
all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hpcscientist.errors import UsageError
from hpcscientist.recipe.schema import Knob
from hpcscientist.records.idea import KnobValue, Proposal, idea_seed
from hpcscientist.records.objective import ranked
from hpcscientist.records.proposing import PastScore, ProposalTask, Proposed

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from hpcscientist.recipe.load import Recipe

STARTUP_TRIALS = 8  # drawn at random before the estimator has enough outcomes
MOST_TOLD = 200  # scores that the estimator is given
_BEST = 25  # the most that Optuna treats as good, however many there are
_TITLE = 200


class SearchProposer:
    """Proposes settings of the recipe's knobs; implements `ports.Proposer`."""

    by_outcomes = True

    def __init__(self, recipe: Recipe, seed: int) -> None:
        """Create the sampler. Raises UsageError if there are no knobs, or one without any value."""
        from hpcscientist.ideation.sampling import Sampling  # noqa: PLC0415 (heavy)

        spec = recipe.spec
        if not spec.knobs:
            raise UsageError(
                f"recipe {spec.name} has no knobs to search: "
                "add [[knobs]] to its recipe.toml, or choose another --model"
            )
        self._seed = seed
        self._objective = spec.objective
        distributions = {knob.name: _distribution(knob, spec.name) for knob in spec.knobs}
        self._sampling = Sampling(distributions, self._objective)

    async def propose(self, task: ProposalTask) -> Proposed:
        """Return the next setting from a fresh sampler that is given the task's scores."""
        told = self._told(task.scores)
        knobs = self._sampling.ask(idea_seed(self._seed, task.number), STARTUP_TRIALS, told)
        return Proposed(
            proposal=self._describe(task.number, knobs),
            shown=tuple(past.idea_id for past in told),
            knobs=knobs,
        )

    def _told(self, scores: Sequence[PastScore]) -> list[PastScore]:
        """Return the outcomes for the sampler, in order of idea numbers.

        Outcomes without a score are dropped, since it learns from scores alone.
        """
        scored = {s.number: s for s in scores if s.values and all(map(math.isfinite, s.values))}
        numbers = sorted(scored)
        if len(numbers) > MOST_TOLD:
            best = ranked({number: scored[number] for number in numbers}, self._objective)[:_BEST]
            latest = [number for number in numbers if number not in best][_BEST - MOST_TOLD :]
            numbers = sorted((*best, *latest))
        return [scored[number] for number in numbers]

    def _describe(self, number: int, knobs: Mapping[str, KnobValue]) -> Proposal:
        metric = self._objective.primary
        settings = ", ".join(f"{name}={_text(value)}" for name, value in knobs.items())
        title = f"Search {number}: {settings}"
        return Proposal(
            title=title if len(title) <= _TITLE else title[: _TITLE - 1] + "…",
            hypothesis=(
                "None. This is the control arm: a search over the recipe's knobs that knows "
                "nothing about the topic."
            ),
            method=f"The reference code, unchanged but for these constants: {settings}.",
            experiment_plan=(
                f"Run the reference code with these settings; {metric.name} is to be "
                f"{metric.direction.value}d."
            ),
            summary=(
                "Control arm without a language model: the tree-structured Parzen estimator "
                f"chose {settings}."
            ),
        )


def _distribution(knob: Knob, recipe: str) -> BaseDistribution:
    from optuna.distributions import (  # noqa: PLC0415 (heavy)
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if knob.type == "choice":
        return CategoricalDistribution(knob.choices)
    if knob.low is None or knob.high is None:  # the schema demands both
        raise UsageError(f"recipe {recipe}: give knob {knob.name} a low and a high value")
    if knob.type == "float":
        return FloatDistribution(knob.low, knob.high, log=knob.log)
    low, high = math.ceil(knob.low), math.floor(knob.high)
    if low > high:
        raise UsageError(
            f"recipe {recipe}: no whole number lies between low and high of knob {knob.name}"
        )
    return IntDistribution(low, high, log=knob.log)


def _text(value: KnobValue) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
