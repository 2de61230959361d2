"""Scores by expectation: the odds of numbers from the probabilities of tokens."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.models.odds import TokenOdds, by_field, of_numbers
from hpcscientist.records.base import NumberOdds

Odds = Mapping[int, float]
TEXT = '{"topic": 8, "attributes": 10, "reason": "8 of 10"}'


def token(piece: str, **likely: float) -> TokenOdds:
    told = {name.encode(): odds for name, odds in likely.items()}
    return TokenOdds(piece.encode(), told or {piece.encode(): 1.0})


def of(*pieces: str | tuple[str, dict[str, float]]) -> list[TokenOdds]:
    return [token(p) if isinstance(p, str) else token(p[0], **p[1]) for p in pieces]


def values(found: Sequence[NumberOdds]) -> list[dict[int, float]]:
    return [dict(number.values) for number in found]


def means(found: Mapping[str, NumberOdds]) -> dict[str, float]:
    return {field: odds.mean for field, odds in found.items()}


def test_each_number_has_its_own_odds_and_numbers_in_strings_have_none() -> None:
    tokens = of(
        '{"topic', '": ', ("8", {"8": 0.6, "9": 0.3, "2": 0.1}), ', "attributes": ',
        ("10", {"10": 0.5, "9": 0.5}), ', "reason": "', "8", " of ", "10", '"}',
    )  # fmt: skip
    found = of_numbers(TEXT, tokens, 10)
    assert values(found) == [{2: 0.1, 8: 0.6, 9: 0.3}, {9: 0.5, 10: 0.5}]
    assert [TEXT[number.at :][:2] for number in found] == ["8,", "10"]
    assert means(by_field(TEXT, (0, len(TEXT)), found)) == {
        "topic": pytest.approx(7.7),
        "attributes": pytest.approx(9.5),
    }


def test_a_blank_may_be_part_of_the_number_s_token() -> None:
    text = '{"a": 8}'
    tokens = of('{"a":', (" 8", {" 8": 0.5, "8": 0.1, " 9": 0.3, ' "': 0.1}), "}")
    assert values(of_numbers(text, tokens, 10)) == [
        {8: pytest.approx(2 / 3, abs=1e-6), 9: pytest.approx(1 / 3, abs=1e-6)}
    ]
    glued = of('{"a', ('": 8}', {'": 8}': 0.75, '": 7}': 0.25}))
    assert values(of_numbers(text, glued, 10)) == [{7: 0.25, 8: 0.75}]


def test_ten_of_two_tokens_is_told_from_one_by_the_second() -> None:
    first = ("1", {"1": 0.5, "9": 0.5})
    ten = of('{"a":', first, ("0", {"0": 0.8, "}": 0.2}), "}")
    assert values(of_numbers('{"a":10}', ten, 10)) == [{1: 0.1, 9: 0.5, 10: 0.4}]
    one = of('{"a":', first, ("}", {"0": 0.8, "}": 0.2}))
    assert values(of_numbers('{"a":1}', one, 10)) == [{1: 0.1, 9: 0.5, 10: 0.4}]


@pytest.mark.parametrize(
    ("likely", "is_one"),
    [
        ({"8": 0.5, "9": 0.3, "1": 0.2}, 0.05),
        ({"3": 0.5, "2": 0.3, "1": 0.2}, 0.95),
        ({"9": 0.4, "2": 0.4, "1": 0.2}, 0.5),
        ({"8": 0.5, "10": 0.3, "1": 0.2}, 1.0),  # there is a token for 10
    ],
)
def test_a_one_that_was_not_sampled_may_begin_a_ten(
    likely: dict[str, float], is_one: float
) -> None:
    sampled = next(iter(likely))
    tokens = of('{"a":', (sampled, likely), "}")
    (found,) = values(of_numbers(f'{{"a":{sampled}}}', tokens, 10))
    assert found[1] / 0.2 == pytest.approx(is_one, abs=0.02)
    assert sum(found.values()) == pytest.approx(1.0)
    assert all(found[int(d)] == odds for d, odds in likely.items() if d not in ("1", "10"))


def test_a_scale_to_five_has_no_number_of_two_digits() -> None:
    tokens = of('{"a":', ("4", {"4": 0.5, "1": 0.25, "7": 0.25}), "}")
    ((four,),) = [of_numbers('{"a":4}', tokens, 5)]
    assert four.mean == pytest.approx((4 * 0.5 + 0.25) / 0.75, abs=1e-5)


def test_reasoning_before_the_object_does_not_confuse_the_place() -> None:
    draft = '<think>Perhaps {"a": 8}, for 3 "reasons</think>'
    tokens = of(
        *(("8", {"8": 1.0}) if c == "8" else c for c in draft),
        '{"a": ', ("8", {"8": 0.5, "7": 0.5}), "}", "",
    )  # fmt: skip
    assert values(of_numbers('{"a": 8}', tokens, 10)) == [{7: 0.5, 8: 0.5}]


def test_what_follows_the_last_number_may_be_spelled_otherwise() -> None:
    text = '{"a": 8, "why": "naïve"}'
    tokens = of('{"a": ', ("8", {"8": 1.0}), ', "why": "na', "\ufffd", "\ufffd", 've"}')
    assert values(of_numbers(text, tokens, 10)) == [{8: 1.0}]


@pytest.mark.parametrize(
    "tokens",
    [
        [],
        of("another text"),
        of('{"a": ', ("8", {'"': 1.0}), "}"),
        of('{"a": ', ("8", {"8": 0.0}), "}"),
        of('{"a": ', ("8", {"8.5": 1.0, "08": 1.0}), "}"),
    ],
)
def test_without_odds_there_is_no_expectation(tokens: list[TokenOdds]) -> None:
    assert of_numbers('{"a": 8}', tokens, 10) == ()


def test_numbers_off_the_scale_have_no_odds() -> None:
    text = '{"a": 11, "b": 0, "c": 8.5, "d": -3, "e": 1e3, "f": 123456789}'
    assert of_numbers(text, of(*text), 10) == ()


def test_fields_in_lists_are_named_by_their_place() -> None:
    text = 'Here: {"judgements": [{"direction": 1, "novelty": 3}, {"x": [true, 2.5, 4]}]}'
    start = text.index("{")
    odds = [NumberOdds(at=text.index("3"), values=((2, 0.5), (3, 0.5)))]
    odds.append(NumberOdds(at=text.rindex("4"), values=((4, 1.0),)))
    assert means(by_field(text, (start, len(text)), odds)) == {
        "judgements.0.novelty": 2.5,
        "judgements.1.x.2": 4.0,
    }


SCALE = st.integers(1, 10)


@st.composite
def spelled(draw: st.DrawFn) -> tuple[Any, ...]:
    """A reply, in tokens of a tokenizer drawn at random, and the odds that its model had."""
    whole_ten, blank_joins = draw(st.booleans()), draw(st.booleans())
    fields = draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True))
    tokens, sampled, odds = list[TokenOdds](), dict[str, int](), dict[str, dict[int, float]]()
    lead = draw(st.sampled_from(["", '<think>{"a": 3} or 10?</think>', "Well: "]))
    tokens += [token(c) for c in lead]
    text, opening = "", "{"
    for field in fields:
        weights = draw(st.dictionaries(SCALE, st.integers(1, 100), min_size=1))
        total = sum(weights.values())
        odds[field] = {value: weight / total for value, weight in weights.items()}
        sampled[field] = draw(st.sampled_from(sorted(weights)))
        blank = " " if blank_joins else ""
        head = f'{opening}"{field}":' + ("" if blank else " ")
        tokens.append(token(head))
        text += head + blank + str(sampled[field])
        tokens += _number(odds[field], sampled[field], blank, whole_ten)
        opening = ", "
    tokens.append(token("}"))
    return text + "}", tokens, sampled, odds, whole_ten


def _number(odds: Odds, sampled: int, blank: str, whole_ten: bool) -> list[TokenOdds]:
    first = dict[str, float]()
    for value, share in odds.items():
        piece = blank + (str(value) if whole_ten else str(value)[0])
        first[piece] = first.get(piece, 0.0) + share
    number = [token(blank + (str(sampled) if whole_ten else str(sampled)[0]), **first)]
    if sampled in (1, 10) and not whole_ten:
        both = first[f"{blank}1"]
        after = {"0": odds.get(10, 0.0) / both, ", ": odds.get(1, 0.0) / both}
        # What follows a one is another token's place; only its probability is looked at.
        number += [token("0", **after)] if sampled == 10 else [TokenOdds(b"", _bytes(after))]
    return number


def _bytes(likely: Mapping[str, float]) -> dict[bytes, float]:
    return {name.encode(): odds for name, odds in likely.items()}


@given(spelled())
def test_the_expectation_is_the_model_s_own_whatever_its_tokens(reply: Any) -> None:
    text, tokens, sampled, odds, whole_ten = reply
    found = means(by_field(text, (0, len(text)), of_numbers(text, tokens, 10)))
    assert json.loads(text) == sampled
    assert found.keys() == odds.keys()
    for field, mean in found.items():
        own = odds[field]
        exact = math.fsum(value * share for value, share in own.items())
        either = math.fsum(v * share for v, share in own.items() if v not in (1, 10))
        ones = own.get(1, 0.0) + own.get(10, 0.0)
        assert either + ones - 1e-4 <= mean <= either + 10 * ones + 1e-4
        # What a 1 begins is known where it was sampled, or where a token spells 10.
        if sampled[field] in (1, 10) or not ones or (whole_ten and 10 in own):
            assert mean == pytest.approx(exact, abs=1e-4)


@given(st.text(max_size=80), st.lists(st.tuples(st.binary(max_size=4), st.floats(0, 1))))
def test_no_text_and_no_tokens_raise(text: str, pieces: list[tuple[bytes, float]]) -> None:
    tokens = [TokenOdds(piece, {piece: odds}) for piece, odds in pieces]
    tokens += [TokenOdds(c.encode(), {c.encode(): 1.0}) for c in text if c.isascii()]
    for number in of_numbers(text, tokens, 10):
        assert 1 <= number.mean <= 10


@given(st.dictionaries(st.integers(1, 10), st.integers(1, 1000), min_size=1), st.integers(1, 10))
def test_odds_of_a_shorter_scale_are_those_of_its_values_alone(
    weights: dict[int, int], highest: int
) -> None:
    total = sum(weights.values())
    odds = NumberOdds(at=0, values=tuple((v, w / total) for v, w in sorted(weights.items())))
    kept = {value: weight for value, weight in weights.items() if value <= highest}
    found = odds.within(1, highest)
    if not kept:
        assert found is None
        return
    assert found is not None
    assert sum(share for _, share in found.values) == pytest.approx(1)
    assert found.mean == pytest.approx(sum(v * w for v, w in kept.items()) / sum(kept.values()))
