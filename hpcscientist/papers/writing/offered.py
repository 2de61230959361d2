"""Which facts a section is offered, the most telling first: a prompt holds no whole campaign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpcscientist.papers.writing.advice import SectionAdvice
from hpcscientist.records.facts import BASELINE, Fact, FactKind, FactSheet, Statistic
from hpcscientist.records.trial import Split

MOST: Final = 70  # facts of one prompt
_RANK: Final = {
    Statistic.DELTA: 0,
    Statistic.INTERVAL: 1,
    Statistic.MEAN: 2,
    Statistic.P_ADJUSTED: 3,
    Statistic.P: 3,
    Statistic.SHRINKAGE: 4,
    Statistic.N: 5,
    Statistic.SD: 6,
    Statistic.LOW: 7,
    Statistic.HIGH: 7,
}
_OF_SEEDS: Final = (Statistic.BEST, Statistic.WORST)
_KNOBS: Final = "recipe.knob."  # what the control arm searches, and no paper needs
_OF_ALL: Final = (Statistic.DELTA, Statistic.INTERVAL, Statistic.P_ADJUSTED, Statistic.MEAN)


def facts_for(section: SectionAdvice, sheet: FactSheet, ideas: Sequence[str]) -> tuple[Fact, ...]:
    """Return at most `MOST` facts for a section of a paper on some ideas; none: on the campaign.

    Values of single seeds are left out, for a paper tells what all seeds come to. Settings that are
    those of the reference come late.
    """
    primary = sheet.metrics[0].name if sheet.metrics else ""
    fitting = (fact for fact in sheet.facts if _is_told(fact, ideas))
    reference = {f.scope.of: f.value for f in sheet.facts if _is_reference_s(f)}
    kinds = {kind: place for place, kind in enumerate(section.kinds)}

    def order(fact: Fact) -> tuple[int, int, int, int, int, int]:
        scope = fact.scope
        same = fact.kind is FactKind.HYPERPARAMETER and reference.get(scope.of) == fact.value
        return (
            1 if scope.metric not in (None, primary) or same else 0,
            kinds[fact.kind],
            1 if scope.run not in (None, "main") else 0,
            0 if scope.split in (None, Split.TEST) else 1,
            _RANK.get(scope.statistic, 8) if scope.statistic else 0,
            1 if scope.idea == BASELINE else 0,
        )

    chosen = (fact for fact in fitting if fact.kind in kinds)
    return tuple(sorted(chosen, key=order)[:MOST])


def lines_of(facts: Sequence[Fact]) -> tuple[str, ...]:
    """Return facts as prompts show them: id, what is printed, its unit, label."""
    return tuple(_line(fact) for fact in facts)


def _line(fact: Fact) -> str:
    unit = f" ({fact.unit})" if fact.unit else ""
    return f"{{{fact.id}}} is printed as “{fact.text}”{unit}: {fact.label}"


def _is_reference_s(fact: Fact) -> bool:
    return fact.kind is FactKind.HYPERPARAMETER and fact.scope.idea == BASELINE


def _is_told(fact: Fact, ideas: Sequence[str]) -> bool:
    scope = fact.scope
    if scope.statistic in _OF_SEEDS or fact.id.startswith(_KNOBS):
        return False
    if scope.idea in (None, BASELINE) or scope.idea in ideas:
        return True
    # Of every idea the campaign's paper tells what it came to, and not each of its runs.
    return not ideas and scope.run in (None, "main") and scope.statistic in _OF_ALL
