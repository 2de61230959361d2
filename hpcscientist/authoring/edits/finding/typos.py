"""Small misspellings in a search text: which are let pass, and by what margin.

A word is misspelt only if the file nowhere has it as the search text spells it: `fc2` or
`x_test` are never taken for `fc1` or `x_train`. Numbers and operators are never misspelt.
"""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Sequence
from difflib import SequenceMatcher

from hpcscientist.authoring.edits.finding.levels import Unit

LIKENESS = 0.9  # least likeness (0 to 1) of the whole search text with its place
MARGIN = 0.1  # by which every other place must be less like it
_WORDS_A_TYPO = 5  # tokens of the search text to each misspelling
_REAL = {*dir(builtins), *keyword.kwlist, *keyword.softkwlist}


class Speller:
    """Compares units but for misspellings of words that the file does not hold."""

    def __init__(self, file: Sequence[Unit]) -> None:
        self._known = {text for unit in file for text in unit.key}

    def same(self, ours: Unit, theirs: Unit) -> bool:
        """Whether two units are the same but for misspellings."""
        return len(ours.key) == len(theirs.key) and all(
            a == b or self._misspelt(a, b) for a, b in zip(ours.key, theirs.key, strict=True)
        )

    def _misspelt(self, ours: str, theirs: str) -> bool:
        if ours in self._known or ours in _REAL:
            return False
        return is_misspelt(ours, theirs)


def is_misspelt(ours: str, theirs: str) -> bool:
    """Whether one word, or string, is a small misspelling of the other.

    One letter is lacking, doubled, wrong or swapped with the next; two in long words. The
    first letter, digits and capitals are right: those tell names apart (`Adam`, `AdamW`).
    """
    if min(len(ours), len(theirs)) < 5 or ours[0] != theirs[0]:
        return False
    if not (ours[0].isalpha() or ours[0] in "_\"'"):
        return False
    if _telling(ours) != _telling(theirs):
        return False
    return distance(ours, theirs) <= (2 if min(len(ours), len(theirs)) >= 10 else 1)


def _telling(word: str) -> str:
    return "".join(c for c in word if not (c.islower() or c in "_ "))


def distance(a: str, b: str) -> int:
    """Return in how many steps one word becomes the other (optimal string alignment)."""
    if abs(len(a) - len(b)) > 2:
        return 3
    rows = [list(range(len(b) + 1))]
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            best = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


def misspellings(pairs: Sequence[tuple[Unit, Unit]]) -> dict[str, str]:
    """Return each misspelt word of the search text with the file's spelling."""
    return {
        a: b for ours, theirs in pairs for a, b in zip(ours.key, theirs.key, strict=True) if a != b
    }


def is_clear(search: Sequence[Unit], file: Sequence[Unit], at: int) -> bool:
    """Whether the place from unit `at` on is like the search text, and no other nearly so."""
    ours = _text(search)
    wrong = len(misspellings(list(zip(search, file[at : at + len(search)], strict=True))))
    if wrong * _WORDS_A_TYPO > sum(len(unit.key) for unit in search):
        return False
    matcher = SequenceMatcher(None, autojunk=False)
    matcher.set_seq2(ours)

    def likeness(start: int, least: float) -> float:
        matcher.set_seq1(_text(file[start : start + len(search)]))
        if matcher.real_quick_ratio() < least or matcher.quick_ratio() < least:
            return 0.0
        return matcher.ratio()

    best = likeness(at, LIKENESS)
    if best < LIKENESS:
        return False
    others = (n for n in range(len(file) - len(search) + 1) if n != at)
    return all(likeness(n, best - MARGIN) <= best - MARGIN for n in others)


def _text(units: Sequence[Unit]) -> str:
    return "\n".join(" ".join(unit.key) for unit in units)
