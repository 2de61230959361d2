"""What many campaigns of the same ideas say together: which ideas are truly better."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from benchmarks.campaigns import claims
from benchmarks.campaigns.claims import Claim, Judged

from hpcscientist.records.findings import ResultRow, Verdict
from hpcscientist.records.trial import Direction, MetricSpec

METRIC = MetricSpec(name="accuracy", direction=Direction.MAXIMIZE)


def row(idea: str, *, found: bool, confirmed: bool | None) -> ResultRow:
    return ResultRow.model_validate(
        dict.fromkeys(ResultRow.model_fields.keys() - {"undecided"})
        | {
            "idea_id": idea,
            "parent_ids": (),
            "round": 1,
            "title": idea.upper(),
            "status": "scored",
            "finding": Verdict.IMPROVEMENT if found else Verdict.MAINTENANCE,
            "metric": "accuracy",
            "direction": "maximize",
            "confirmed": confirmed,
        }
    )


def campaigns(count: int) -> list[Judged]:
    """`a` is better by two standard deviations, `b` was found once by luck, `c` never."""
    draw = random.Random(1)
    made = []
    for number in range(count):
        lucky = number == 0
        rows = (
            row("a", found=True, confirmed=number != 1),
            row("b", found=lucky, confirmed=lucky or None),
            row("c", found=False, confirmed=None),
        )
        test = {"a": {seed: draw.gauss(2, 1) for seed in range(5)}}
        if lucky:
            test["b"] = {0: 1.0, 1: 1.2, 2: 0.9, 3: 1.1, 4: 1.0}  # of which nothing else is known
        made.append(Judged(rows, test))
    return made


@pytest.fixture
def found() -> list[Claim]:
    return claims.claims(campaigns(6), METRIC)


def test_pooled_test_runs_tell_what_is_true(found: list[Claim]) -> None:
    assert [claim.truth for claim in found] == ["better", "unclear", "never found"]
    a, b, c = found
    assert (a.scored, a.found, a.confirmed, b.found, c.found) == (6, 6, 5, 1, 0)
    assert (a.backed, b.confirmed, b.backed) == (5, 1, 0)
    assert a.pooled is not None
    assert a.pooled.n == 30
    assert a.pooled.delta == pytest.approx(2, abs=0.5)
    worse = claims.claims(campaigns(6), METRIC.model_copy(update={"direction": Direction.MINIMIZE}))
    assert worse[0].truth == "not better"


def test_a_confirmed_claim_that_is_not_true_is_counted(found: list[Claim]) -> None:
    figures = {figure.name: figure for figure in claims.figures(found, q=0.05)}
    assert figures["true improvements confirmed"].value == pytest.approx(5 / 6)
    assert figures["true improvements found"].value == 1
    false = figures["confirmed, and not borne out by the other campaigns"]
    assert (false.value, false.is_met) == (pytest.approx(1 / 6), False)
    assert "b       " not in claims.table(found).splitlines()[0]
    assert claims.table(found).splitlines()[2].endswith("unclear: B")


def test_what_is_better_and_was_never_found_has_no_share_of_confirmed_ones() -> None:
    better = claims.claims(campaigns(6), METRIC)[0]
    unfound = replace(better, found=0, confirmed=0, backed=0)
    names = [figure.name for figure in claims.figures([unfound], 0.05)]
    assert names == ["true improvements found"]
    assert claims.figures([replace(unfound, scored=0)], 0.05) == []


def test_one_campaign_alone_is_borne_out_by_none() -> None:
    figures = [figure.name for figure in claims.figures(claims.claims(campaigns(1), METRIC), 0.05)]
    assert figures == ["true improvements confirmed", "true improvements found"]
