"""Computes how likely a model was to give each value of a scale, from token probabilities.

A single sampled score of a small model says little: it gives many papers the same number. The token
probabilities at that place also rate the other numbers, and their expectation tells papers apart
(as in G-Eval, arXiv 2303.16634). Tokenizers differ: 10 may be one token or two, and a space before
a number may be part of its token.
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

_DIGITS = 6  # decimal places of a probability
_FLAT = 0.1  # added to a squared distance, which may be 0
# Strings are skipped; "whole" matches numbers that JSON reads as integers.
_LITERAL = re.compile(
    r'"(?:[^"\\]|\\.)*"|(?P<whole>-?\d+)(?![\d.eE])|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?', re.DOTALL
)


@dataclass(frozen=True, slots=True)
class TokenOdds:
    """A token of a reply, with the probabilities of the likeliest tokens at its place."""

    piece: bytes
    likely: Mapping[bytes, float]


def of_numbers(text: str, tokens: Sequence[TokenOdds], highest: int) -> tuple[NumberOdds, ...]:
    """Return the odds of each number from 1 to `highest` in a text's JSON objects.

    `tokens` end with the text; tokens before it are reasoning. Returns () if they spell another
    text.
    """
    if is_fixed(text):  # the objects' positions would be wrong
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
    # Text after the last number may be spelled differently: a character can span several tokens.
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
    """Return the odds of an object's numbers by field, for those that have odds."""
    told = {number.at: number for number in odds}
    places = [at for at, _ in _whole_numbers(text, *span)]
    order = iter(range(len(places)))
    # Replace each number by its index in the text: JSON parses numbers in that order.
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
    tokens: Sequence[TokenOdds], lead: bytes, highest: int, begun: str = ""
) -> dict[int, float]:
    """Return a weight for each value that a number starting at the first token may have.

    `lead` is the text before the number in that token, `begun` the digits from earlier tokens. Some
    digits may continue (1 to 10). For the sampled token, the next token's probabilities say whether
    they do. For other candidates the next token is unknown: digits stand for themselves if a longer
    number is itself one of the candidates. Otherwise the weight is shared between the digits and
    the longer numbers, with more for values near the mean of the known ones.
    """
    weights, unsure = defaultdict[int, float](float), defaultdict[str, float](float)
    in_one = set[str]()  # numbers that one token spells
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
    """Return a number's digits up to and including a token, and whether the number ends there.

    Returns no digits if the token spells no number here, or no whole number.
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
