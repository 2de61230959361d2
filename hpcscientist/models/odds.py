"""How likely a model was to give each value of a scale, from the probabilities of its tokens.

A sampled score tells little of a small model: it gives many papers the same number. What it thought
of the other numbers is in the probabilities of the tokens at that place, and their expectation
tells papers apart (as in G-Eval, arXiv 2303.16634). Tokenizers differ: 10 may be one token or two,
and a blank before a number may be part of its token.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from hpcscientist.models.answers import find_objects, is_fixed
from hpcscientist.records.base import NumberOdds

_DIGITS = 6  # of a probability
_FLAT = 0.1  # added to a squared distance, which may be 0
# Strings are passed over; "whole" are numbers that JSON reads as integers.
_LITERAL = re.compile(
    r'"(?:[^"\\]|\\.)*"|(?P<whole>-?\d+)(?![\d.eE])|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?', re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a reply, with the probabilities of the likeliest tokens at its place."""

    piece: bytes
    likely: Mapping[bytes, float]


def of_numbers(text: str, tokens: Sequence[Token], highest: int) -> tuple[NumberOdds, ...]:
    """Return the odds of each number from 1 to `highest` in a text's JSON objects.

    `tokens` end with the text; what precedes it is reasoning. None where they spell another text.
    """
    if is_fixed(text):  # places are then those of another text
        return ()
    numbers = [
        (at, number)
        for start, end in find_objects(text).spans
        for at, number in _whole_numbers(text, start, end)
    ]
    if not numbers or not tokens:
        return ()
    ends = list(accumulate(len(token.piece) for token in tokens))
    last, digits = numbers[-1]
    # What follows the last number may be spelled otherwise: characters of several tokens.
    begin = b"".join(token.piece for token in tokens).rfind(text[: last + len(digits)].encode())
    if begin < 0:
        return ()
    found = []
    for at, number in numbers:
        if len(number) > len(str(highest)) or not 1 <= int(number) <= highest:
            continue
        place = begin + len(text[:at].encode())
        index = bisect_right(ends, place)
        token = tokens[index]
        lead = token.piece[: place - (ends[index] - len(token.piece))]
        weights = _weights(tokens[index:], lead.strip(), highest)
        total = sum(weights.values())
        if total > 0:
            values = ((v, round(w / total, _DIGITS)) for v, w in sorted(weights.items()))
            likely = tuple((value, odds) for value, odds in values if odds)
            found.append(NumberOdds(at=at, values=likely))
    return tuple(found)


def by_field(text: str, span: tuple[int, int], odds: Sequence[NumberOdds]) -> dict[str, NumberOdds]:
    """Return the odds of each number of an object that has some, by the number's field."""
    told = {number.at: number for number in odds}
    places = [at for at, _ in _whole_numbers(text, *span)]
    order = iter(range(len(places)))
    # JSON reads numbers in their order, so each is replaced by its place in that order.
    decoder = json.JSONDecoder(strict=False, parse_int=lambda _: next(order), parse_float=str)
    found, _ = decoder.raw_decode(text[: span[1]], span[0])
    return {
        field: told[places[number]] for field, number in _leaves(found) if places[number] in told
    }


def _whole_numbers(text: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    for literal in _LITERAL.finditer(text, start, end):
        if literal["whole"] is not None:
            yield literal.start(), literal["whole"]


def _leaves(value: Any, field: str = "") -> Iterator[tuple[str, int]]:
    parts: Iterator[tuple[Any, Any]]
    if isinstance(value, dict):
        parts = iter(value.items())
    elif isinstance(value, list):
        parts = iter(enumerate(value))
    else:
        if isinstance(value, int) and not isinstance(value, bool):
            yield field, value
        return
    for name, part in parts:
        yield from _leaves(part, f"{field}.{name}" if field else str(name))


def _weights(
    tokens: Sequence[Token], lead: bytes, highest: int, begun: str = ""
) -> dict[int, float]:
    """Return a weight for each value that the number may have which the first token begins.

    `lead` is what precedes the number in that token, `begun` the digits of tokens before it.
    Digits that may go on (1 of 10) do so as the next token says. Where that is known of another
    number alone, they mean themselves if the longer number has a token of its own; if not, either,
    and the more so the nearer it is to the mean of the others.
    """
    weights, unsure = defaultdict[int, float](float), defaultdict[str, float](float)
    in_one = set[str]()  # numbers that a token spells
    for piece, probability in tokens[0].likely.items():
        digits, ended = _spelled(piece, lead, begun)
        if not digits or digits.startswith("0"):
            continue
        in_one.add(digits)
        if ended or not _longer(digits, highest):
            weights[int(digits)] += probability
        elif piece != tokens[0].piece:
            unsure[digits] += probability
        else:
            after = _weights(tokens[1:], b"", highest, digits) if len(tokens) > 1 else {}
            after = after if sum(after.values()) else {int(digits): 1.0}
            for value, weight in after.items():
                weights[value] += probability * weight / sum(after.values())
    known = sum(weights.values())
    centre = sum(v * w for v, w in weights.items()) / known if known else (1 + highest) / 2
    for digits, probability in unsure.items():
        longer = _longer(digits, highest)
        meant = [int(digits), *(longer if in_one.isdisjoint(map(str, longer)) else ())]
        shares = [1 / (_FLAT + (value - centre) ** 2) for value in meant]
        for value, share in zip(meant, shares, strict=True):
            weights[value] += probability * share / sum(shares)
    return {value: weight for value, weight in weights.items() if 1 <= value <= highest}


def _longer(digits: str, highest: int) -> list[int]:
    """Return the values of the scale that begin with these digits and have more."""
    values = range(int(digits) + 1, highest + 1)
    return [value for value in values if str(value).startswith(digits)]


def _spelled(piece: bytes, lead: bytes, begun: str) -> tuple[str, bool]:
    """Return the digits of a number up to and with a token, and whether it ends there.

    No digits where the token spells no number at this place, or none that is whole.
    """
    rest = piece
    if not begun:
        rest = piece.lstrip()
        if not rest.startswith(lead):
            return "", True
        rest = rest.removeprefix(lead).lstrip()
    digits = re.match(rb"[0-9]*", rest)
    assert digits is not None
    after = rest[digits.end() :]
    if after[:1] in (b".", b"e", b"E"):
        return "", True
    return begun + digits[0].decode(), bool(after) or not digits[0]
