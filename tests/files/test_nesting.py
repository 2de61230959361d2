"""Documents and replies whose parts lie within each other without end."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from hpcscientist.files import handed
from hpcscientist.files.handed import DEEPEST, is_too_deep
from hpcscientist.models.structured import Unusable, parse
from hpcscientist.records.idea import Proposal


def test_depth_counts_and_width_does_not() -> None:
    value: Any = 1
    for _ in range(DEEPEST):
        value = [value] * 2 if _ < 3 else {"a": value}
    assert not is_too_deep(value)
    assert is_too_deep([value])
    assert not is_too_deep([[1]] * 10_000)


@pytest.mark.parametrize("text", ["a" + ".a" * 3_000 + " = 1", "[a" + ".a" * 3_000 + "]\nb = 1"])
def test_dotted_keys_are_tables_within_each_other(text: str) -> None:
    with pytest.raises(tomllib.TOMLDecodeError, match="too deeply"):
        handed.parse(text)


@pytest.mark.parametrize("depth", range(900, 1_000))
def test_a_reply_that_can_just_be_read(depth: int) -> None:
    """At one of these depths it could be decoded, and not be written again."""
    text = f'{{"title": {"[" * depth}{"]" * depth}}}'
    with pytest.raises(Unusable):
        parse(text, Proposal)


def test_a_long_line_is_looked_through_once() -> None:
    """Where a search began anew at each letter, a megabyte took hours."""
    text = f'x = "{"a" * 2**20}"\n{"a" + ".a" * 200} = 1'
    with pytest.raises(tomllib.TOMLDecodeError, match=r"too deeply \(at line 2\)"):
        handed.parse(text)


def test_the_line_of_the_key_is_named_and_not_one_of_many_numbers() -> None:
    text = f"x = [{', '.join(['0.5'] * 60)}]\n{'a' + '.a' * 200} = 1"
    with pytest.raises(tomllib.TOMLDecodeError, match=r"\(at line 2\)"):
        handed.parse(text)
    inline = "a = 1\nb = {" + "a" + ".a" * 200 + " = 1}"
    with pytest.raises(tomllib.TOMLDecodeError, match=r"\(at line 2\)"):
        handed.parse(inline)
