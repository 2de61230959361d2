"""The base of all records."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr

from hpcscientist.files.text import visible

# Pydantic looks for plugins in the metadata of every installed package, and loads what it finds
# there: some hundred files a process on a shared file system, and strangers' code in a worker.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


class Record(BaseModel):
    """A frozen, strict record; unknown fields are refused, JSON round-trips."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        protected_namespaces=(),  # a language model is a "model" too
    )


LONGEST_PROSE = 20_000  # characters: some pages, where a paragraph is asked for


def _prose(text: str) -> str:
    if len(text) > LONGEST_PROSE:
        raise ValueError(f"longer than {LONGEST_PROSE} characters")
    return visible(text)


# A text by a model for people and for later prompts: bounded, and as it looks. No part of a JSON
# schema, which engines make grammars of: these would count the characters.
Prose = Annotated[str, AfterValidator(_prose)]


def place_of(location: Iterable[int | str]) -> str:
    """Return where in an object a validation error is, keys joined by dots.

    Names of records, which say as which of several forms a part was read, are no keys.
    """
    return ".".join(str(part) for part in location if not str(part)[:1].isupper())


# Numbers that strangers give: people's files, models, servers.
#
# Python's whole numbers have no end and JSON and TOML take any, but what they come to (Arrow's
# columns, C's integers, sleeps, sums) has one. So they are bounded where they enter.

MOST: Final = 2**53  # beyond it a float tells two whole numbers apart no more


def bounded(count: int) -> int:
    """Return a count, or the most that one can be where somebody recorded more."""
    return min(count, MOST)


def misfit(value: Any, *, infinite: bool = False) -> str | None:
    """Return which number within JSON or TOML values nobody can mean, in words; None if none.

    Such are what is no number, whole numbers beyond `MOST`, and infinities unless `infinite`.
    """
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:  # no recursion: nesting is a stranger's too
        place, item = waiting.pop()
        if isinstance(item, dict):
            waiting += [(f"{place}.{name}" if place else str(name), v) for name, v in item.items()]
        elif isinstance(item, list | tuple):
            waiting += [(f"{place}[{index}]", v) for index, v in enumerate(item)]
        elif isinstance(item, float) and (math.isnan(item) or (math.isinf(item) and not infinite)):
            return _said(place, "must be a finite number")
        elif isinstance(item, int) and abs(item) > MOST:
            return _said(place, f"must be a number of at most {MOST} in size")
    return None


def _said(place: str, words: str) -> str:
    return f"{place}: {words}" if place else words


# What is wrong with a file, and where.


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong; `line` counts from 1, None where a whole file is meant or nobody
    says. `undefined` is the name that nothing defines, where that is what is wrong.
    """

    file: str | Path
    line: int | None
    message: str
    undefined: str = ""

    def __str__(self) -> str:
        """Return `file:line: message`."""
        place = f"{self.file}:{self.line}" if self.line else f"{self.file}"
        return f"{place}: {self.message}"


# Scores on a scale: what a model sampled, and how likely it was to give each value.


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
