"""The control arm: Optuna over a recipe's knobs, with no language model.

What a model proposes should be compared with this. The sampler is the tree-structured
Parzen estimator (Bergstra et al., 2011) as Optuna ships it.

It remembers nothing: each proposal is a fresh sampler's, seeded by the idea's number and told the
outcomes in its task. So what it proposes follows from these alone: whoever asks, a driver that
resumed or one with other slots, whatever came in between.

The sampler reckons with each outcome that it is told, so proposals would take longer and longer.
Old outcomes weigh little in it (Watanabe, arXiv 2304.11127, section 3.2), but for the best, of
which it takes at most 25 for good. So it is told the best 25 and the latest, MOST_TOLD in all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hpcscientist.errors import UsageError
from hpcscientist.recipe.schema import Knob
from hpcscientist.records.idea import KnobValue, Proposal, idea_seed
from hpcscientist.records.proposing import PastScore, ProposalTask, Proposed
from hpcscientist.records.trial import Direction

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from hpcscientist.recipe.load import Recipe

STARTUP_TRIALS = 8  # drawn at random before the estimator has enough to go by
MOST_TOLD = 200  # scores that the estimator reckons with
_BEST = 25  # the most that Optuna takes for good, however many there are
_TITLE = 200


class SearchProposer:
    """Proposes settings of the recipe's knobs; implements `ports.Proposer`."""

    by_outcomes = True

    def __init__(self, recipe: Recipe, seed: int) -> None:
        """Raise UsageError if the recipe has no knobs, or one that holds no value."""
        from hpcscientist.ideation.sampling import Sampling  # noqa: PLC0415 (heavy)

        spec = recipe.spec
        if not spec.knobs:
            raise UsageError(
                f"recipe {spec.name} has no knobs to search: "
                "add [[knobs]] to its recipe.toml, or choose another --model"
            )
        self._seed = seed
        self._metric = spec.primary
        distributions = {knob.name: _distribution(knob, spec.name) for knob in spec.knobs}
        self._sampling = Sampling(distributions, self._metric.direction)

    async def propose(self, task: ProposalTask) -> Proposed:
        """Ask a fresh sampler for the next setting, told what scored of the task's outcomes."""
        told = self._told(task.scores)
        knobs = self._sampling.ask(idea_seed(self._seed, task.number), STARTUP_TRIALS, told)
        return Proposed(
            proposal=self._describe(task.number, knobs),
            shown=tuple(past.idea_id for past in told),
            knobs=knobs,
        )

    def _told(self, scores: Sequence[PastScore]) -> list[PastScore]:
        """The outcomes that the sampler is told, in order of idea numbers.

        What came to no score tells it nothing: it learns from scores alone.
        """
        scored = {s.number: s for s in scores if s.value is not None and math.isfinite(s.value)}
        numbers = sorted(scored)
        if len(numbers) > MOST_TOLD:
            sign = -1 if self._metric.direction is Direction.MAXIMIZE else 1
            best = sorted(numbers, key=lambda number: sign * (scored[number].value or 0.0))[:_BEST]
            latest = [number for number in numbers if number not in best][_BEST - MOST_TOLD :]
            numbers = sorted((*best, *latest))
        return [scored[number] for number in numbers]

    def _describe(self, number: int, knobs: Mapping[str, KnobValue]) -> Proposal:
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
                f"Run the reference code with these settings; {self._metric.name} is to be "
                f"{self._metric.direction.value}d."
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
