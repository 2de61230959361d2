"""Plants an error in a paper, and makes a clean twin; each differs from the paper in one place.

The broken text has the error there. The twin has a correct change in the same place, which exposes
a model that reports any change as an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hpcscientist.records.literature import Section
from hpcscientist.reviews.paper import PaperText, joined

_NUMBER: Final = r"[+-]?\d+(?:[.,]\d+)*"
_SENTENCE = re.compile(r"[^.!?\n][^\n]*?[.!?](?=\s|$)")
_PAIR = re.compile(
    rf"(\bfrom )({_NUMBER})( to )({_NUMBER})"
    rf"|(\bis )({_NUMBER})([^.]*?(?:against|beside|versus) )({_NUMBER})"
)
_SEEDS = re.compile(
    r"\b(?:over|with|by) (?:the same )?(\d+|two|three|four|five|six|ten) (?:\w+ )?seeds\b"
)
_CITED = re.compile(r"\[(\d{1,3})\]")


@dataclass(frozen=True, slots=True)
class Planted:
    """A paper with an error, and its clean twin. `error` and `change` are the two sentences at the
    place of the edit.
    """

    paper: str
    kind: str
    broken: str
    clean: str
    error: str
    change: str


Edit = tuple[int, str, str, str]
"""The section's index, the text to replace, the error, and the twin's harmless change."""


def plant(paper: PaperText) -> Iterator[Planted]:
    """Yield the paper with one error of each kind for which it has a place."""
    for kind, of in PLANTERS.items():
        edit = of(paper.sections)
        if edit is None:
            continue
        place, old, error, change = edit
        yield Planted(
            paper=paper.name,
            kind=kind,
            broken=_edited(paper, place, old, error),
            clean=_edited(paper, place, old, change),
            error=error,
            change=change,
        )


def _edited(paper: PaperText, place: int, old: str, new: str) -> str:
    sections = list(paper.sections)
    of = sections[place]
    text = of.text.replace(old, new, 1) if old else f"{of.text.rstrip()} {new}"
    sections[place] = Section(heading=of.heading, text=text)
    return joined(paper.title, sections)


def _swapped(sections: Sequence[Section]) -> Edit | None:
    """Swap the two numbers of a comparison in the results; the abstract still has them right."""
    for place, sentence in _sentences(sections, "result", "experiment", "evaluation"):
        found = _PAIR.search(sentence)
        if found:
            a, one, b, other = (part for part in found.groups() if part is not None)
            if one != other:
                new = sentence.replace(found[0], f"{a}{other}{b}{one}", 1)
                return place, sentence, new, _told(sentence)
    return None


def _seeds(sections: Sequence[Section]) -> Edit | None:
    for place, sentence in _sentences(sections, "result", "experiment", "setup"):
        found = _SEEDS.search(sentence)
        if found:
            more = sentence.replace(found[0], f"{found[0].removesuffix('seeds')}random seeds", 1)
            return place, sentence, sentence.replace(found[0], "in a single run", 1), more
    return None


def _leaked(sections: Sequence[Section]) -> Edit | None:
    return _added(
        sections,
        ("experiment", "setup", "method"),
        "The number of epochs was chosen by the score on the test split, which is reported below.",
        "The number of epochs was chosen by the score on the validation split alone.",
    )


def _baseline(sections: Sequence[Section]) -> Edit | None:
    return _added(
        sections,
        ("experiment", "setup", "method"),
        "The baseline was stopped after a quarter of the training steps of our method.",
        "The baseline was given as many training steps as our method.",
    )


def _ablation(sections: Sequence[Section]) -> Edit | None:
    return _added(
        sections,
        ("result", "discussion", "conclusion"),
        "The gain is due to the better conditioning of the weights, which we did not measure.",
        "What the gain does to the conditioning of the weights was not measured.",
    )


def _overclaim(sections: Sequence[Section]) -> Edit | None:
    return _added(
        sections,
        ("conclusion", "discussion", "result"),
        "This proves that the method improves networks of every size on every kind of data.",
        "Whether the method improves networks of another size or on other data is open.",
    )


def _citation(sections: Sequence[Section]) -> Edit | None:
    """Cite an entry that is missing from the list of references."""
    last = next((s for s in reversed(sections) if _is_named(s, "reference", "bibliography")), None)
    known = sorted({int(n) for n in _CITED.findall(last.text)}) if last is not None else []
    if not known:
        return None
    return _added(
        sections,
        ("introduction", "related", "background"),
        f"Others report the same effect for networks of this kind [{known[-1] + 35}].",
        f"Others report how such measurements go wrong [{known[0]}].",
    )


PLANTERS: Final[dict[str, Callable[[Sequence[Section]], Edit | None]]] = {
    "swapped numbers": _swapped,
    "dropped seeds": _seeds,
    "leaked test": _leaked,
    "wrong baseline": _baseline,
    "missing ablation": _ablation,
    "overclaim": _overclaim,
    "invented citation": _citation,
}


def _added(
    sections: Sequence[Section], names: Sequence[str], error: str, change: str
) -> Edit | None:
    for name in names:
        for place, section in enumerate(sections):
            if _is_named(section, name) and section.text:
                return place, "", error, change
    return None


def _sentences(sections: Sequence[Section], *names: str) -> Iterator[tuple[int, str]]:
    for name in names:
        for place, section in enumerate(sections):
            if _is_named(section, name):
                for found in _SENTENCE.finditer(section.text):
                    yield place, found[0]


def _is_named(section: Section, *names: str) -> bool:
    return any(name in section.heading.lower() for name in names)


def _told(sentence: str) -> str:
    """Return the sentence in other words, with the same meaning."""
    return f"We find that {sentence[0].lower()}{sentence[1:]}"
