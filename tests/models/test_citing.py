"""Ids that a model names, found among those that it was shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.models.prompting.naming import found_ids

SHOWN = ("arxiv:1706.03762", "doi:10.1/ABC", "title:0a1b")


def test_ids_are_found_with_the_signs_that_models_put_around_them() -> None:
    named = ["[doi:10.1/abc]", " `ARXIV:1706.03762`. ", "doi:10.1/ABC", "<title:0a1b>"]
    assert found_ids(named, SHOWN) == ("doi:10.1/ABC", "arxiv:1706.03762", "title:0a1b")


def test_nothing_else_is() -> None:
    assert found_ids(["1706.03762", "arxiv:1706.0376", "", "[1]", "attention"], SHOWN) == ()


@given(st.lists(st.text(max_size=8)), st.lists(st.text(max_size=8)))
def test_only_what_was_shown_is_ever_found(named: list[str], shown: list[str]) -> None:
    found = found_ids(named, shown)
    assert set(found) <= set(shown)
    assert len(set(found)) == len(found)


@given(st.lists(st.text("aAbB:/.()", min_size=1, max_size=4), unique=True))
def test_an_id_as_it_was_shown_is_that_one(shown: list[str]) -> None:
    for name in shown:
        assert found_ids([name], shown) == (name,)


def test_what_differs_least_is_meant() -> None:
    shown = ("net.py:loss", "net.py:Loss", "net.py:step()")
    named = ["`net.py:Loss`", "NET.PY:LOSS", "net.py:step", "()", "", "."]
    assert found_ids(named, shown) == ("net.py:Loss", "net.py:loss", "net.py:step()")
