"""Scores on a scale: what a model sampled, and how likely it was to give each value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field, PrivateAttr

from hpcscientist.records.base import Record


class NumberOdds(Record):
    """How likely each value was where a reply has a number.

    `at` is the character of the reply's text at which the number begins. `values` holds the
    values of the scale in order, each with its probability; these add up to 1.
    """

    at: int = Field(ge=0)
    values: tuple[tuple[int, float], ...] = Field(min_length=1)

    @property
    def mean(self) -> float:
        """The expectation."""
        total = sum(odds for _, odds in self.values)
        return sum(value * odds for value, odds in self.values) / total

    def within(self, lowest: int, highest: int) -> NumberOdds | None:
        """Return the odds of the values of a shorter scale alone; None where there are none.

        Servers tell the odds before a grammar rules values out, so some lie beside the scale.
        """
        kept = tuple((value, odds) for value, odds in self.values if lowest <= value <= highest)
        total = sum(odds for _, odds in kept)
        if total <= 0:
            return None
        return NumberOdds(at=self.at, values=tuple((value, odds / total) for value, odds in kept))


class Scored(Record):
    """A reply with scores from 1 to `highest`: log-probabilities are asked for with it."""

    highest: ClassVar[int] = 10
    _odds: Mapping[str, NumberOdds] = PrivateAttr(default_factory=dict)

    def expect(self, odds: Mapping[str, NumberOdds]) -> None:
        """Keep the odds of numbers, by field, such as `judgements.0.novelty`."""
        self._odds = dict(odds)

    def expectation(self, field: str) -> float | None:
        """Return a score's expectation; None where the server told no probabilities."""
        odds = self._odds.get(field)
        return None if odds is None else odds.mean

    def odds(self, field: str) -> NumberOdds | None:
        """Return how likely each value of a score was; None where the server did not tell."""
        return self._odds.get(field)
