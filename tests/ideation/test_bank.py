from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcscientist.ideation.bank import Bank, Nearest, _terms

WORDS = ["add", "momentum", "to", "the", "classifier", "0.9", "smooth", "labels", "größe"]
summaries = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


def brute_force(a: str, b: str) -> float:
    left, right = Counter(_terms(a)), Counter(_terms(b))
    length = math.hypot(*left.values()) * math.hypot(*right.values())
    return sum(left[t] * right[t] for t in left) / length if length else 0.0


@settings(max_examples=60, deadline=None)
@given(st.lists(summaries, min_size=1, max_size=8), summaries)
def test_nearest_is_what_brute_force_finds(earlier: list[str], new: str) -> None:
    bank = Bank()
    for number, summary in enumerate(earlier):
        bank.add(f"idea-{number}", summary)
    nearest = bank.nearest(new)
    cosines = [brute_force(new, summary) for summary in earlier]
    assert nearest is not None
    assert nearest.cosine == pytest.approx(max(cosines))
    assert cosines[int(nearest.idea_id[5:])] == pytest.approx(max(cosines))
    # A query leaves nothing behind.
    assert bank.nearest(new) == nearest


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=5), st.text(max_size=40))
def test_any_text_has_a_cosine_between_nothing_and_one(earlier: list[str], new: str) -> None:
    bank = Bank()
    for number, summary in enumerate(earlier):
        bank.add(f"idea-{number}", summary)
    nearest = bank.nearest(new)
    assert nearest is not None
    assert 0.0 <= nearest.cosine <= 1.0


@given(st.text(min_size=1, max_size=40).filter(lambda t: not t.isspace()))
@settings(max_examples=40, deadline=None)
def test_a_text_is_most_like_itself(text: str) -> None:
    bank = Bank()
    bank.add("idea-0001", "a wholly different summary")
    bank.add("idea-0002", text)
    nearest = bank.nearest(text)
    assert nearest is not None
    assert nearest.cosine == 1.0 or not _terms(text)


def test_an_empty_bank_knows_nothing_like_it() -> None:
    bank = Bank()
    assert len(bank) == 0
    assert bank.nearest("anything") is None
    assert bank.look_alike("anything") is None
    assert bank.same_knobs({"A": 1}) is None


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_empty_texts_are_like_nothing(text: str) -> None:
    bank = Bank()
    bank.add("idea-0001", text)
    assert bank.nearest(text) == Nearest(idea_id="idea-0001", cosine=0.0)
    assert bank.look_alike(text) is None


def test_the_threshold_itself_does_not_reject() -> None:
    words = [f"word{n}" for n in range(13)]  # 13 words and 12 pairs: 25 terms
    changed = list(words)
    changed[0], changed[6] = "first", "middle"  # 2 words and 3 pairs: 20 of 25 in common
    bank = Bank()
    bank.add("idea-0001", " ".join(words))
    assert bank.nearest(" ".join(changed)) == Nearest(idea_id="idea-0001", cosine=0.8)
    assert bank.look_alike(" ".join(changed)) is None
    changed[6] = words[6]
    assert bank.look_alike(" ".join(changed)) == Nearest(idea_id="idea-0001", cosine=23 / 25)


def test_rewording_is_seen_and_other_ideas_are_not() -> None:
    bank = Bank()
    bank.add(
        "idea-0001",
        "Shift each training image by one pixel in the four directions and train on the five "
        "times larger set.",
    )
    bank.add("idea-0002", "Replace the linear classifier by a support vector machine.")
    alike = bank.look_alike(
        "Shift each training image by one pixel in all four directions and train on the five "
        "times larger set of images."
    )
    assert alike is not None
    assert alike.idea_id == "idea-0001"
    other = bank.nearest("Average the predictions of ten networks with different seeds.")
    assert other is not None
    assert other.cosine < 0.5


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("把学习率从零点一降低到零点零一并训练更久", "把学习率从零点一降低到零点零一并且训练更久"),
        ("Die Lernrate wird halbiert, wenn der Fehler nicht fällt", None),
        ("Уменьшить скорость обучения вдвое после каждой эпохи", None),
        ("学習率を半分にして、エポックを倍にする", None),
    ],
)
def test_other_languages_are_compared_too(first: str, second: str | None) -> None:
    bank = Bank()
    bank.add("idea-0001", first)
    assert bank.look_alike((second or first).upper()) is not None
    nearest = bank.nearest("an English summary")
    assert nearest is not None
    assert nearest.cosine == 0.0


def test_case_and_forms_of_letters_do_not_count() -> None:
    bank = Bank()
    bank.add("idea-0001", "Caf\u00e9 ﬁlter STRASSE")
    nearest = bank.nearest("cafe\u0301 filter straße")
    assert nearest is not None
    assert nearest.cosine == 1.0


def test_the_first_of_equals_is_named() -> None:
    bank = Bank()
    for number in range(1, 4):
        bank.add(f"idea-{number:04d}", "the same words")
    assert bank.nearest("the same words") == Nearest(idea_id="idea-0001", cosine=1.0)


def test_a_cosine_does_not_depend_on_what_else_is_in_the_bank() -> None:
    alone, crowded = Bank(), Bank()
    alone.add("idea-0001", "halve the learning rate")
    crowded.add("idea-0001", "halve the learning rate")
    for number in range(2, 200):
        crowded.add(f"idea-{number:04d}", f"number {number} of many fillers {number * 7}")
    assert alone.nearest("halve the rate of learning") == crowded.nearest(
        "halve the rate of learning"
    )


def test_knobs_are_compared_by_value_and_type() -> None:
    bank = Bank()
    bank.add("idea-0001", "Control arm.", {"RATE": 0.1, "STEPS": 1})
    assert bank.same_knobs({"STEPS": 1, "RATE": 0.1}) == "idea-0001"
    for other in ({"RATE": 0.1, "STEPS": 2}, {"RATE": 0.1}, {"RATE": 0.1, "STEPS": True}):
        assert bank.same_knobs(other) is None
    # What the control arm writes about itself is always alike, and no reason to reject it.
    assert bank.nearest("Control arm.") is None
    bank.add("idea-0002", "Control arm.", {"RATE": 0.1, "STEPS": 1})
    assert bank.same_knobs({"RATE": 0.1, "STEPS": 1}) == "idea-0001"
