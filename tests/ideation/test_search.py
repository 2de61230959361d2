from __future__ import annotations

import json
import math
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


def task(number: int, scores: dict[int, float | None]) -> ProposalTask:
    past = tuple(PastScore(idea_id=idea_id_of(n), value=v) for n, v in scores.items())
    return ProposalTask(
        idea_id=idea_id_of(number), number=number, round=1, feedback="", archive=(), scores=past
    )


def value_of(knobs: dict[str, KnobValue] | None) -> float:
    """A made-up outcome with its best value 0 at RATE = 0.01 and KIND = rbf."""
    assert knobs is not None
    return -abs(math.log10(float(knobs["RATE"])) + 2) - (knobs["KIND"] != "rbf")


async def campaign(seed: int, ideas: int, lag: int = 1) -> list[Proposed]:
    proposer = SearchProposer(topic(KNOBS), seed)
    proposed: list[Proposed] = []
    for number in range(1, ideas + 1):
        settled = range(1, max(1, number - lag + 1))
        scores = {n: value_of(proposed[n - 1].knobs) for n in settled}
        proposed.append(await proposer.propose(task(number, scores)))
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
        xs: list[float] = []
        for number in range(1, 41):
            scores = dict(enumerate(xs, 1))
            proposed = await proposer.propose(task(number, scores))
            assert proposed.knobs is not None
            xs.append(float(proposed.knobs["X"]))
        lasts[direction] = sum(xs[-10:]) / 10
    assert lasts["minimize"] < 0.35  # at random: 0.5, give or take 0.09
    assert lasts["maximize"] > 0.65


async def test_failures_nonsense_and_strangers_are_survived() -> None:
    proposer = SearchProposer(topic(KNOBS), seed=0)
    scores: dict[int, float | None] = {99: 1.0}
    for number in range(1, 20):
        proposed = await proposer.propose(task(number, scores))
        scores[number] = {0: None, 1: math.nan, 2: math.inf}.get(number % 4, 0.5)
    assert proposed.shown == ("idea-0003", "idea-0007", "idea-0011", "idea-0015")


async def test_an_outcome_is_told_once_and_the_same_idea_asked_once() -> None:
    proposer = SearchProposer(topic(KNOBS), seed=0)
    first = await proposer.propose(task(1, {}))
    assert await proposer.propose(task(1, {})) == first
    second = await proposer.propose(task(2, {1: 0.3}))
    third = await proposer.propose(task(3, {1: 0.9, 2: 0.4}))
    assert (first.shown, second.shown) == ((), ("idea-0001",))
    assert third.shown == ("idea-0001", "idea-0002")


async def test_the_order_in_which_scores_are_listed_does_not_matter() -> None:
    results = []
    for turned in (False, True):
        proposer = SearchProposer(topic(KNOBS), seed=5)
        for number in range(1, 13):
            await proposer.propose(task(number, {}))
        scores = {n: float(n % 5) for n in range(1, 13)}
        if turned:
            scores = dict(reversed(scores.items()))
        results.append((await proposer.propose(task(13, scores))).knobs)
    assert results[0] == results[1]


async def test_it_reckons_with_the_best_and_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a proposal takes does not grow; up to the bound nothing is another than without one."""
    whole = await campaign(5, 48, lag=4)
    monkeypatch.setattr(search, "MOST_TOLD", 40)
    monkeypatch.setattr(search, "KEPT", 30)
    bounded = await campaign(5, 80, lag=4)
    first = next(n for n in range(48) if len(whole[n].shown) > 40)
    assert bounded[:first] == whole[:first]
    assert max(len(proposed.shown) for proposed in bounded) == 40
    for number, proposed in enumerate(bounded[first:], first + 1):
        told = [(value_of(bounded[n - 1].knobs), idea_id_of(n)) for n in range(1, number - 3)]
        best = [name for _, name in sorted(told, key=lambda one: -one[0])[:25]]
        latest = [name for _, name in told[-5:]]
        assert {*best, *latest} <= {*proposed.shown}
        assert list(proposed.shown) == sorted(proposed.shown)


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
    proposed = await SearchProposer(topic(knobs), 0).propose(task(1, {}))
    assert len(proposed.proposal.title) == 200


async def test_the_bank_takes_search_ideas_apart_by_their_knobs() -> None:
    bank = Bank()
    for number, proposed in enumerate(await campaign(0, 10), 1):
        assert proposed.knobs is not None
        assert bank.same_knobs(proposed.knobs) is None
        bank.add(idea_id_of(number), proposed.proposal.summary, proposed.knobs)
        assert bank.same_knobs(dict(reversed(proposed.knobs.items()))) == idea_id_of(number)


def test_a_recipe_without_knobs_is_refused_with_the_mend() -> None:
    with pytest.raises(UsageError, match=r"toy has no knobs.*add \[\[knobs\]\]"):
        SearchProposer(topic([]), 0)


def test_a_range_without_whole_numbers_is_refused() -> None:
    knobs = [{"name": "DEPTH", "type": "int", "low": 1.2, "high": 1.8}]
    with pytest.raises(UsageError, match=r"no whole number .* DEPTH"):
        SearchProposer(topic(knobs), 0)
