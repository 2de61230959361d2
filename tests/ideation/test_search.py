from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from hpcscientist.errors import UsageError
from hpcscientist.ideation import search
from hpcscientist.ideation.bank import Bank
from hpcscientist.ideation.search import STARTUP_TRIALS, SearchProposer
from hpcscientist.recipe.schema import RecipeSpec
from hpcscientist.records.idea import KnobValue, idea_id_of
from hpcscientist.records.proposing import PastScore, ProposalTask, Proposed

KNOBS = [
    {"name": "RATE", "type": "float", "low": 1e-4, "high": 1.0, "log": True},
    {"name": "SHARE", "type": "float", "low": 0.0, "high": 1.0},
    {"name": "WIDTH", "type": "int", "low": 1, "high": 512, "log": True},
    {"name": "DEPTH", "type": "int", "low": 1.5, "high": 4.5},
    {"name": "KIND", "type": "choice", "choices": ["linear", "rbf"]},
    {"name": "BIAS", "type": "choice", "choices": [True, False]},
]


@dataclass(frozen=True)
class Topic:
    """What the proposer uses of a recipe."""

    spec: RecipeSpec


def topic(knobs: list[dict[str, object]], direction: str = "maximize") -> Topic:
    spec = {
        "name": "toy",
        "topic": {"title": "T", "description": "D", "inputs": "I", "outputs": "O"},
        "metrics": [{"name": "score", "direction": direction}],
        "budgets": {"pilot": {"seconds": 1}, "full": {"seconds": 2}},
        "knobs": knobs,
    }
    return Topic(RecipeSpec.model_validate_json(json.dumps(spec)))


def task(number: int, past: Iterable[PastScore] = ()) -> ProposalTask:
    return ProposalTask(
        idea_id=idea_id_of(number),
        number=number,
        round=1,
        feedback="",
        archive=(),
        scores=tuple(past),
    )


def past(number: int, proposed: Proposed, value: float | None) -> PastScore:
    assert proposed.knobs is not None
    return PastScore(idea_id=idea_id_of(number), number=number, knobs=proposed.knobs, value=value)


def value_of(knobs: dict[str, KnobValue] | None) -> float:
    """A made-up outcome with its best value 0 at RATE = 0.01 and KIND = rbf."""
    assert knobs is not None
    return -abs(math.log10(float(knobs["RATE"])) + 2) - (knobs["KIND"] != "rbf")


async def campaign(seed: int, ideas: int, lag: int = 1) -> list[Proposed]:
    proposer = SearchProposer(topic(KNOBS), seed)
    proposed: list[Proposed] = []
    for number in range(1, ideas + 1):
        settled = enumerate(proposed[: max(0, number - lag)], 1)
        told = [past(n, one, value_of(one.knobs)) for n, one in settled]
        proposed.append(await proposer.propose(task(number, told)))
    return proposed


async def test_same_seed_and_outcomes_propose_the_same() -> None:
    assert await campaign(3, 14, lag=4) == await campaign(3, 14, lag=4)
    assert await campaign(3, 3) != await campaign(4, 3)


async def test_values_lie_in_their_ranges_and_have_their_types() -> None:
    for proposed in await campaign(0, 20):
        knobs = proposed.knobs
        assert knobs is not None
        assert list(knobs) == [knob["name"] for knob in KNOBS]
        assert isinstance(knobs["RATE"], float)
        assert 1e-4 <= knobs["RATE"] <= 1.0
        assert isinstance(knobs["WIDTH"], int)
        assert 1 <= knobs["WIDTH"] <= 512
        assert knobs["DEPTH"] in {2, 3, 4}
        assert knobs["KIND"] in {"linear", "rbf"}
        assert isinstance(knobs["BIAS"], bool)


async def test_it_learns_from_the_outcomes() -> None:
    proposed = await campaign(1, 60)
    values = [value_of(p.knobs) for p in proposed]
    first, last = values[:STARTUP_TRIALS], values[-20:]
    assert sum(last) / len(last) > sum(first) / len(first)


async def test_the_direction_is_the_metric_s() -> None:
    knobs = [{"name": "X", "type": "float", "low": 0.0, "high": 1.0}]
    lasts = {}
    for direction in ("maximize", "minimize"):
        proposer = SearchProposer(topic(knobs, direction), seed=0)
        told: list[PastScore] = []
        for number in range(1, 41):
            proposed = await proposer.propose(task(number, told))
            assert proposed.knobs is not None
            told.append(past(number, proposed, float(proposed.knobs["X"])))
        lasts[direction] = sum(one.value or 0.0 for one in told[-10:]) / 10
    assert lasts["minimize"] < 0.35  # at random: 0.5, give or take 0.09
    assert lasts["maximize"] > 0.65


async def test_it_is_told_scores_alone() -> None:
    proposer = SearchProposer(topic(KNOBS), seed=0)
    told: list[PastScore] = []
    for number in range(1, 20):
        proposed = await proposer.propose(task(number, told))
        value = {0: None, 1: math.nan, 2: math.inf}.get(number % 4, 0.5)
        told.append(past(number, proposed, value))
    assert proposed.shown == ("idea-0003", "idea-0007", "idea-0011", "idea-0015")
    scored = [one for one in told[:-1] if one.value == 0.5]
    assert await proposer.propose(task(19, scored)) == proposed


async def test_nothing_but_the_task_matters() -> None:
    """Not who is asked, nor what it was asked before, nor the order in which scores are listed."""
    whole = await campaign(5, 14, lag=4)
    told = [past(n, one, value_of(one.knobs)) for n, one in enumerate(whole[:10], 1)]
    asked_before = SearchProposer(topic(KNOBS), 5)
    await asyncio.gather(*(asked_before.propose(task(n)) for n in (3, 14, 1)))
    for proposer in (SearchProposer(topic(KNOBS), 5), asked_before):
        for scores in (told, told[::-1]):
            assert await proposer.propose(task(14, scores)) == whole[13]
    assert await asked_before.propose(task(15, told)) != whole[13]


async def test_no_two_first_proposals_are_alike() -> None:
    """Each has a sampler of its own, and their seeds differ."""
    proposer = SearchProposer(topic(KNOBS), 0)
    first = [(await proposer.propose(task(n))).knobs for n in range(1, 101)]
    assert len({str(knobs) for knobs in first}) == 100
    assert 0.35 < sum(float(knobs["SHARE"]) for knobs in first if knobs) / 100 < 0.65


async def test_it_reckons_with_the_best_and_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a proposal takes does not grow; up to the bound nothing is another than without one."""
    whole = await campaign(5, 48, lag=4)
    monkeypatch.setattr(search, "MOST_TOLD", 40)
    bounded = await campaign(5, 80, lag=4)
    first = next(n for n in range(48) if len(whole[n].shown) > 40)
    assert bounded[:first] == whole[:first]
    for number, proposed in enumerate(bounded[first:], first + 1):
        told = [(value_of(bounded[n - 1].knobs), idea_id_of(n)) for n in range(1, number - 3)]
        best = [name for _, name in sorted(told, key=lambda one: -one[0])[:25]]
        latest = [name for _, name in told if name not in best][-15:]
        assert list(proposed.shown) == sorted([*best, *latest])


async def test_texts_are_honest_and_list_the_values() -> None:
    (proposed,) = await campaign(0, 1)
    proposal = proposed.proposal
    assert proposal.title.startswith("Search 1: RATE=")
    assert "control arm" in proposal.hypothesis
    for knob in KNOBS:
        assert f"{knob['name']}=" in proposal.summary
    assert proposal.parent_ids == ()


async def test_many_knobs_fit_the_title() -> None:
    knobs = [
        {"name": f"A_VERY_LONG_NAME_OF_KNOB_{n}", "type": "int", "low": 0, "high": 9}
        for n in range(20)
    ]
    proposed = await SearchProposer(topic(knobs), 0).propose(task(1))
    assert len(proposed.proposal.title) == 200


async def test_the_bank_takes_search_ideas_apart_by_their_knobs() -> None:
    bank = Bank()
    for number, proposed in enumerate(await campaign(0, 10), 1):
        assert proposed.knobs is not None
        assert bank.same_knobs(proposed.knobs) is None
        bank.add(idea_id_of(number), proposed.proposal.summary, proposed.knobs)
        assert bank.same_knobs(dict(reversed(proposed.knobs.items()))) == idea_id_of(number)


def test_a_recipe_without_knobs_is_refused_with_the_fix() -> None:
    with pytest.raises(UsageError, match=r"recipe toy .*add \[\[knobs\]\]"):
        SearchProposer(topic([]), 0)


def test_a_range_without_whole_numbers_is_refused() -> None:
    knobs = [{"name": "DEPTH", "type": "int", "low": 1.2, "high": 1.8}]
    with pytest.raises(UsageError, match=r"whole number .* DEPTH$"):
        SearchProposer(topic(knobs), 0)
