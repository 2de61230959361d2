"""Formulas over facts: a whitelist of operations on typed values, with units checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from hpcscientist.records.facts import (
    BASELINE,
    Fact,
    FactKind,
    FactRef,
    FactSheet,
    Formula,
    Op,
    Reference,
    Scope,
    Source,
    Statistic,
    printed,
)

PERCENT, POINTS = "percent", "percentage points"
_COUNTED = (FactKind.COUNT, FactKind.COST, FactKind.SIZE)
_LEVELS = (Statistic.MEAN, Statistic.BEST, Statistic.WORST)
_CHANGES = (Statistic.DELTA, Statistic.LOW, Statistic.HIGH)
_NO_ARITHMETIC = (FactKind.INTERVAL, FactKind.P_VALUE)


class BadFormula(ValueError):
    """Raised for a formula whose facts do not combine; `unknown` is an id that is no fact."""

    def __init__(self, why: str, unknown: str | None = None) -> None:
        self.unknown = unknown
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class Quantity:
    """The value of a reference: `fact` is printed, `parts` are the facts it is computed from.

    `against` is the second operand of a difference or a ratio.
    """

    fact: Fact
    parts: tuple[Fact, ...]
    against: Fact | None = None
    ops: tuple[Op, ...] = field(default=())

    @property
    def is_counted(self) -> bool:
        """Return whether the formula counts the facts that it lists."""
        return Op.COUNT in self.ops


def resolve(ref: Reference, sheet: FactSheet) -> Quantity:
    """Return the value of a reference. Raises BadFormula."""
    if isinstance(ref, FactRef):
        fact = sheet.by_id.get(ref.id)
        if fact is None:
            raise BadFormula(f"there is no fact {ref.id}", ref.id)
        return Quantity(fact, (fact,))
    args = [resolve(arg, sheet) for arg in ref.args]
    return _OPERATIONS[ref.op](ref, args)


def _difference(ref: Formula, args: Sequence[Quantity]) -> Quantity:
    a, b = _two(ref, args)
    _same(ref, a, b)
    change = a.kind is FactKind.METRIC or b.kind is FactKind.METRIC
    uncertainty = None
    if a.uncertainty is not None and b.uncertainty is not None:
        uncertainty = math.hypot(a.uncertainty, b.uncertainty)
    value = a.value - b.value
    statistic = Statistic.DELTA if change else a.scope.statistic
    fact = a.model_copy(
        update={
            "id": "formula",
            "label": f"{a.label} minus {b.label}",
            "value": value,
            "uncertainty": uncertainty,
            "text": printed(value, uncertainty, signed=True),
            "signed": True,
            "share": a.share and b.share and a.unit != PERCENT,
            "unit": POINTS if a.unit == PERCENT else a.unit,
            "kind": FactKind.METRIC if change else a.kind,
            "scope": a.scope.model_copy(update={"statistic": statistic}),
            "source": Source(method="difference"),
        }
    )
    return _made(ref, args, fact, b)


def _ratio(ref: Formula, args: Sequence[Quantity]) -> Quantity:
    a, b = _two(ref, args)
    relative = (
        a.scope.statistic in _CHANGES
        and b.scope.statistic is Statistic.MEAN
        and b.scope.idea == BASELINE
        and (a.unit, a.scope.split) == (b.unit, b.scope.split)
    )
    if not relative:
        _same(ref, a, b)
    if not b.value:
        raise BadFormula(f"{ref}: the second fact is 0")
    value = a.value / b.value
    change = a.scope.statistic in _CHANGES
    fact = Fact(
        id="formula",
        label=f"{a.label} over {b.label}",
        kind=FactKind.RATIO,
        value=value,
        text=printed(value, signed=change),
        signed=change,
        scope=a.scope,
        source=Source(method="ratio"),
    )
    return _made(ref, args, fact, b)


def _percent(ref: Formula, args: Sequence[Quantity]) -> Quantity:
    (of,) = _one(ref, args)
    if of.kind is FactKind.METRIC and of.scope.statistic in (*_CHANGES, Statistic.SD):
        raise BadFormula(f"{ref}: a difference of shares is told in points, write points(…)")
    if of.kind is not FactKind.RATIO and not of.share:
        raise BadFormula(f"{ref}: {of.label} is no share: percent takes a share or ratio(a, b)")
    return _scaled(ref, args, of, PERCENT)


def _points(ref: Formula, args: Sequence[Quantity]) -> Quantity:
    (of,) = _one(ref, args)
    change = of.scope.statistic in (*_CHANGES, Statistic.SD)
    if of.kind is not FactKind.METRIC or not of.share or not change:
        raise BadFormula(f"{ref}: points takes a difference of shares; of a share write percent(…)")
    return _scaled(ref, args, of, POINTS)


def _scaled(ref: Formula, args: Sequence[Quantity], of: Fact, unit: str) -> Quantity:
    value = 100 * of.value
    uncertainty = None if of.uncertainty is None else 100 * of.uncertainty
    update = {
        "id": "formula",
        "label": f"{of.label}, in {unit}",
        "value": value,
        "uncertainty": uncertainty,
        "text": printed(value, uncertainty, signed=of.signed),
        "unit": unit,
        "source": Source(method=f"in {unit}"),
    }
    return _made(ref, args, of.model_copy(update=update), args[0].against)


def _power_of_ten(ref: Formula, args: Sequence[Quantity]) -> Quantity:
    (of,) = _one(ref, args)
    if of.kind not in (*_COUNTED, FactKind.RATIO) or of.value <= 0:
        raise BadFormula(f"{ref}: power_of_ten takes a count, a size, a cost or a ratio above 0")
    exponent = round(math.log10(of.value))
    update = {
        "id": "formula",
        "label": f"the power of ten nearest to {of.label}",
        "value": 10.0**exponent,
        "uncertainty": None,
        "text": f"1e{exponent}",
        "source": Source(method="power of ten"),
    }
    return _made(ref, args, of.model_copy(update=update))


def _sum(ref: Formula, args: Sequence[Quantity]) -> Quantity:
    first = args[0].fact
    for other in (arg.fact for arg in args):
        if other.kind not in _COUNTED or other.unit != first.unit:
            raise BadFormula(f"{ref}: sum takes counts, sizes or costs of one unit")
    _distinct(ref)
    value = math.fsum(arg.fact.value for arg in args)
    fact = first.model_copy(
        update={
            "id": "formula",
            "label": f"the sum of {', '.join(arg.fact.label for arg in args)}",
            "value": value,
            "uncertainty": None,
            "text": printed(value),
            "scope": Scope(),
            "source": Source(method="sum"),
        }
    )
    return _made(ref, args, fact)


def _count(ref: Formula, args: Sequence[Quantity]) -> Quantity:
    _distinct(ref)
    first = args[0].fact
    for other in (arg.fact for arg in args):
        same = (other.kind, other.scope.statistic) == (first.kind, first.scope.statistic)
        if not same or (other.unit, other.scope.split) != (first.unit, first.scope.split):
            raise BadFormula(f"{ref}: count takes facts that tell the same of several ideas")
    ideas = {arg.fact.scope.idea for arg in args}
    unit = "ideas" if len(ideas) == len(args) and None not in ideas else ""
    fact = Fact(
        id="formula",
        label=f"how many of {', '.join(ref.ids)}",
        kind=FactKind.COUNT,
        unit=unit,
        value=float(len(args)),
        text=str(len(args)),
        source=Source(method="count"),
    )
    return _made(ref, args, fact)


def _magnitude(ref: Formula, args: Sequence[Quantity]) -> Quantity:
    (of,) = _one(ref, args)
    if of.kind in _NO_ARITHMETIC:
        raise BadFormula(f"{ref}: {of.label} has no magnitude")
    value = abs(of.value)
    text = printed(value, of.uncertainty)
    update = {"id": "formula", "value": value, "text": text, "signed": False}
    made = _made(ref, args, of.model_copy(update=update), args[0].against)
    return made


_OPERATIONS = {
    Op.DIFFERENCE: _difference,
    Op.RATIO: _ratio,
    Op.PERCENT: _percent,
    Op.POINTS: _points,
    Op.POWER_OF_TEN: _power_of_ten,
    Op.SUM: _sum,
    Op.COUNT: _count,
    Op.MAGNITUDE: _magnitude,
}


def signed_value(quantity: Quantity) -> float:
    """Return the value with the sign that `magnitude` removed."""
    if Op.MAGNITUDE not in quantity.ops or not quantity.parts:
        return quantity.fact.value
    first, against = quantity.parts[0], quantity.against
    return first.value - against.value if against is not None else first.value


def _made(
    ref: Formula, args: Sequence[Quantity], fact: Fact, against: Fact | None = None
) -> Quantity:
    parts = tuple(part for arg in args for part in arg.parts)
    ops = (ref.op, *(op for arg in args for op in arg.ops))
    rows = dict.fromkeys(row for part in parts for row in part.source.trials)
    files = dict.fromkeys(file for part in parts for file in part.source.files)
    source = Source(method=f"{ref}", trials=tuple(rows), files=tuple(files))
    return Quantity(fact.model_copy(update={"source": source}), parts, against, ops)


def _one(ref: Formula, args: Sequence[Quantity]) -> tuple[Fact]:
    if len(args) != 1:
        raise BadFormula(f"{ref}: {ref.op} takes one fact")
    return (args[0].fact,)


def _two(ref: Formula, args: Sequence[Quantity]) -> tuple[Fact, Fact]:
    if len(args) != 2:
        raise BadFormula(f"{ref}: {ref.op} takes two facts")
    return args[0].fact, args[1].fact


def _same(ref: Formula, a: Fact, b: Fact) -> None:
    """Raise BadFormula if two facts cannot be subtracted or divided."""
    if a.kind in _NO_ARITHMETIC or b.kind in _NO_ARITHMETIC:
        raise BadFormula(f"{ref}: {ref.op} takes no intervals and no p-values")
    if a.unit != b.unit:
        raise BadFormula(f"{ref}: {a.unit or 'no unit'} and {b.unit or 'no unit'} do not mix")
    one, other = a.scope, b.scope
    kinds = {a.kind, b.kind}
    if len(kinds) > 1 and kinds != {FactKind.METRIC, FactKind.PUBLISHED}:
        raise BadFormula(f"{ref}: a {a.kind} and a {b.kind} do not mix")
    if FactKind.HYPERPARAMETER in kinds and one.of != other.of:
        raise BadFormula(f"{ref}: {one.of} and {other.of} are not the same hyperparameter")
    if kinds != {FactKind.METRIC}:
        return
    if one.statistic is not other.statistic:
        raise BadFormula(
            f"{ref}: a {one.statistic} and a {other.statistic} do not compare; give both as mean"
        )
    if one.split is not other.split and one.statistic is not Statistic.DELTA:
        raise BadFormula(f"{ref}: {one.split} and {other.split} are different splits")
    further = {"ablation", "sensitivity", "follow-up"}
    if (
        (further & {one.run, other.run})
        and one.idea != other.idea
        and BASELINE
        not in (
            one.idea,
            other.idea,
        )
    ):
        raise BadFormula(f"{ref}: a further run of {other.idea} says nothing of {one.idea}")
    if (one.idea, one.attempt, one.split, one.statistic) == (
        other.idea,
        other.attempt,
        other.split,
        other.statistic,
    ):
        raise BadFormula(f"{ref}: both facts are the same")


def _distinct(ref: Formula) -> None:
    written = [str(arg) for arg in ref.args]
    if len(set(written)) < len(written):
        raise BadFormula(f"{ref}: a fact is listed twice")
