"""The base class of all records, and the checks and small types that many of them share."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr

from hpcscientist.files.text import visible

# Pydantic searches the metadata of every installed package for plugins, and loads those it finds:
# some hundred file reads per process on a shared file system, and foreign code in a worker.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


class Record(BaseModel):
    """A frozen, strict record. It refuses unknown fields, and JSON round-trips."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        protected_namespaces=(),  # a language model is a "model" too
    )


LONGEST_PROSE = 20_000  # characters: some pages; prompts ask for a paragraph


def _prose(text: str) -> str:
    if len(text) > LONGEST_PROSE:
        raise ValueError(f"longer than {LONGEST_PROSE} characters")
    return visible(text)


# A model's text for people and later prompts: bounded, without invisible characters. The bound is
# not in the JSON schema: engines compile schemas to grammars, which would count the characters.
Prose = Annotated[str, AfterValidator(_prose)]


def place_of(location: Iterable[int | str]) -> str:
    """Return where in an object a validation error is, with keys joined by dots.

    Names of records are left out: Pydantic adds them for the members of a union.
    """
    return ".".join(str(part) for part in location if not str(part)[:1].isupper())


# Numbers from outside: people's files, models, servers.
#
# Python's integers are unbounded, and JSON and TOML accept any. What uses them (Arrow columns, C
# integers, sleeps, sums) is bounded. So they are checked where they enter.

MOST: Final = 2**53  # beyond it, floats cannot distinguish neighbouring integers


def bounded(count: int) -> int:
    """Return a count, or `MOST` if a larger one was recorded."""
    return min(count, MOST)


def misfit(value: Any, *, infinite: bool = False) -> str | None:
    """Return a message about the first unusable number within JSON or TOML values, or None.

    Unusable are NaN, integers larger than `MOST` in size, and infinities unless `infinite`.
    """
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:  # no recursion: the nesting is untrusted too
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


# Problems in files.


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem in a file. `line` counts from 1; None if it is unknown or the problem is the
    whole file. `undefined` is the undefined name, if that is the problem.
    """

    file: str | Path
    line: int | None
    message: str
    undefined: str = ""

    def __str__(self) -> str:
        """Return `file:line: message`."""
        place = f"{self.file}:{self.line}" if self.line else f"{self.file}"
        return f"{place}: {self.message}"


# Scores on a scale: the value that a model sampled, and the probability of each value.


class NumberOdds(Record):
    """How likely each value was where a reply has a number.

    `at` is the character of the reply's text at which the number begins. `values` holds the
    values of the scale in order, each with its probability; these add up to 1.
    """

    at: int = Field(ge=0)
    values: tuple[tuple[int, float], ...] = Field(min_length=1)

    @property
    def mean(self) -> float:
        """The expected value."""
        total = sum(odds for _, odds in self.values)
        return sum(value * odds for value, odds in self.values) / total

    def within(self, lowest: int, highest: int) -> NumberOdds | None:
        """Return the odds of the values from `lowest` to `highest`, normalised; None if none.

        Servers report the odds before a grammar excludes values, so some may be off the scale.
        """
        kept = tuple((value, odds) for value, odds in self.values if lowest <= value <= highest)
        total = sum(odds for _, odds in kept)
        if total <= 0:
            return None
        return NumberOdds(at=self.at, values=tuple((value, odds / total) for value, odds in kept))


class Scored(Record):
    """A reply with scores from 1 to `highest`, for which log-probabilities are requested."""

    highest: ClassVar[int] = 10
    _odds: Mapping[str, NumberOdds] = PrivateAttr(default_factory=dict)

    def expect(self, odds: Mapping[str, NumberOdds]) -> None:
        """Store the odds of numbers by field, such as `judgements.0.novelty`."""
        self._odds = dict(odds)

    def expectation(self, field: str) -> float | None:
        """Return a score's expected value; None if the server reported no probabilities."""
        odds = self._odds.get(field)
        return None if odds is None else odds.mean

    def odds(self, field: str) -> NumberOdds | None:
        """Return the probability of each value of a score; None if the server reported none."""
        return self._odds.get(field)
