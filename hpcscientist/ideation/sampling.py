"""Optuna's sampler, created anew for each proposal and given the outcomes again.

A study deep-copies every trial that it is given, which took longer than the sampler itself. Trials
of ended ideas do not change, so they are created once and shared.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import datetime

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import TPESampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from hpcscientist.records.idea import KnobValue
from hpcscientist.records.objective import Objective
from hpcscientist.records.proposing import PastScore

_WHENEVER = datetime(2000, 1, 1)

optuna.logging.set_verbosity(optuna.logging.WARNING)


class Sampling:
    """Samples knob settings with the tree-structured Parzen estimator.

    It caches only Optuna's trials for the outcomes of the last call.
    """

    def __init__(self, distributions: Mapping[str, BaseDistribution], objective: Objective) -> None:
        """Take the knobs' distributions, and what outcomes are compared by."""
        self._distributions = dict(distributions)
        self._directions = [StudyDirection[metric.direction.name] for metric in objective.ordering]
        self._constrained = bool(objective.tolerances)
        self._made: dict[int, tuple[PastScore, _Shared]] = {}  # by idea number

    def ask(self, seed: int, startup: int, told: Sequence[PastScore]) -> dict[str, KnobValue]:
        """Return the next setting; the first `startup` are drawn at random."""
        sampler = TPESampler(seed=seed, n_startup_trials=startup, multivariate=False)
        study = optuna.create_study(directions=self._directions, sampler=sampler)
        self._made = {past.number: (past, self._trial(past)) for past in told}
        study.add_trials(trial for _, trial in self._made.values())
        return dict(study.ask(self._distributions).params)

    def _trial(self, past: PastScore) -> _Shared:
        known = self._made.get(past.number)
        if known is not None and known[0] == past:
            return known[1]
        trial = _Shared(
            number=-1,  # the study numbers them
            trial_id=-1,
            state=TrialState.COMPLETE,
            value=None,
            values=past.values,
            datetime_start=_WHENEVER,
            datetime_complete=_WHENEVER,
            params=dict(past.knobs),
            distributions=self._distributions,
            user_attrs={},
            system_attrs={},
            intermediate_values={},
        )
        if self._constrained:
            trial.set_constraint("excess", past.excess)
        return trial


class _Shared(FrozenTrial):
    """A trial whose settings are shared by all its copies."""

    def __deepcopy__(self, memo: object) -> _Shared:
        return copy.copy(self)
