"""A search text that does not occur as it stands, but line by line, white space aside.

The first level on which it stands anywhere decides; it must stand at one place only, and
Python that compiled must compile afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hpcscientist.authoring.edits.finding import elision
from hpcscientist.authoring.edits.finding.matching import LEVELS, Place, places
from hpcscientist.authoring.edits.markup import cleaned
from hpcscientist.authoring.edits.outcome import Changed, Matched, Refusal
from hpcscientist.authoring.edits.placing import Quote, rewritten
from hpcscientist.authoring.edits.syntax import fault

Found = Changed | Refusal | None


def find(text: str, search: str, new: str, python: bool) -> Found:
    """Return the changed text, why it is refused, or None if the search text is nowhere."""
    refused: Refusal | None = None
    editions = [(search, new, ()), *cleaned(search, new)]
    for ours, theirs, beside in editions:
        quote = _quote(text, ours, theirs, python)
        found = quote if isinstance(quote, Refusal) else _by_level(text, quote)
        if isinstance(found, Changed):
            return replace(found, beside=(*beside, *found.beside))
        refused = refused or found
    return refused


def _quote(text: str, search: str, new: str, python: bool) -> Quote | Refusal:
    """Return the edit's lines without blank ones at both ends, and what is elided in them."""
    ours, theirs = _trimmed(search.split("\n")), _trimmed(new.split("\n"))
    known = {line.strip() for line in text.split("\n")}
    marked = elision.markers(ours, known)
    ours, first, end = _within(ours, marked)
    marked = elision.markers(ours, known)
    new_marked = elision.markers(theirs, known)
    if first or end:
        lead = first and bool(new_marked) and new_marked[0] == 0
        tail = end and bool(new_marked) and new_marked[-1] == len(theirs) - 1
        theirs = _trimmed(theirs[lead : len(theirs) - tail])
        new_marked = elision.markers(theirs, known)
    if new_marked and not marked:
        full = elision.restored(theirs, ours, new_marked)
        if isinstance(full, Refusal):
            return full
        theirs, new_marked = full, []
    if len(marked) != len(new_marked):
        return Refusal(
            "search leaves lines out where replace does not, so what becomes of them is not "
            "known; quote all lines in search, or leave out the same ones in both"
        )
    ours, marked = elision.tight(ours, marked)
    theirs, new_marked = elision.tight(theirs, new_marked)
    return Quote(tuple(ours), tuple(theirs), tuple(marked), tuple(new_marked), python)


def _trimmed(lines: Sequence[str]) -> list[str]:
    filled = [number for number, line in enumerate(lines) if line.strip()]
    return [line.rstrip() for line in lines[filled[0] : filled[-1] + 1]] if filled else []


def _within(lines: list[str], marked: Sequence[int]) -> tuple[list[str], bool, bool]:
    """Return the lines without a marker at either end, which stands for nothing."""
    first = bool(marked) and marked[0] == 0
    end = len(marked) > first and marked[-1] == len(lines) - 1
    return _trimmed(lines[first : len(lines) - end]), first, end


def _by_level(text: str, quote: Quote) -> Found:
    lines = text.split("\n")
    unsure: Refusal | None = None
    for level in LEVELS:
        found = places(quote.search, quote.marked, lines, level)
        if len(found) > 1:
            return _ambiguous(lines, [place.first for place in found])
        if found:
            result = _at(text, quote, found[0], level)
            if isinstance(result, Changed):
                return result
            unsure = unsure or result
    return unsure


def _ambiguous(lines: Sequence[str], starts: Sequence[int]) -> Refusal:
    """Refuse an edit that more than one place fits."""
    told = ", ".join(str(start + 1) for start in starts[:6])
    near = tuple(f"line {start + 1}: {lines[start][:120]}" for start in starts[:3])
    reason = f"the search text occurs more than once (lines {told}); add lines around it"
    return Refusal(reason, near)


def _at(text: str, quote: Quote, place: Place, level: Matched) -> Changed | Refusal:
    """Return the text with the edit carried out at a place."""
    lines = text.split("\n")
    first, last = place.first + 1, place.last + 1
    versions = rewritten(quote, place, lines)
    if not versions:
        return Refusal(
            f"the search text stands at lines {first} to {last} but for its indentation, and how "
            "the new lines are to be indented cannot be told; copy the indentation of the file",
            _shown(lines, place.first, place.last),
        )
    ending = "\r" if text.count("\r\n") == text.count("\n") > 0 else ""
    texts = [_joined(version, ending) for version in versions]
    wrong = None
    if quote.python and fault(text) is None:
        wrong = fault(texts[0])
        texts = [version for version in texts if fault(version) is None]
    if not texts:
        return Refusal(
            f"the search text was found at lines {first} to {last} but for {level}, and with the "
            f"new text there the file is no valid Python ({wrong}); copy the lines exactly",
            _shown(lines, place.first, place.last),
        )
    beside = ("elided lines",) if quote.marked else ()
    return Changed(texts[0], level, first, last, beside)


def _joined(lines: Sequence[str], ending: str) -> str:
    whole = [line if line.endswith("\r") or not ending else line + ending for line in lines[:-1]]
    return "\n".join([*whole, *lines[-1:]])


def _shown(lines: Sequence[str], first: int, last: int, most: int = 8) -> tuple[str, ...]:
    """Return lines of a file (from 0, inclusive) with their numbers."""
    numbers = range(max(0, first), min(len(lines), last + 1, first + most))
    return tuple(f"line {n + 1}: {lines[n].rstrip()[:120]}" for n in numbers)
