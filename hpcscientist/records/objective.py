"""What ideas are for, and the order of what they measured: one metric, or several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from pydantic import Field

from hpcscientist.records.base import Record
from hpcscientist.records.trial import Direction, MetricSpec

Key = TypeVar("Key")


class Objective(Record):
    """What ideas are for. An improvement is better in `primary`, and within the tolerance of each
    of `tolerances`. Ideas are ordered by dominance in `pareto`: the primary metric and others, or
    () if the primary metric alone orders them.
    """

    primary: MetricSpec
    tolerances: tuple[MetricSpec, ...] = ()
    pareto: tuple[MetricSpec, ...] = ()

    @property
    def ordering(self) -> tuple[MetricSpec, ...]:
        """Return the metrics that order ideas, the primary one first."""
        return self.pareto or (self.primary,)


class ObjectiveValue(Record):
    """What an idea or a version measured. `value` is of the primary metric, None if unknown.

    `others` are the values of the other metrics that order ideas, in their order. `excess` is by
    how much tolerances are exceeded, 0 if none is: a sum in units of each tolerance, or of the
    baseline's value where the tolerance is 0.
    """

    value: float | None = None
    others: tuple[float, ...] = ()
    excess: float = Field(default=0.0, ge=0)

    @property
    def values(self) -> tuple[float, ...]:
        """Return the values of all metrics that order ideas; () if unknown."""
        return () if self.value is None else (self.value, *self.others)


NOT_MEASURED = ObjectiveValue()


def objective_value(
    measured: Mapping[str, float], baseline: Mapping[str, float], objective: Objective
) -> ObjectiveValue:
    """Return what metrics come to; `baseline` holds the baseline's, {} if they are unknown.

    Raises KeyError if a metric that orders ideas was not measured.
    """
    value, *others = (measured[metric.name] for metric in objective.ordering)
    excess = 0.0
    for metric in objective.tolerances:
        if metric.name in measured and metric.name in baseline:
            known, tolerance = baseline[metric.name], metric.tolerance or 0.0
            worse = better_by(known, measured[metric.name], metric) - tolerance
            excess += max(0.0, worse) / (tolerance or abs(known) or 1.0)
    return ObjectiveValue(value=value, others=tuple(others), excess=excess)


def ranked(measured: Mapping[Key, ObjectiveValue], objective: Objective) -> list[Key]:
    """Return what has a value, the best first, equals in their order.

    What is within all tolerances comes before the rest, and the rest by their excess, as in
    constrained dominance (Deb et al., NSGA-II, 2002, section VI). Within the tolerances, what
    nothing dominates comes first. The primary metric orders all else.
    """
    within = {key: one.values for key, one in measured.items() if one.values and one.excess == 0.0}
    front = frozenset(undominated(within, objective.ordering)) if objective.pareto else within

    def place(key: Key) -> tuple[float, bool, float]:
        one = measured[key]
        assert one.value is not None
        return one.excess, key not in front, better_by(0.0, one.value, objective.primary)

    return sorted((key for key, one in measured.items() if one.values), key=place)


def undominated(
    values: Mapping[Key, Sequence[float]], metrics: Sequence[MetricSpec]
) -> tuple[Key, ...]:
    """Return what nothing else dominates: is as good in each metric, and better in one.

    `values` has one value for each of `metrics`; the result keeps its order.
    """
    gains = {
        key: tuple(
            better_by(value, 0.0, metric) for value, metric in zip(own, metrics, strict=True)
        )
        for key, own in values.items()
    }
    # From the best to the worst in the first metric, ties by the next one: what dominates comes
    # before what it dominates, and something on the front dominates all that is not on it.
    front: dict[tuple[float, ...], None] = {}
    for own in sorted(set(gains.values()), reverse=True):
        if not any(_as_good(other, own) for other in front):
            front[own] = None
    return tuple(key for key, own in gains.items() if own in front)


def _as_good(one: Iterable[float], other: Iterable[float]) -> bool:
    return all(left >= right for left, right in zip(one, other, strict=True))


def better_by(value: float, other: float, metric: MetricSpec) -> float:
    """Return by how much one value of a metric is better than another; negative if worse."""
    better = value - other if metric.direction is Direction.MAXIMIZE else other - value
    return better + 0.0  # no negative zero
