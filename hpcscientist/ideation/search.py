"""The control arm: Optuna over a recipe's knobs, with no language model.

What a model proposes should be compared with this. The sampler is the tree-structured
Parzen estimator (Bergstra et al., 2011) as Optuna ships it.

It reckons with each outcome that it was told for each setting that it proposes, so a proposal would
take longer and longer. Old outcomes weigh little in it (Watanabe, arXiv 2304.11127, section 3.2),
but for the best, of which it takes at most 25 for good. So once it was told MOST_TOLD scores, all
but the best 25 and the latest are forgotten, down to KEPT. The first MOST_TOLD know no difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hpcscientist.errors import UsageError
from hpcscientist.recipe.schema import Knob
from hpcscientist.records.idea import KnobValue, Proposal
from hpcscientist.records.proposing import PastScore, ProposalTask, Proposed
from hpcscientist.records.trial import Direction

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study

    from hpcscientist.recipe.load import Recipe

STARTUP_TRIALS = 8  # drawn at random before the estimator has enough to go by
MOST_TOLD = 200  # scores that the estimator reckons with
KEPT = 150  # of them, when they have become more
_BEST = 25  # the most that Optuna takes for good, however many there are
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
        self._sampler = optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=STARTUP_TRIALS, multivariate=False
        )
        self._study = self._empty_study()
        self._asked: dict[str, int] = {}  # not yet told; the number in the study
        self._scored: dict[int, str] = {}  # told with a score, by the number in the study
        self._proposed: dict[str, Proposed] = {}  # not yet told

    async def propose(self, task: ProposalTask) -> Proposed:
        """Tell the sampler the task's new outcomes, then ask it for the next setting."""
        if task.idea_id not in self._proposed:
            self._tell(task.scores)
            trial = self._study.ask(self._distributions)
            self._asked[task.idea_id] = trial.number
            self._proposed[task.idea_id] = Proposed(
                proposal=self._describe(task.number, trial.params),
                shown=tuple(self._scored.values()),
                knobs=dict(trial.params),
            )
        return self._proposed[task.idea_id]

    def _tell(self, scores: tuple[PastScore, ...]) -> None:
        """Tell outcomes not yet told, in the order in which their ideas were proposed."""
        from optuna.trial import TrialState  # noqa: PLC0415 (heavy)

        values = {score.idea_id: score.value for score in scores}
        for idea_id in [name for name in self._asked if name in values]:
            number, value = self._asked.pop(idea_id), values[idea_id]
            del self._proposed[idea_id]
            if value is None or not math.isfinite(value):
                self._study.tell(number, state=TrialState.FAIL)
            else:
                self._study.tell(number, value)
                self._scored[number] = idea_id
                if len(self._scored) > MOST_TOLD:
                    self._forget()

    def _forget(self) -> None:
        """Go on with a study of the best and the latest scores, and of what is asked."""
        trials = {trial.number: trial for trial in self._study.get_trials(deepcopy=False)}
        sign = -1 if self._metric.direction is Direction.MAXIMIZE else 1
        ranked = sorted(self._scored, key=lambda number: sign * (trials[number].value or 0.0))
        best = ranked[:_BEST]
        latest = [number for number in self._scored if number not in best][_BEST - KEPT :]
        scored, asked, self._study = self._scored, self._asked, self._empty_study()
        self._scored, self._asked = {}, {}
        for number in sorted((*best, *latest)):
            self._scored[len(self._scored)] = scored[number]
            self._study.add_trial(trials[number])
        for idea_id, number in asked.items():
            self._asked[idea_id] = len(self._scored) + len(self._asked)
            self._study.add_trial(trials[number])

    def _empty_study(self) -> Study:
        import optuna  # noqa: PLC0415 (heavy)

        return optuna.create_study(direction=self._metric.direction.value, sampler=self._sampler)

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
