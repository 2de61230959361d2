from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_kit import OTHER, REWORDED, ROTATED, model_folder

from hpcscientist.ideation.bank import Bank, Banked, Nearest
from hpcscientist.models.embedding.keywords import KeywordEmbedder, terms
from hpcscientist.models.embedding.sentences import SentenceEmbedder
from hpcscientist.models.embedding.vectors import VectorIndex, cosines_with

WORDS = ["add", "momentum", "to", "the", "classifier", "0.9", "smooth", "labels", "größe"]
summaries = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


def brute_force(a: str, b: str) -> float:
    left, right = Counter(terms(a)), Counter(terms(b))
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
    assert nearest.cosine == 1.0 or not terms(text)


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


def test_what_was_prepared_is_kept_until_the_verdict() -> None:
    bank = Bank()
    bank.add("idea-0001", "halve the learning rate")
    for summary in ("halve the learning rate", "average ten networks"):
        bank.prepare(summary)
    assert bank.look_alike("halve the learning rate") is not None
    assert bank.look_alike("average ten networks") is None
    assert list(bank._prepared) == ["average ten networks"]
    bank.add("idea-0002", "average ten networks")
    assert bank._prepared == {}
    assert bank.nearest("average ten networks") == Nearest(idea_id="idea-0002", cosine=1.0)


class Plane:
    """An embedder for tests that need given cosines: `x y` or a word that names a vector."""

    name, device, fingerprint = "plane", None, "plane"
    NAMED: ClassVar = {"zero": (0, 0, 0), "at": (0.8, 0.6, 0), "near": (0.8 + 1e-7, 0.6, 0)}

    def __init__(self) -> None:
        self.batches: list[int] = []

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.batches.append(len(texts))
        rows = [self.NAMED[t] if t in self.NAMED else (*map(float, t.split()), 0) for t in texts]
        return np.array(rows, dtype=np.float32).reshape(len(texts), 3)

    def index(self) -> VectorIndex:
        return VectorIndex(self)


# 0.6 and 0.8 make cosines of exactly 0, 0.6, 0.8, 0.96 and 1 but for the rounding to float32.
POINTS = ["1 0", "0.8 0.6", "0.6 0.8", "0 1", "-1 0", "-0.8 0.6", "zero", "at", "near"]
AT = float(cosines_with(Plane().embed(["1 0"]), Plane().embed(["at"])[0])[0])


def one_by_one(bank: Bank, proposed: list[tuple[str, str]]) -> list[Nearest | None]:
    verdicts = []
    for idea_id, summary in proposed:
        verdicts.append(bank.look_alike(summary))
        if verdicts[-1] is None:
            bank.add(idea_id, summary)
    return verdicts


@pytest.mark.parametrize(("embedder", "texts"), [(Plane, POINTS), (KeywordEmbedder, None)])
@pytest.mark.parametrize("threshold", [0.8, 0.01, 1.0, AT])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_batch_is_judged_as_one_after_the_other(
    embedder: Any, texts: list[str] | None, threshold: float, data: st.DataObject
) -> None:
    text = st.sampled_from(texts) if texts else summaries
    earlier = data.draw(st.lists(text, max_size=8))
    batch = data.draw(st.lists(text, max_size=14))
    together, alone = Bank(threshold, embedder()), Bank(threshold, embedder())
    for number, summary in enumerate(earlier, 1):
        together.add(f"idea-{number}", summary)
        alone.add(f"idea-{number}", summary)
    proposed = [(f"idea-{number}", summary) for number, summary in enumerate(batch, 100)]
    expected = one_by_one(alone, proposed)
    assert together.check(proposed) == expected
    assert together.check(proposed) == expected  # nothing was added
    # What a check said is what is said when they are let in one by one afterwards.
    assert one_by_one(together, proposed) == expected
    assert together._prepared == {}


def test_a_batch_is_judged_as_by_brute_force() -> None:
    source = np.random.default_rng(0)
    rows = np.round(source.standard_normal((260, 2)), 1)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    texts = [f"{x} {y}" for x, y in rows.tolist()]
    vectors = Plane().embed(texts).astype(np.float64)
    bank = Bank(0.999, Plane())
    for number in range(200):
        bank.add(f"idea-{number}", texts[number])
    verdicts = bank.check([(f"idea-{n}", texts[n]) for n in range(200, 260)])
    let_in = list(range(200))
    for number, verdict in enumerate(verdicts, 200):
        norms = np.linalg.norm(vectors[let_in], axis=1) * np.linalg.norm(vectors[number])
        cosines = vectors[let_in] @ vectors[number] / np.maximum(norms, 1e-9)
        if cosines.max() > 0.999:
            assert verdict is not None
            assert verdict.cosine == pytest.approx(cosines.max(), abs=1e-12)
            assert cosines[let_in.index(int(verdict.idea_id[5:]))] == pytest.approx(
                cosines.max(), abs=1e-12
            )
        else:
            assert verdict is None
            let_in.append(number)
    assert 200 < len(let_in) < 260


def test_a_cosine_at_the_threshold_lets_in_and_one_above_does_not() -> None:
    assert pytest.approx(0.8) == AT
    for threshold, lets_in in ((AT, True), (math.nextafter(AT, 0), False)):
        bank = Bank(threshold, Plane())
        bank.add("a", "1 0")
        assert (bank.look_alike("at") is None) is lets_in
        assert (bank.check([("b", "at")]) == [None]) is lets_in
        beside = Bank(threshold, Plane()).check([("a", "1 0"), ("b", "at")])
        assert beside == [None, None if lets_in else Nearest(idea_id="a", cosine=AT)]


def test_texts_with_nothing_in_them_reject_nothing() -> None:
    verdicts = Bank(0.6).check([("a", ""), ("b", ""), ("c", "x"), ("d", "x")])
    assert verdicts == [None, None, None, Nearest(idea_id="c", cosine=1.0)]


def test_a_batch_is_embedded_together_and_what_it_lets_in_only_once() -> None:
    embedder = Plane()
    bank = Bank(0.8, embedder)
    proposed = [("a", "1 0"), ("b", "0 1"), ("c", "1 0")]
    assert bank.check(proposed) == [None, None, Nearest(idea_id="a", cosine=1.0)]
    for idea_id, summary in proposed[:2]:
        bank.add(idea_id, summary)
    assert embedder.batches == [2]
    assert bank.check([]) == []


def test_ideas_of_earlier_campaigns_are_named_with_what_became_of_them() -> None:
    bank = Bank()
    declined = Banked(idea_id="idea-0007", origin="runs/a", fate="declined")
    crashed = Banked(idea_id="idea-0002", origin="runs/b", fate="crashed: KeyError: 'x'")
    knobs = Banked(idea_id="idea-0003", origin="runs/c", fate="changed nothing")
    bank.add_earlier(
        [
            (declined, "halve the learning rate", None),
            (crashed, "average ten networks", None),
            (knobs, "Control arm.", {"RATE": 0.1}),
        ]
    )
    assert len(bank) == 3
    bank.add("idea-0001", "smooth the labels of the training images")
    alike = bank.look_alike("average ten networks")
    assert alike == Nearest(**crashed.model_dump(), cosine=1.0)
    assert alike.words == "idea-0002 of runs/b, which crashed: KeyError: 'x'"
    assert bank.same_knobs({"RATE": 0.1}) == "idea-0003 of runs/c, which changed nothing"
    own = bank.look_alike("smooth the labels of training images")
    assert own is not None
    assert own.words == "idea-0001"


def test_many_earlier_ideas_are_embedded_in_batches() -> None:
    embedder = Plane()
    bank = Bank(0.8, embedder)
    some = [(Banked(idea_id=f"idea-{n:04d}", origin="a"), "1 0", None) for n in range(2500)]
    bank.add_earlier(some)
    assert embedder.batches == [1024, 1024, 452]
    assert bank.nearest("1 0") == Nearest(idea_id="idea-0000", origin="a", cosine=1.0)


@pytest.mark.serving
def test_a_model_sees_likeness_in_meaning() -> None:
    words, meaning = Bank(), Bank(0.8, SentenceEmbedder(model_folder()))
    for bank in (words, meaning):
        bank.add("idea-0001", OTHER)
        bank.add("idea-0002", ROTATED)
        bank.prepare(REWORDED)
    assert words.look_alike(REWORDED) is None
    alike = meaning.look_alike(REWORDED)
    assert alike is not None
    assert alike.idea_id == "idea-0002"
    assert meaning.look_alike("Average the predictions of ten networks.") is None
    assert meaning.nearest(OTHER) == Nearest(idea_id="idea-0001", cosine=1.0)


@pytest.mark.parametrize("title", ["Train for longer", "train  for LONGER.", "“Train for longer”"])
def test_an_idea_with_the_title_of_an_earlier_one_repeats_it(title: str) -> None:
    bank = Bank(0.8)
    bank.add("idea-0001", "fifty epochs", title="Train for longer", changes=("epochs",))
    bank.add("idea-0002", "forty epochs", title="Train for longer", changes=("train",))
    near = bank.look_alike("another summary", title, ("rate",))
    assert near is not None
    assert (near.idea_id, near.same_title) == ("idea-0001", True)


def test_titles_do_not_reject_where_nothing_does() -> None:
    bank = Bank(1.0)
    bank.add("idea-0001", "fifty epochs", title="Train for longer")
    assert bank.look_alike("fifty epochs", "Train for longer") is None
    bank = Bank(0.8)
    bank.add("idea-0001", "fifty epochs")
    assert bank.look_alike("something else", "") is None
