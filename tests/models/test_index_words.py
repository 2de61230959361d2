"""Index terms: what makes no difference to a search, and what does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.models.embedding.keywords import (
    LONGEST,
    STOP,
    identifiers,
    joined,
    pieces,
    spans,
    stems,
    telling,
    words,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Classifying IMAGES", "classified image"),
        ("pre-training", "pretraining"),
        ("GRÖSSEN", "größen"),
        ("größe", "grosse"),
        ("naïve", "naive"),
        ("naïve", "naïve"),
        ("ｆｕｌｌ", "full"),
        ("Łukasz", "lukasz"),
        ("Bayes's rule", "Bayes rule"),
        ("Bayes’s rule", "Bayes rule"),
        ("CNNs", "CNN"),
        ("soft\u00adware", "software"),
    ],
)
def test_what_makes_no_difference(one: str, other: str) -> None:
    assert set(words(other)) <= set(words(one))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("?!  😀", []),
        ("3.5 percent of ResNet-50", ["3.5", "percent", "of", "resnet", "50"]),
        ("图像", ["图", "像", "图像"]),
        ("AND title:x", ["and", "titl", "x"]),
        ("छवि वर्गीकरण", ["छवि", "वर्गीकरण"]),
        ("snake_case", ["snake", "case"]),
        ("state-of-the-art", ["state", "of", "the", "art"]),
    ],
)
def test_terms(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_a_part_of_a_word_without_spaces_is_found() -> None:
    assert set(words("图像分类")) <= set(words("基于深度学习的图像分类方法"))
    assert not set(words("分像")) <= set(words("基于深度学习的图像分类方法"))


def test_telling_words_leave_out_stop_words_as_they_are_written() -> None:
    assert telling("What was it because of the networks?") == ["network"]


def test_identifiers_are_found_by_parts_and_whole() -> None:
    for name in ("MultiHeadAttention", "multi_head_attention", "multiHeadAttention"):
        found = identifiers(name)
        assert found == ["multi", "head", "attent", "multiheadattent"]
    assert "http" in identifiers("HTTPServer")
    assert identifiers("x = 1 + 2") == ["x"]


def test_spans_are_where_the_words_are() -> None:
    text = "Deep nets, 图像!"
    assert [text[start:end] for start, end, _ in spans(text)] == ["Deep", "nets,", "图", "像", "!"]
    assert spans(text)[1][2] == {"net"}


@given(st.text(max_size=300))
def test_any_text_has_terms_without_spaces_and_of_bounded_length(text: str) -> None:
    found = words(text)
    assert all(term and not term.isspace() and " " not in term for term in found)
    assert all(len(term) <= LONGEST for term in pieces(text))
    assert len(stems(pieces(text))) == len(pieces(text))
    assert identifiers(text) is not None


@given(st.text(max_size=100), st.text(max_size=100))
def test_a_text_has_the_terms_of_its_lines(one: str, other: str) -> None:
    assert words(f"{one}\n{other}") == words(one) + words(other)


@given(st.text(st.sampled_from("aÄß-'’.s \n\u00a0\u3000\u0301\u200bCNs图１x2_/"), max_size=60))
def test_terms_that_are_remembered_are_those_of_the_whole_text(text: str) -> None:
    assert words(text) == stems(pieces(text))
    assert telling(text) == stems([piece for piece in pieces(text) if piece not in STOP])
    assert joined(text).split() == words(text)


@given(st.text(max_size=200))
def test_any_text_s_terms_are_those_of_its_stretches(text: str) -> None:
    assert words(text) == stems(pieces(text))
    assert words(text) == words(text)
