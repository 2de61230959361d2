"""The advice on each section of a paper: how to write it, its checklist, the facts it may need.

The venue decides which sections there are, and their order. The abstract is written last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from hpcscientist.records.facts import FactKind

ABSTRACT: Final = "abstract"


class WantedSection(Protocol):
    """A section that a venue asks for."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def title(self) -> str:
        """Its heading."""
        ...

    @property
    def advice(self) -> str:
        """The venue's own advice on it."""
        ...


@dataclass(frozen=True, slots=True)
class ChecklistQuestion:
    """A question of a checklist, with the id that answers use."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class SectionAdvice:
    """The advice on one section.

    `words` is the most words it should have. `kinds` are the kinds of facts it may need, the most
    important first. `number` identifies its model calls and is the same in every venue.
    """

    number: int
    id: str
    title: str
    advice: str
    checklist: tuple[ChecklistQuestion, ...]
    words: int
    kinds: tuple[FactKind, ...]
    cites: bool = False


_EVERYWHERE: Final = (
    ChecklistQuestion("plain", "Is it in plain words, one thought a sentence, without praise?"),
    ChecklistQuestion(
        "evidence", "Does every statement about a result name the fact that it rests on?"
    ),
)
_CITED: Final = ChecklistQuestion(
    "cited", "Does each sentence with a citation say what the cited sentence says, and no more?"
)
_MEASURED: Final = (FactKind.METRIC, FactKind.INTERVAL, FactKind.P_VALUE)

SECTIONS: Final = (
    SectionAdvice(
        1,
        "introduction",
        "Introduction",
        "Say which problem is looked at and why it is open, what was tried and why it might work, "
        "what was found, and how sure that is. End with the contributions, as a list. Name the "
        "main result with its interval; leave details to later sections.",
        (
            *_EVERYWHERE,
            ChecklistQuestion("problem", "Does it say what the problem is before what was done?"),
            ChecklistQuestion("contributions", "Does it end with what this paper contributes?"),
        ),
        260,
        (*_MEASURED, FactKind.COUNT, FactKind.SIZE),
        cites=True,
    ),
    SectionAdvice(
        2,
        "related-work",
        "Related work",
        "Group papers by what they do, not one by one. Say of each group how this work differs: "
        "in its assumptions, its method or its question. Cite a paper only for what its listed "
        "sentence says.",
        (
            *_EVERYWHERE,
            _CITED,
            ChecklistQuestion(
                "compared", "Does it compare with this work instead of only describing?"
            ),
        ),
        260,
        (FactKind.PUBLISHED,),
        cites=True,
    ),
    SectionAdvice(
        3,
        "background",
        "Background",
        "Define the task, the data, the reference that everything is compared with, and the terms "
        "that the method needs. Nothing new belongs here.",
        (
            *_EVERYWHERE,
            ChecklistQuestion("task", "Are inputs, outputs and the metric that decides defined?"),
            ChecklistQuestion("reference", "Is it said what the reference is and does?"),
        ),
        200,
        (FactKind.SIZE, FactKind.SETTING, FactKind.PUBLISHED, FactKind.HYPERPARAMETER),
        cites=True,
    ),
    SectionAdvice(
        4,
        "method",
        "Method",
        "Say exactly what is changed and what is kept, so that somebody else could do it again, "
        "and why it should help. Name the settings by their facts. No results.",
        (
            *_EVERYWHERE,
            ChecklistQuestion("exact", "Could somebody carry it out from this text alone?"),
            ChecklistQuestion("kept", "Is it said what stays as in the reference?"),
        ),
        240,
        (FactKind.HYPERPARAMETER, FactKind.SETTING),
        cites=True,
    ),
    SectionAdvice(
        5,
        "setup",
        "Experimental setup",
        "Data with the sizes of its splits, seeds, budgets, the test and the correction for the "
        "number of ideas, what was searched on validation and what was measured once on the test "
        "split, and who wrote and ran it.",
        (
            *_EVERYWHERE,
            ChecklistQuestion("splits", "Is it clear what was measured on which split?"),
            ChecklistQuestion(
                "seeds", "Is it said how many seeds were run, and what is compared by pairs?"
            ),
            ChecklistQuestion(
                "tried", "Is it told how many ideas were tried, and how that is corrected?"
            ),
        ),
        240,
        (FactKind.SIZE, FactKind.SETTING, FactKind.COUNT, FactKind.COST),
    ),
    SectionAdvice(
        6,
        "results",
        "Results",
        "The main comparison first, with its interval, on the test split; then what the search saw "
        "on validation and how much of it stayed; then further runs and what they rule out. Give "
        "the figure for what a reader would otherwise have to imagine. What did not work belongs "
        "here as well.",
        (
            *_EVERYWHERE,
            ChecklistQuestion("interval", "Does every effect have its interval or its p-value?"),
            ChecklistQuestion("split", "Does every number say on which split it was measured?"),
            ChecklistQuestion("figures", "Is every figure of this section explained in the text?"),
        ),
        320,
        (*_MEASURED, FactKind.RATIO, FactKind.COUNT, FactKind.PUBLISHED),
    ),
    SectionAdvice(
        7,
        "limitations",
        "Limitations",
        "What was not tried, for which data and sizes nothing follows, how many ideas failed and "
        "why, how noisy the reference is, what the statistics assume. Honest and concrete.",
        (
            *_EVERYWHERE,
            ChecklistQuestion("failed", "Are failed runs and the number of ideas tried told?"),
            ChecklistQuestion("reach", "Is it said for what nothing follows from these results?"),
        ),
        200,
        (FactKind.COUNT, FactKind.SIZE, FactKind.COST, FactKind.METRIC, FactKind.RATIO),
    ),
    SectionAdvice(
        8,
        "conclusion",
        "Conclusion",
        "What is known now that was not known before, in a few sentences, and the next question.",
        (
            *_EVERYWHERE,
            ChecklistQuestion(
                "new", "Does it claim nothing that the results section does not show?"
            ),
        ),
        120,
        (*_MEASURED, FactKind.COUNT),
    ),
    SectionAdvice(
        10,
        "impact",
        "Broader impact",
        "Whom this could help or harm, in a few sentences; no promises.",
        _EVERYWHERE,
        80,
        (FactKind.COST,),
    ),
    SectionAdvice(
        11,
        "reproducibility",
        "Reproducibility statement",
        "What is kept with the paper (code, seeds, hashes, commands) and what it costs to run it "
        "again. The appendix has the commands.",
        _EVERYWHERE,
        100,
        (FactKind.COST, FactKind.COUNT, FactKind.SETTING),
    ),
)
ABSTRACT_ADVICE: Final = SectionAdvice(
    9,
    ABSTRACT,
    "Abstract",
    "One paragraph: the problem, what was done, the main result with its interval and split, what "
    "limits it. No citation and no figure.",
    (
        *_EVERYWHERE,
        ChecklistQuestion("alone", "Can it be understood alone?"),
        ChecklistQuestion("same", "Does it say nothing that the paper does not show?"),
    ),
    170,
    (*_MEASURED, FactKind.COUNT, FactKind.SIZE),
)

CAMPAIGN_ADVICE: Final = (
    "This paper is about the campaign as a whole: what was tried, what held on the test split, "
    "what did not, and what failed. Ideas that did not work are results of the same weight as "
    "those that did."
)
# Small models copy it into the paper, so it has no number in words.
IDEA_ADVICE: Final = (
    "This paper is about an idea of the campaign. Say how many ideas there were, because the "
    "correction depends on it."
)


_UNKNOWN: Final = 20  # first number for sections that only a user's venue has
_WORDS_A_PAGE: Final = 420


def advice_on(sections: Sequence[WantedSection], pages: int) -> tuple[SectionAdvice, ...]:
    """Return the advice on a venue's sections, in order; `pages` limits their words, 0 does not.

    The venue's own advice on a section precedes that of this module.
    """
    known = {section.id: section for section in SECTIONS}
    found = list[SectionAdvice]()
    for place, wanted in enumerate(sections):
        own = known.get(wanted.id.replace("_", "-")) or SectionAdvice(
            _UNKNOWN + place, wanted.id, "", "", _EVERYWHERE, 150, tuple(FactKind), cites=True
        )
        texts = dict.fromkeys(filter(None, (wanted.advice, own.advice)))
        found.append(replace(own, id=wanted.id, title=wanted.title, advice=" ".join(texts)))
    room = pages * _WORDS_A_PAGE / max(1, sum(section.words for section in found)) if pages else 1
    return tuple(replace(s, words=max(40, round(s.words * min(1.0, room)))) for s in found)
