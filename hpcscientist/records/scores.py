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


class Scored(Record):
    """A reply with scores from 1 to `highest`: log-probabilities are asked for with it."""

    highest: ClassVar[int] = 10
    _expectations: Mapping[str, float] = PrivateAttr(default_factory=dict)

    def expect(self, expectations: Mapping[str, float]) -> None:
        """Keep the expectations of numbers, by field, such as `judgements.0.novelty`."""
        self._expectations = dict(expectations)

    def expectation(self, field: str) -> float | None:
        """Return a score's expectation; None where the server told no probabilities."""
        return self._expectations.get(field)
