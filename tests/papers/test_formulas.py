"""Formulas take facts that go together, and refuse the others."""

from __future__ import annotations

import pytest

from hpcscientist.bench.papers.campaign import sheet
from hpcscientist.papers.formulas import BadFormula, resolve, signed_value
from hpcscientist.records.facts import FactKind, Statistic, parse_reference

FACTS = sheet()


@pytest.mark.parametrize(
    ("formula", "text", "unit"),
    [
        ("difference(idea-0001.test.f1.mean, baseline.test.f1.mean)", "+0.0261", "f1"),
        ("difference(baseline.test.f1.mean, idea-0001.test.f1.mean)", "\u22120.0261", "f1"),
        ("magnitude(idea-0003.validation.f1.delta)", "0.0285", "f1"),
        ("percent(idea-0001.test.f1.mean)", "86.17", "percent"),
        ("points(idea-0001.test.f1.delta)", "+2.61", "percentage points"),
        ("points(difference(idea-0001.test.f1.mean, baseline.test.f1.mean))", "+2.61",
         "percentage points"),
        ("difference(percent(idea-0001.test.f1.mean), percent(baseline.test.f1.mean))", "+2.61",
         "percentage points"),
        ("percent(ratio(idea-0001.test.f1.delta, baseline.test.f1.mean))", "+3.124", "percent"),
        ("ratio(campaign.ideas.confirmed, campaign.ideas.proposed)", "0.1667", ""),
        ("percent(campaign.level)", "5", "percent"),
        ("sum(campaign.ideas.failed, campaign.ideas.rejected)", "5", "ideas"),
        ("count(idea-0001.test.f1.delta, idea-0005.test.f1.delta)", "2", "ideas"),
        ("power_of_ten(campaign.tokens.total)", "1e6", "tokens"),
        ("difference(idea-0005.validation.f1.delta, idea-0005.test.f1.delta)", "\u22120.0009",
         "f1"),
    ],
)  # fmt: skip
def test_values(formula: str, text: str, unit: str) -> None:
    fact = resolve(parse_reference(formula), FACTS).fact
    assert (fact.text, fact.unit) == (text, unit)


@pytest.mark.parametrize(
    "formula",
    [
        "no.such.fact",
        "difference(idea-0001.test.f1.mean)",
        "difference(idea-0001.test.f1.mean, baseline.validation.f1.mean)",
        "difference(idea-0001.test.f1.mean, baseline.test.loss.mean)",
        "difference(idea-0001.test.f1.best, baseline.test.f1.mean)",
        "difference(idea-0001.test.f1.mean, idea-0001.test.f1.mean)",
        "difference(idea-0001.test.f1.p, idea-0005.test.f1.p)",
        "difference(idea-0001.validation.f1.mean, idea-0005.ablation-2.validation.f1.mean)",
        "difference(baseline.code.EPOCHS, baseline.code.BATCH_SIZE)",
        "difference(campaign.cost.cpu, campaign.cost.gpu)",
        "ratio(campaign.ideas.failed, campaign.trials.failed)",
        "ratio(campaign.trials.failed, campaign.trials.machine_failed)",
        "percent(idea-0001.test.f1.delta)",
        "percent(idea-0001.test.loss.mean)",
        "percent(campaign.ideas.failed)",
        "points(idea-0001.test.f1.mean)",
        "points(idea-0001.test.loss.delta)",
        "sum(campaign.ideas.failed, campaign.ideas.failed)",
        "sum(idea-0001.test.f1.mean, idea-0005.test.f1.mean)",
        "count(idea-0001.test.f1.delta, idea-0005.test.f1.mean)",
        "power_of_ten(idea-0001.test.f1.delta)",
        "magnitude(idea-0001.test.f1.interval)",
    ],
)
def test_refused(formula: str) -> None:
    with pytest.raises(BadFormula):
        resolve(parse_reference(formula), FACTS)


def test_a_formula_keeps_its_parts_and_their_rows() -> None:
    ref = parse_reference("magnitude(difference(baseline.test.f1.mean, idea-0001.test.f1.mean))")
    quantity = resolve(ref, FACTS)
    assert [part.id for part in quantity.parts] == [
        "baseline.test.f1.mean",
        "idea-0001.test.f1.mean",
    ]
    assert (quantity.fact.kind, quantity.fact.scope.statistic) == (
        FactKind.METRIC,
        Statistic.DELTA,
    )
    assert quantity.fact.value == pytest.approx(0.0261)
    assert signed_value(quantity) == pytest.approx(-0.0261)
    assert len(quantity.fact.source.trials) == 16
