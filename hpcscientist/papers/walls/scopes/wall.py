"""Checks the numbers of a sentence against the words around them.

A reference has a scope and a type. The words around it name an idea, a split, a metric, a
statistic, a unit and a direction, and all of them have to agree. If the words do not name one, the
default is the primary metric, the test split and the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hpcscientist.papers.walls.finding import SentenceDefect, nearest_id, write
from hpcscientist.papers.walls.mentions import Vocabulary
from hpcscientist.papers.walls.scopes import directions, runs, statistics, units, whose
from hpcscientist.papers.walls.scopes.told import NumberInSentence, SentenceContext
from hpcscientist.papers.walls.sentences import Sentence
from hpcscientist.records.facts import FactKind, FactSheet
from hpcscientist.records.manuscript import DefectCode, Number

_MEASURED = (FactKind.METRIC, FactKind.INTERVAL, FactKind.P_VALUE)


@dataclass(frozen=True, slots=True)
class ScopeWall:
    """A check of numbers against the words around them."""

    sheet: FactSheet
    vocabulary: Vocabulary

    def check(self, sentence: Sentence) -> Iterator[SentenceDefect]:
        """Yield the defects of a sentence's numbers."""
        for token in sentence.tokens:
            if token.ref is None or not isinstance(token.ref.part, Number):
                continue
            if (problem := token.ref.problem) is not None:
                yield self._unresolved(token.ref.part, problem.unknown, str(problem))
        reading = SentenceContext(self.sheet, self.vocabulary, sentence)
        for at in sentence.numbers:
            yield from _all(NumberInSentence(reading, at))
        yield from directions.pairs(reading)

    def _unresolved(self, part: Number, unknown: str | None, why: str) -> SentenceDefect:
        if unknown is None:
            return SentenceDefect(DefectCode.BAD_FORMULA, str(part), why)
        close = nearest_id(self.sheet, unknown)
        fact = self.sheet.by_id.get(close) if close else None
        return SentenceDefect(
            DefectCode.UNKNOWN_FACT, str(part), write(fact, "write the id of a fact")
        )


def _all(told: NumberInSentence) -> Iterator[SentenceDefect]:
    """Yield all defects of one number."""
    fact = told.fact
    yield from units.glued(told)
    yield from units.approximate(told)
    if told.quantity.is_counted:
        yield from units.unit(told)
        return
    yield from whose.idea(told)
    yield from runs.run(told)
    yield from runs.named_setting(told)
    yield from statistics.qualified(told)
    if fact.scope.split is not None:
        yield from whose.split(told)
    if fact.kind in _MEASURED or fact.scope.statistic is not None:
        yield from whose.metric(told)
        yield from statistics.statistic_of(told)
    yield from directions.sign(told)
    yield from units.unit(told)
    if any(part.kind is FactKind.PUBLISHED for part in told.quantity.parts):
        yield from whose.published(told)
