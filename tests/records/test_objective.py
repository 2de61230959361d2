"""The order of what ideas and versions measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.records.objective import (
    Objective,
    ObjectiveValue,
    objective_value,
    ranked,
    undominated,
)
from hpcscientist.records.trial import Direction, MetricSpec

UP = MetricSpec(name="accuracy", direction=Direction.MAXIMIZE)
COST = MetricSpec(name="seconds", direction=Direction.MINIMIZE, pareto=True)


def test_what_another_idea_beats_in_every_metric_is_dominated() -> None:
    ideas = {"base": (0.5, 9.0), "both": (0.6, 8.0), "cheap": (0.4, 1.0), "same": (0.6, 8.0)}
    assert undominated(ideas, (UP, COST)) == ("both", "cheap", "same")
    assert undominated({"base": (0.5, 9.0), "tied": (0.5, 8.0)}, (UP, COST)) == ("tied",)
    assert undominated({}, (UP, COST)) == ()


_VALUES = st.tuples(*[st.integers(0, 4).map(float)] * 2)


@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=3), _VALUES, min_size=1))
def test_each_idea_is_on_the_front_or_beaten_by_one_that_is(
    values: dict[str, tuple[float, float]],
) -> None:
    front = undominated(values, (UP, COST))
    best = max(value for value, _ in values.values())
    assert any(values[idea][0] == best for idea in front)
    for idea, (value, cost) in values.items():
        beaten = any(
            values[other][0] >= value
            and values[other][1] <= cost
            and values[other] != (value, cost)
            for other in front
        )
        assert beaten is (idea not in front)


MEMORY = MetricSpec(name="memory", direction=Direction.MINIMIZE, tolerance=2.0)
SAFE = MetricSpec(name="recall", direction=Direction.MAXIMIZE, tolerance=0.0)
BOUNDED = Objective(primary=UP, tolerances=(MEMORY, SAFE))
BOTH = Objective(primary=UP, pareto=(UP, COST))


@pytest.mark.parametrize(
    ("memory", "recall", "excess"),
    [(10.0, 0.5, 0.0), (12.0, 0.9, 0.0), (13.0, 0.5, 0.5), (1.0, 0.4, 0.2), (14.0, 0.0, 2.0)],
)
def test_excess_is_in_units_of_each_tolerance(memory: float, recall: float, excess: float) -> None:
    measured = {"accuracy": 0.7, "memory": memory, "recall": recall}
    found = objective_value(measured, {"memory": 10.0, "recall": 0.5}, BOUNDED)
    assert (found.value, found.others) == (0.7, ())
    assert found.excess == pytest.approx(excess)
    assert objective_value(measured, {}, BOUNDED).excess == 0.0


def test_all_metrics_that_order_ideas_are_read() -> None:
    found = objective_value({"seconds": 3.0, "accuracy": 0.7}, {}, BOTH)
    assert found.values == (0.7, 3.0)
    with pytest.raises(KeyError):
        objective_value({"accuracy": 0.7}, {}, BOTH)
    assert ObjectiveValue().values == ()


def test_what_is_within_the_tolerances_comes_first_then_what_nothing_dominates() -> None:
    measured = {
        "over by much": ObjectiveValue(value=0.9, excess=3.0),
        "unknown": ObjectiveValue(),
        "over by little": ObjectiveValue(value=0.8, excess=0.1),
        "first": ObjectiveValue(value=0.6),
        "equal": ObjectiveValue(value=0.6),
        "worse": ObjectiveValue(value=0.1),
    }
    assert ranked(measured, BOUNDED) == [
        "first",
        "equal",
        "worse",
        "over by little",
        "over by much",
    ]
    both = {
        "dominated": ObjectiveValue(value=0.6, others=(9.0,)),
        "cheap": ObjectiveValue(value=0.1, others=(1.0,)),
        "good": ObjectiveValue(value=0.7, others=(8.0,)),
    }
    assert ranked(both, BOTH) == ["good", "cheap", "dominated"]
    assert ranked(both, Objective(primary=UP)) == ["good", "dominated", "cheap"]
