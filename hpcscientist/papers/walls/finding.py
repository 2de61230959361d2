"""The defects that a check of one sentence finds, and the fixes that it suggests."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from hpcscientist.records.facts import Fact, FactKind, FactSheet
from hpcscientist.records.manuscript import DefectCode
from hpcscientist.records.trial import Split

# Helpers for the word lists of the checks: splitting a text into words, and stemming.


def words(text: str) -> tuple[str, ...]:
    """Return the distinct words of a text, in order."""
    return tuple(dict.fromkeys(text.split()))


def stem(word: str) -> str:
    """Return a word's stem, so that its forms match: standardise, standardised."""
    for ending in ("ations", "ation", "ings", "ing", "ies", "ied", "es", "ed", "er", "e", "s", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    doubled = len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz"
    return word[:-1] if doubled else word


@dataclass(frozen=True, slots=True)
class SentenceDefect:
    """A defect without its place in the manuscript."""

    code: DefectCode
    found: str
    fix: str


@dataclass(frozen=True, slots=True)
class NamedInSentence:
    """The ideas, the split and the metric that a sentence names."""

    ideas: frozenset[str] = frozenset()
    split: Split | None = None
    metric: str | None = None


def nearest(
    sheet: FactSheet, wanted: NamedInSentence, text: str, value: float | None
) -> Fact | None:
    """Return the fact that a typed number, or a wrong reference, most likely stands for.

    A fact with the same printed text comes first, then the one with the nearest value. Facts of the
    ideas, the split and the metric that the sentence names are preferred.
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
    """Return the id of a fact that is spelled most like `fact_id`, or None."""
    close = difflib.get_close_matches(fact_id, list(sheet.by_id), 1, 0.5)
    return close[0] if close else None


def same_but(sheet: FactSheet, fact: Fact, **scope: object) -> Fact | None:
    """Return the fact that differs only in `scope` from a fact, such as in its split, or None."""
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
    """Return a fix that tells the writer to write a fact; `otherwise` if there is none."""
    return f"write {{{fact.id}}} ({fact.label}: {fact.text})" if fact is not None else otherwise
