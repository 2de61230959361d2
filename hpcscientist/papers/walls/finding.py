"""What a wall finds in a sentence, before it is known where the sentence stands."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from hpcscientist.records.facts import Fact, FactKind, FactSheet
from hpcscientist.records.manuscript import DefectCode
from hpcscientist.records.trial import Split


@dataclass(frozen=True, slots=True)
class Found:
    """A defect without its place."""

    code: DefectCode
    found: str
    fix: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a sentence speaks of, as far as it says so."""

    ideas: frozenset[str] = frozenset()
    split: Split | None = None
    metric: str | None = None


def nearest(sheet: FactSheet, wanted: Wanted, text: str, value: float | None) -> Fact | None:
    """Return the fact that a typed number, or a wrong reference, most likely stands for.

    The same printed text first, then the nearest value; those of the ideas, the split and the
    metric that the sentence names before all others.
    """
    facts = [fact for fact in sheet.facts if fact.kind is not FactKind.INTERVAL]
    if not facts:
        return None

    def distance(fact: Fact) -> tuple[float, ...]:
        scope = fact.scope
        misfit = float(bool(wanted.ideas) and scope.idea not in wanted.ideas)
        misfit += float(wanted.split is not None and scope.split not in (None, wanted.split))
        misfit += float(wanted.metric is not None and scope.metric not in (None, wanted.metric))
        if value is None:
            return (misfit, float(scope.run not in (None, "main")), 0.0)
        off = min(abs(fact.value * scale - value) / (abs(value) + 1e-9) for scale in (1.0, 100.0))
        return (0.0 if fact.text == text else 1.0, min(off, 1.0) + 0.2 * misfit, misfit)

    return min(facts, key=distance)


def nearest_id(sheet: FactSheet, fact_id: str) -> str | None:
    """Return the id that is written most like another."""
    close = difflib.get_close_matches(fact_id, list(sheet.by_id), 1, 0.5)
    return close[0] if close else None


def same_but(sheet: FactSheet, fact: Fact, **scope: object) -> Fact | None:
    """Return the fact that is another one but for a part of its scope, such as the split."""
    wanted = fact.scope.model_copy(update=scope)
    if "idea" in scope and wanted.run in (None, "main"):
        wanted = wanted.model_copy(update={"attempt": None})
    for other in sheet.facts:
        own = other.scope
        if wanted.attempt is None:
            own = own.model_copy(update={"attempt": None})
        if other.kind is fact.kind and own == wanted:
            return other
    return None


def write(fact: Fact | None, otherwise: str) -> str:
    """Return what a writer is told: to write a fact, or something else where there is none."""
    return f"write {{{fact.id}}} ({fact.label}: {fact.text})" if fact is not None else otherwise
