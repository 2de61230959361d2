from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hpcscientist.authoring.review.measures import Judged, Quality, of_review, quality, wilson
from hpcscientist.records.experiment import CodeReview, ConceptCheck


def judged(*ideas: tuple[bool, tuple[int, ...]]) -> list[Judged]:
    return [
        Judged(idea_id=f"idea-{number:04d}", resolved=resolved, marks=marks)
        for number, (resolved, marks) in enumerate(ideas, start=1)
    ]


def test_a_campaign_by_hand() -> None:
    of = quality(judged((True, (4, 5)), (True, (3, 3)), (False, (1, 2)), (False, ())))
    assert (of.ideas, of.resolved, of.judged_ideas, of.judgements) == (4, 2, 3, 6)
    assert of.completeness == 0.5
    assert of.correctness == 3.0
    assert of.spread == pytest.approx(math.sqrt(10 / 5))
    assert of.between_ideas == 1.5  # of the means 4.5, 3 and 1.5
    assert of.within_ideas == pytest.approx(math.sqrt((0.5 + 0 + 0.5) / 3))
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
        between_ideas=None, within_ideas=None,
    )  # fmt: skip
    assert str(none) == "completeness unknown (no ideas); correctness unknown (no judgements)"
    one = quality(judged((True, (3,))))
    assert (one.correctness, one.correctness_interval, one.spread) == (3.0, None, None)
    assert str(one).endswith("correctness 3.00 (1 judgement of 1 idea)")
    several = quality(judged((True, (3, 4))))
    assert (several.correctness_interval, several.between_ideas) == (None, None)
    assert several.within_ideas == several.spread == pytest.approx(math.sqrt(0.5))
    unseen = quality(judged((True, ()), (True, (4,)), (False, ())))
    assert (unseen.resolved, unseen.unjudged) == (2, 1)
    assert "(2 of 3 ideas, 1 of them unjudged; 95%" in str(unseen)
    # Judges who agree on everything are no proof that the next one would.
    alike = quality(judged((True, (3, 3)), (True, (3, 3))))
    assert (alike.spread, alike.correctness_interval) == (0.0, None)


def test_an_idea_is_resolved_if_it_was_scored_and_is_complete() -> None:
    check = ConceptCheck(concept="a", state="partial", remark="r")
    lacking = CodeReview(attempt=1, checks=(check,), marks=(2,))
    whole = CodeReview(attempt=1, marks=(4, 5))
    same = CodeReview(attempt=1, marks=(5,), same_as_reference=True)
    unjudged = CodeReview(attempt=1, judged=False)
    expected: list[tuple[CodeReview | None, bool, bool, tuple[int, ...]]] = [
        (whole, True, True, (4, 5)), (whole, False, False, (4, 5)), (lacking, True, False, (2,)),
        (same, True, False, (5,)), (unjudged, True, True, ()), (None, True, True, ()),
        (None, False, False, ()),
    ]  # fmt: skip
    for review, scored, resolved, marks in expected:
        of = of_review("idea-0001", review, scored=scored)
        assert (of.idea_id, of.resolved, of.marks) == ("idea-0001", resolved, marks)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_the_interval_of_scipy(share: tuple[int, int]) -> None:
    successes, trials = share
    low, high = wilson(successes, trials)
    theirs = stats.binomtest(successes, trials).proportion_ci(0.95, "wilson")
    assert (low, high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert 0.0 <= low <= successes / trials <= high <= 1.0


@pytest.mark.parametrize("share", [(0, 0), (-1, 3), (4, 3)])
def test_what_is_no_share(share: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="is no share"):
        wilson(*share)


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
