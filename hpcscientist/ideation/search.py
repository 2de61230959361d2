"""The control arm: Optuna over a recipe's knobs, with no language model.

What a model proposes should be compared with this. The sampler is the tree-structured
Parzen estimator (Bergstra et al., 2011) as Optuna ships it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hpcscientist.errors import UsageError
from hpcscientist.recipe.schema import Knob
from hpcscientist.records.idea import KnobValue, Proposal
from hpcscientist.records.proposing import PastScore, ProposalTask, Proposed

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import Trial

    from hpcscientist.recipe.load import Recipe

STARTUP_TRIALS = 8  # drawn at random before the estimator has enough to go by
_TITLE = 200


class SearchProposer:
    """Proposes settings of the recipe's knobs; implements `ports.proposer.Proposer`.

    Deterministic by re-execution: the same seed and the same tasks in the same order give
    the same proposals, so a resumed campaign asks again from the first idea on.
    """

    ordered = True

    def __init__(self, recipe: Recipe, seed: int) -> None:
        """Raise UsageError if the recipe has no knobs, or one that holds no value."""
        import optuna  # noqa: PLC0415 (heavy)

        spec = recipe.spec
        if not spec.knobs:
            raise UsageError(
                f"recipe {spec.name} has no knobs to search: "
                "add [[knobs]] to its recipe.toml, or choose another --model"
            )
        self._metric = spec.primary
        self._distributions = {knob.name: _distribution(knob, spec.name) for knob in spec.knobs}
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(
            direction=self._metric.direction.value,
            sampler=optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=STARTUP_TRIALS, multivariate=False
            ),
        )
        self._asked: dict[str, Trial] = {}
        self._told: dict[str, bool] = {}  # in the order told; whether there was a score
        self._proposed: dict[str, Proposed] = {}

    async def propose(self, task: ProposalTask) -> Proposed:
        """Tell the sampler the task's new outcomes, then ask it for the next setting."""
        if task.idea_id not in self._proposed:
            self._tell(task.scores)
            trial = self._study.ask(self._distributions)
            self._asked[task.idea_id] = trial
            self._proposed[task.idea_id] = Proposed(
                proposal=self._describe(task.number, trial.params),
                shown=tuple(idea_id for idea_id, scored in self._told.items() if scored),
                knobs=dict(trial.params),
            )
        return self._proposed[task.idea_id]

    def _tell(self, scores: tuple[PastScore, ...]) -> None:
        """Tell outcomes not yet told, in the order in which their ideas were proposed."""
        from optuna.trial import TrialState  # noqa: PLC0415 (heavy)

        values = {score.idea_id: score.value for score in scores}
        for idea_id, trial in self._asked.items():
            if idea_id in self._told or idea_id not in values:
                continue
            value = values[idea_id]
            if value is None or not math.isfinite(value):
                self._study.tell(trial, state=TrialState.FAIL)
                self._told[idea_id] = False
            else:
                self._study.tell(trial, value)
                self._told[idea_id] = True

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
