from __future__ import annotations

import math
import re
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hpcscientist.history.entities import IdeaState
from hpcscientist.history.state import CampaignState
from hpcscientist.judgement.quality import IdeaEnd, Quality, measure, quality
from hpcscientist.records.events import AttemptReviewed, IdeaEnded


def judged(*ideas: tuple[bool, tuple[int, ...]]) -> list[IdeaEnd]:
    return [
        IdeaEnd(idea_id=f"idea-{number:04d}", resolved=resolved, marks=marks)
        for number, (resolved, marks) in enumerate(ideas, start=1)
    ]


def test_a_campaign_by_hand() -> None:
    of = quality(judged((True, (4, 5)), (True, (3, 3)), (False, (1, 2)), (False, ())))
    assert (of.ideas, of.resolved, of.judged_ideas, of.judgements) == (4, 2, 3, 6)
    assert of.completeness == 0.5
    assert of.correctness == 3.0
    assert of.spread == pytest.approx(math.sqrt(10 / 5))
    assert of.completeness_interval == pytest.approx((0.15004, 0.84996), abs=1e-5)
    # 3 ± 4.3027 (t, 2 degrees of freedom) * 1.5 / sqrt(3), cut to the marks there are.
    assert of.correctness_interval == (1.0, 5.0)
    assert str(of) == (
        "completeness 0.500 (2 of 4 ideas; 95% 0.15 to 0.85); "
        "correctness 3.00 ± 1.41 (6 judgements of 3 ideas; 95% 1.00 to 5.00)"
    )


def test_nothing_is_made_up_where_nothing_is_known() -> None:
    none = quality([])
    assert none == Quality(
        ideas=0, resolved=0, unjudged=0, completeness=None, completeness_interval=None,
        judged_ideas=0, judgements=0, correctness=None, correctness_interval=None, spread=None,
    )  # fmt: skip
    assert str(none) == "completeness unknown (no ideas); correctness unknown (no judgements)"
    one = quality(judged((True, (3,))))
    assert (one.correctness, one.correctness_interval, one.spread) == (3.0, None, None)
    assert str(one).endswith("correctness 3.00 (1 judgement of 1 idea)")
    several = quality(judged((True, (3, 4))))
    assert several.correctness_interval is None
    assert several.spread == pytest.approx(math.sqrt(0.5))
    unseen = quality(judged((True, ()), (True, (4,)), (False, ())))
    assert (unseen.resolved, unseen.unjudged) == (2, 1)
    assert re.search(r"\(2 of 3 ideas, 1 .*unjudged; 95%", str(unseen))
    # Judges who agree on everything are no proof that the next one would.
    alike = quality(judged((True, (3, 3)), (True, (3, 3))))
    assert (alike.spread, alike.correctness_interval) == (0.0, None)


def ended(number: int, status: str, attempt: int, *reviews: AttemptReviewed) -> IdeaState:
    idea_id = f"idea-{number:04d}"
    idea = IdeaState(idea_id, number, 1, "A title", ())
    idea.reviews = {review.attempt: review for review in reviews}
    told = {"idea_id": idea_id, "status": status, "reason": None, "attempt": attempt}
    idea.ended = IdeaEnded.model_validate(told)
    return idea


def review(attempt: int, complete: bool, *marks: int) -> AttemptReviewed:
    return AttemptReviewed(
        idea_id="idea", attempt=attempt, complete=complete, same_as_reference=False, marks=marks
    )


def test_an_idea_is_resolved_if_it_was_scored_and_is_complete() -> None:
    expected = [
        (ended(1, "scored", 1, review(1, True, 4, 5)), True, (4, 5)),
        (ended(2, "failed", 1, review(1, True, 4, 5)), False, (4, 5)),
        (ended(3, "scored", 1, review(1, False, 2)), False, (2,)),
        (ended(4, "scored", 1, review(1, True)), True, ()),
        (ended(5, "scored", 2, review(1, False, 2)), True, (2,)),  # what stands is unreviewed
        (ended(6, "scored", 1, review(1, False, 2), review(2, True, 5)), False, (2,)),
        (ended(7, "scored", 1), True, ()),
        (ended(8, "failed", 1), False, ()),
    ]
    state = CampaignState()
    state.ideas = {idea.idea_id: idea for idea, _, _ in expected}
    state.ideas["idea-0009"] = ended(9, "rejected", 1, review(1, True, 5))  # was never let in
    alike = [
        IdeaEnd(idea_id=idea.idea_id, resolved=resolved, marks=marks)
        for idea, resolved, marks in expected
    ]
    assert measure(state) == quality(alike)
    state.ideas = {"idea-0007": expected[6][0]}
    assert measure(state) is None


def test_correctness_is_by_expectations_where_these_are_known() -> None:
    state = CampaignState()
    known = review(1, True, 4, 4).model_copy(update={"expected": (3.5, 4.25)})
    state.ideas = {"idea-0001": ended(1, "scored", 1, known)}
    found = measure(state)
    assert found is not None
    assert found.correctness == pytest.approx(3.875)


MARKS = st.lists(st.integers(1, 5), max_size=6).map(tuple)
IDEAS = st.lists(st.tuples(st.booleans(), MARKS), max_size=8)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=9))
def test_with_as_many_judgements_each_it_is_the_t_interval_of_the_means(marks: Any) -> None:
    of = quality(judged(*((True, pair) for pair in marks)))
    means = [statistics.mean(pair) for pair in marks]
    if len(set(means)) == 1:
        assert of.correctness_interval is None
        return
    theirs = stats.ttest_1samp(means, 0).confidence_interval(0.95)
    expected = (max(1.0, theirs.low), min(5.0, theirs.high))
    assert of.correctness_interval == pytest.approx(expected)


@given(IDEAS, st.randoms(use_true_random=False))
def test_order_plays_no_part(ideas: list[tuple[bool, tuple[int, ...]]], random: Any) -> None:
    ended = judged(*ideas)
    shuffled = [
        idea.model_copy(update={"marks": tuple(random.sample(idea.marks, len(idea.marks)))})
        for idea in ended
    ]
    random.shuffle(shuffled)
    assert quality(shuffled) == quality(ended)


@given(IDEAS)
def test_measures_lie_within_what_was_judged(ideas: list[tuple[bool, tuple[int, ...]]]) -> None:
    of = quality(judged(*ideas))
    every = [mark for _, marks in ideas for mark in marks]
    assert of.judgements == len(every)
    if every:
        assert of.correctness is not None
        assert min(every) <= of.correctness <= max(every)
        assert of.correctness == pytest.approx(statistics.mean(every))
    if len(every) > 1:
        assert of.spread == pytest.approx(statistics.stdev(every))
    if of.correctness_interval:
        low, high = of.correctness_interval
        assert 1.0 <= low <= of.correctness <= high <= 5.0  # type: ignore[operator]
    assert Quality.model_validate_json(of.model_dump_json()) == of
