from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proposing_kit import Notes, Scripted, a_leader, a_task, digits, ideation, papers, review

from hpcscientist.errors import EndpointError, PlaybookExhausted, ReplyError
from hpcscientist.ideation.directions import DirectionFinder, choose, ratings
from hpcscientist.models.embedding.keywords import KeywordEmbedder
from hpcscientist.models.odds import by_field
from hpcscientist.models.prompting.fitting import TokenEstimate, Window
from hpcscientist.records.base import NumberOdds
from hpcscientist.records.idea import idea_seed
from hpcscientist.records.proposing import BatchTask, ConvergeReply, Direction, Judgement

NAMED = [
    ("Shifted images", "Move each training image by one pixel in a random direction."),
    ("Momentum", "Accumulate gradients so that consistent directions speed up."),
    ("Shifted pictures", "Move each training image by one pixel in a random direction, anew."),
    ("Averaged networks", "Train three networks and average what they predict."),
]


def named(*ways: tuple[str, str]) -> dict[str, Any]:
    return {"directions": [{"title": title, "summary": summary} for title, summary in ways]}


def judged(**scores: tuple[int, int, int]) -> dict[str, Any]:
    names = ("novelty", "soundness", "potential")
    return {
        "judgements": [
            {"direction": int(key[1:]), "reason": "r", **dict(zip(names, score, strict=True))}
            for key, score in scores.items()
        ]
    }


async def found(
    replies: dict[str, Any], ideas: int = 2, count: int = 10, **task: Any
) -> tuple[list[str | None], Scripted, Notes]:
    model, notes = Scripted(replies), Notes()
    finder = DirectionFinder(
        ideation(model), review(model), digits(), count, similarity=0.8, notify=notes
    )
    first = a_task(4, **task)
    batch = BatchTask(first=first, numbers=tuple(range(4, 4 + ideas)))
    ways = await finder.find(batch)
    assert len(ways) == ideas
    return [way and way.title for way in ways], model, notes


async def test_the_best_are_chosen_and_none_twice() -> None:
    scores = judged(d1=(5, 5, 5), d2=(2, 3, 4), d3=(6, 6, 6), d4=(4, 4, 4))
    replies = {"directions/1": named(*NAMED), "converge/1": scores}
    chosen, model, notes = await found(replies, ideas=3)
    assert chosen == ["Shifted pictures", "Averaged networks", "Momentum"]
    assert notes.told == {}
    one, two = model.asked
    assert (one.subject, one.key, one.role) == ("idea-0004", "directions/1", "ideation")
    assert (two.subject, two.key, two.role) == ("idea-0004", "converge/1", "review")
    assert one.seed == two.seed == idea_seed(5, 4)


async def test_where_there_are_fewer_than_ideas_the_rest_have_none() -> None:
    replies = {"directions/1": named(*NAMED[:3]), "converge/1": judged(d1=(9, 9, 9))}
    chosen, _, _ = await found(replies, ideas=5)
    assert chosen == ["Shifted images", "Momentum", None, None, None]


async def test_ties_are_broken_by_position_and_unjudged_stand_last() -> None:
    scores = judged(d2=(1, 1, 1), d4=(1, 1, 1))
    replies = {"directions/1": named(*NAMED), "converge/1": scores}
    assert (await found(replies, ideas=4))[0] == [
        "Momentum", "Averaged networks", "Shifted images", None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "reply",
    [ReplyError("a hole"), PlaybookExhausted("none"), "no JSON", judged(), judged(d9=(9, 9, 9))],
)
async def test_without_judgements_they_are_taken_in_the_order_given(reply: Any) -> None:
    chosen, _, notes = await found({"directions/1": named(*NAMED), "converge/1": reply}, ideas=3)
    assert chosen == ["Shifted images", "Momentum", "Averaged networks"]
    assert re.match("directions .* order ", notes.told["converge/idea-0004"])


@pytest.mark.parametrize("reply", [ReplyError("a hole"), PlaybookExhausted("none"), "?", named()])
async def test_without_directions_there_are_none(reply: Any) -> None:
    chosen, model, notes = await found({"directions/1": reply})
    assert chosen == [None, None]
    assert not any(key.startswith("converge") for key in model.keys)
    assert re.match("ideas .*without directions: ", notes.told["directions/idea-0004"])


@pytest.mark.parametrize("stage", ["directions/1", "converge/1"])
async def test_an_endpoint_that_fails_is_no_answer(stage: str) -> None:
    with pytest.raises(EndpointError):
        await found({"directions/1": named(*NAMED), stage: EndpointError("down")})


async def test_one_direction_needs_no_judgement() -> None:
    chosen, model, _ = await found({"directions/1": named(NAMED[0], ("  ", "nothing"))})
    assert (chosen, model.keys) == (["Shifted images", None], ["directions/1"])


async def test_titles_that_are_not_there_or_too_long_when_tamed() -> None:
    ways = [("\u200b\u200b", "invisible"), ("<|" * 100, "turns"), ("Plain", "\u202e")]
    chosen, _, _ = await found({"directions/1": named(*ways)})
    assert chosen[0] is not None
    assert chosen[0].startswith("< |< |")
    assert chosen[1] is None


@pytest.mark.parametrize(
    ("ideas", "count", "told"),
    [
        (3, 10, "Name 10 directions .* best 3 "),
        (9, 4, "Name 4 directions .* best 4 "),
        (1, 2, "Name 2 directions .* best one "),
        (1, 1, "Name 1 direction .* best one "),
    ],
)
async def test_it_says_how_many(ideas: int, count: int, told: str) -> None:
    _, model, _ = await found({"directions/1": named(NAMED[0])}, ideas, count)
    assert re.search(told, model.prompt("directions/1"))


async def test_no_more_are_taken_than_were_asked_for() -> None:
    replies = {"directions/1": named(*NAMED), "converge/1": judged(d4=(9, 9, 9))}
    chosen, model, _ = await found(replies, ideas=4, count=2)
    assert chosen == ["Shifted images", "Momentum", None, None]
    assert "Averaged networks" not in model.prompt("converge/1")


async def test_the_prompts_tell_what_is_known() -> None:
    replies = {"directions/1": named(*NAMED), "converge/1": judged(d1=(1, 1, 1))}
    told = {
        "mode": "follow-up", "instruction": "Stay with numpy.", "feedback": "Momentum helped.",
        "references": papers(2), "leader": a_leader(),
    }  # fmt: skip
    _, model, _ = await found(replies, ideas=3, **told)
    for key in model.keys:
        prompt = model.prompt(key)
        for part in ("Stay with numpy.", "Momentum helped.", "[arxiv:1] Paper 1", "idea-0002, T2"):
            assert part in prompt
        assert "accuracy 0.93, +0.02" in prompt
    assert "Name 10 directions" in model.prompt("directions/1")
    assert "The best 3 of them" in model.prompt("directions/1")
    assert "\n2. Momentum: Accumulate gradients" in model.prompt("converge/1")


async def test_a_short_context_costs_the_code_before_the_step() -> None:
    model = Scripted({"directions/1": named(*NAMED), "converge/1": judged(d1=(1, 1, 1))})
    context = 4000
    ask = ideation(model, Window(context, TokenEstimate()))
    judge = review(model, Window(context, TokenEstimate()))
    task = BatchTask(first=a_task(4, references=papers(10)), numbers=(4, 5))
    ways = await DirectionFinder(ask, judge, digits()).find(task)
    assert None not in ways
    for key in model.keys:
        assert "[left out" in model.prompt(key)
        assert "abstract-1" not in model.prompt(key)


def test_a_direction_judged_twice_or_that_is_not_there() -> None:
    def judge(number: int, score: int) -> Judgement:
        return Judgement(
            direction=number, novelty=score, soundness=score, potential=score + 1, reason="r"
        )

    reply = ConvergeReply(judgements=(judge(2, 3), judge(7, 9), judge(2, 8)))
    assert ratings(reply, 3) == {1: pytest.approx(10 / 3)}


def test_expectations_count_where_they_are_known() -> None:
    alike = {"novelty": 8, "soundness": 8, "potential": 8, "reason": "r"}
    text = json.dumps({"judgements": [{"direction": n, **alike} for n in (1, 2)]})
    places = [place.start() for place in re.finditer("8", text)]
    means = dict(zip(places, (8, 8, 8, 8, 9, 10), strict=True))
    odds = tuple(NumberOdds(at=at, values=((mean, 1.0),)) for at, mean in means.items())
    reply = ConvergeReply.model_validate_json(text)
    assert ratings(reply, 2) == {0: 8.0, 1: 8.0}
    reply.expect(by_field(text, (0, len(text)), odds))
    assert ratings(reply, 2) == {0: 8.0, 1: 9.0}


_WORDS = st.lists(st.sampled_from(["shift", "scale", "rotate", "average", "noise"]), max_size=4)
_WAYS = st.lists(
    st.builds(
        lambda a, b: Direction(title=" ".join(a) or "-", summary=" ".join(b) or "."), _WORDS, _WORDS
    ),
    max_size=8,
)
_RATED = st.dictionaries(st.integers(0, 7), st.floats(1, 10))
_LIKENESS = st.sampled_from([0.3, 0.5, 0.8, 1.0])


def _near(one: Direction, other: Direction, similarity: float) -> bool:
    def cosine(a: str, b: str) -> float:
        index = KeywordEmbedder().index()
        index.add(index.prepare(a))
        nearest = index.nearest(index.prepare(b))
        assert nearest is not None
        return nearest[1]

    return max(cosine(one.title, other.title), cosine(one.summary, other.summary)) > similarity


@settings(max_examples=60, deadline=None)
@given(_WAYS, _RATED, st.integers(1, 8), _LIKENESS)
def test_a_choice_never_repeats_and_is_stable(
    ways: list[Direction], rated: dict[int, float], wanted: int, similarity: float
) -> None:
    chosen = choose(ways, rated, wanted, similarity)
    assert len(set(chosen)) == len(chosen) <= wanted
    for a, b in itertools.combinations(chosen, 2):
        assert not _near(ways[a], ways[b], similarity)
        assert (-rated.get(a, 0.0), a) < (-rated.get(b, 0.0), b)
    left = set(range(len(ways))) - set(chosen)
    for position in left if len(chosen) < wanted else ():
        assert any(_near(ways[position], ways[taken], similarity) for taken in chosen)
    # A smaller batch gets the first of what a larger one gets, in whatever order ratings came.
    assert choose(ways, dict(reversed(rated.items())), wanted + 1, similarity)[:wanted] == chosen
    # One more that stands last changes nothing before it.
    if len(ways) not in rated:
        more = [*ways, Direction(title="another", summary="thing")]
        assert choose(more, rated, wanted, similarity)[: len(chosen)] == chosen
