"""What is shared between proposals changes none of them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from optuna import create_study
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import TPESampler
from optuna.trial import create_trial

from hpcscientist.ideation.sampling import Sampling
from hpcscientist.records.idea import KnobValue, idea_id_of
from hpcscientist.records.objective import Objective
from hpcscientist.records.proposing import PastScore
from hpcscientist.records.trial import Direction, MetricSpec

KNOBS: dict[str, BaseDistribution] = {
    "RATE": FloatDistribution(1e-4, 1.0, log=True),
    "WIDTH": IntDistribution(1, 512, log=True),
    "KIND": CategoricalDistribution(("linear", "rbf")),
    "BIAS": CategoricalDistribution((True, False)),
}
METRIC = MetricSpec(name="loss", direction=Direction.MINIMIZE)
SPEED = MetricSpec(name="speed", direction=Direction.MAXIMIZE, pareto=True)
MEMORY = MetricSpec(name="memory", direction=Direction.MINIMIZE, tolerance=1.0)
LOSS = Objective(primary=METRIC)
BOUNDED = Objective(primary=METRIC, tolerances=(MEMORY,))
BOTH = Objective(primary=METRIC, pareto=(METRIC, SPEED), tolerances=(MEMORY,))


def plainly(
    seed: int, told: Sequence[PastScore], objective: Objective = LOSS
) -> dict[str, KnobValue]:
    """As Optuna's manual does it."""
    sampler = TPESampler(seed=seed, n_startup_trials=4, multivariate=False)
    directions = [str(metric.direction) for metric in objective.ordering]
    study = create_study(directions=directions, sampler=sampler)
    for past in told:
        trial = create_trial(params=past.knobs, distributions=KNOBS, values=past.values)
        if objective.tolerances:
            trial.set_constraint("memory", past.excess)
        study.add_trial(trial)
    return dict(study.ask(KNOBS).params)


def past(number: int, draw: random.Random) -> PastScore:
    knobs: dict[str, KnobValue] = {
        "RATE": 10 ** draw.uniform(-4, 0),
        "WIDTH": draw.randint(1, 512),
        "KIND": draw.choice(("linear", "rbf")),
        "BIAS": draw.choice((True, False)),
    }
    return PastScore(
        idea_id=idea_id_of(number), number=number, knobs=knobs, value=draw.uniform(0, 1)
    )


def test_it_proposes_what_a_study_made_anew_does() -> None:
    draw, sampling = random.Random(7), Sampling(KNOBS, LOSS)
    scores = [past(number, draw) for number in range(1, 61)]
    for seed, count in enumerate((0, 3, 4, 5, 20, 60, 40, 60)):
        # Some are left out, and some have another value than before: more of their seeds are in.
        told = draw.sample(scores, count)
        told = [
            one.model_copy(update={"value": draw.uniform(0, 1)}) if draw.random() < 0.2 else one
            for one in told
        ]
        assert sampling.ask(seed, 4, told) == plainly(seed, told), count


def test_it_does_not_depend_on_what_was_asked_before() -> None:
    draw = random.Random(8)
    told = [past(number, draw) for number in range(1, 31)]
    used = Sampling(KNOBS, LOSS)
    first = used.ask(1, 4, told)
    used.ask(2, 4, told[:7])
    assert used.ask(1, 4, told) == first
    assert Sampling(KNOBS, LOSS).ask(1, 4, told) == first


@pytest.mark.parametrize("objective", [BOUNDED, BOTH])
def test_tolerances_are_constraints_and_a_pareto_objective_has_several_values(
    objective: Objective,
) -> None:
    draw, sampling = random.Random(9), Sampling(KNOBS, objective)
    told = [
        past(number, draw).model_copy(
            update={
                "excess": max(0.0, draw.uniform(-1, 1)),
                "others": tuple(draw.random() for _ in objective.pareto[1:]),
            }
        )
        for number in range(1, 61)
    ]
    found = [sampling.ask(seed, 4, told) for seed in range(5)]
    assert found == [plainly(seed, told, objective) for seed in range(5)]
    alone = [one.model_copy(update={"others": ()}) for one in told]
    assert found != [plainly(seed, alone) for seed in range(5)]
