"""Search texts that occur only line by line, apart from white space.

The first level of tolerance at which the text occurs decides. It must occur at one place only, and
Python that compiled before must compile afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import pairwise

from hpcscientist.authoring.edits import matching
from hpcscientist.authoring.edits.lexing import Shift, fault, indent_of, shift_of, tokens, width
from hpcscientist.authoring.edits.markup import cleaned
from hpcscientist.authoring.edits.matching import LEVELS, LineMatch, places
from hpcscientist.authoring.edits.outcome import Changed, Matched, Refusal

# The new lines of a file, given the place of a search text in it.
#
# An edit is the difference between `search` and `replace`. What it does not change stays as the
# file has it, blank lines and elided lines included.

_Indents = Sequence[tuple[str, str]]  # of a line of the search text, and of its line in the file


@dataclass(frozen=True)
class Quote:
    """An edit's lines; `marked` and `new_marked` number those that stand for elided ones."""

    search: tuple[str, ...]
    new: tuple[str, ...]
    marked: tuple[int, ...]
    new_marked: tuple[int, ...]
    python: bool


def rewritten(quote: Quote, place: LineMatch, file: Sequence[str]) -> list[list[str]]:
    """Return versions of the file's lines after the edit, the likeliest indentation first.

    Empty if it is not clear how the edit's lines are indented in the file.
    """
    found: list[list[str]] = []
    for search, new in _indented(quote, place, file):
        lines = _merged(search, new, quote, place, file)
        whole = [*file[: place.first], *lines, *file[place.last + 1 :]]
        if whole not in found:
            found.append(whole)
    return found


def _merged(
    search: Sequence[str], new: Sequence[str], quote: Quote, place: LineMatch, file: Sequence[str]
) -> list[str]:
    """Return the file's lines at a place after the edit; `search` and `new` are indented alike."""
    spans = _spans(place, quote.marked)
    found: list[str] = []
    cursor = place.first
    for hunk in _hunks(search, new, quote):
        if not hunk.ours:
            found += [new[n] for n in hunk.theirs]
            continue
        first, end = spans[hunk.ours[0]].start, spans[hunk.ours[-1]].stop
        lines = file[first:end] if hunk.kept else [new[n] for n in hunk.theirs]
        found += [*file[cursor:first], *lines]
        cursor = end
    return found


def _spans(place: LineMatch, marked: Sequence[int]) -> dict[int, range]:
    """Return which lines of the file each line of the search text stands for.

    A marker stands for all lines between those of its neighbours. Blank lines match blank lines,
    as far as both texts have them.
    """
    spans = {ours: range(theirs, theirs + 1) for ours, theirs in place.pairs}
    for (before, above), (after, below) in pairwise(place.pairs):
        for number in range(before + 1, after):
            start = min(above + number - before, below)
            end = below if number in marked else min(start + 1, below)
            spans[number] = range(start, end)
    return spans


@dataclass(frozen=True)
class _Hunk:
    """Lines of the search text, and the new lines for them; `kept` if both are the same."""

    ours: range
    theirs: range
    kept: bool


def _hunks(search: Sequence[str], new: Sequence[str], quote: Quote) -> Iterator[_Hunk]:
    """Yield the difference line by line; a marker in one text matches one in the other."""
    s0 = r0 = 0
    ends = zip(quote.marked, quote.new_marked, strict=True)
    for s1, r1 in [*ends, (len(search), len(new))]:
        ours = [line.rstrip() for line in search[s0:s1]]
        theirs = [line.rstrip() for line in new[r0:r1]]
        matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            left, right = range(s0 + i1, s0 + i2), range(r0 + j1, r0 + j2)
            if len(left) != len(right):
                yield _Hunk(left, right, False)
                continue
            for i, j in zip(left, right, strict=True):
                yield _Hunk(range(i, i + 1), range(j, j + 1), tag == "equal")
        if s1 < len(search):
            yield _Hunk(range(s1, s1 + 1), range(r1, r1 + 1), True)
        s0, r0 = s1 + 1, r1 + 1


def _indented(
    quote: Quote, place: LineMatch, file: Sequence[str]
) -> list[tuple[list[str], list[str]]]:
    """Return pairs of search and new lines as the file may indent them, the likeliest first."""
    pairs = [
        (indent_of(quote.search[ours]), indent_of(file[theirs]))
        for ours, theirs in place.pairs
        if quote.search[ours]
    ]
    both = [*quote.search, *quote.new]
    shift = shift_of(pairs, both, file)
    first: str | None = None
    if shift is None and _is_stripped(pairs):
        first = pairs[0][1]
        if all(ours == theirs for ours, theirs in pairs[1:]):
            shift = shift_of(pairs[1:], both, file)
    if shift is None:
        flat = _flat(quote, pairs, place, file)
        return [flat] if flat else []
    search = _moved(quote.search, shift, quote.python, first)
    new = _moved(quote.new, shift, quote.python, first)
    if search is None or new is None:
        return []
    if shift.still:
        return [(search, new)]
    found = [(search, new), (search, list(quote.new))]
    return found[::-1] if _is_absolute(quote, pairs) else found


def _is_stripped(pairs: _Indents) -> bool:
    """Return whether only the first line has lost its indentation, as in a trimmed text."""
    return len(pairs) > 1 and not pairs[0][0] and bool(pairs[0][1])


def _is_absolute(quote: Quote, pairs: _Indents) -> bool:
    """Return whether the new lines are indented as the file is, though the search text is not."""
    ours = min(width(indent) for indent, _ in pairs)
    theirs = min(width(indent) for _, indent in pairs)
    new = [width(indent_of(line)) for line in quote.new if line.strip()]
    return ours != theirs and min(new, default=ours) == theirs


def _moved(lines: Sequence[str], shift: Shift, python: bool, first: str | None) -> list[str] | None:
    """Return the lines with the file's indentation; None if it is unclear for one."""
    loose = _within_brackets(lines) if python else set()
    moved: list[str] = []
    for number, line in enumerate(lines):
        indent: str | None = indent_of(line)
        if first is not None and number == 0 and not indent:
            indent = first
        elif line.strip():
            indent = shift.of(indent_of(line), loose=number in loose)
        if indent is None:
            return None
        moved.append(indent + line.lstrip() if line.strip() else "")
    return moved


def _within_brackets(lines: Sequence[str]) -> set[int]:
    """Return the lines whose indentation means nothing: within brackets or a string."""
    found = set(range(len(lines)))
    last = -1
    for token in tokens("\n".join(lines)):
        if token.first > last and token.depth == 0:
            found.discard(token.first)
        last = max(last, token.last)
    return found


def _flat(
    quote: Quote, pairs: _Indents, place: LineMatch, file: Sequence[str]
) -> tuple[list[str], list[str]] | None:
    """Return the lines of an edit that lost all indentation, if each has a counterpart."""
    if len({width(indent) for indent, _ in pairs}) > 1 or quote.marked:
        return None
    theirs = {ours: indent_of(file[number]) for ours, number in place.pairs}
    search = [theirs.get(n, "") + line.strip() for n, line in enumerate(quote.search)]
    new: list[str] = []
    ours = [line.strip() for line in quote.search]
    after = [line.strip() for line in quote.new]
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, ours, after, autojunk=False).get_opcodes():
        if tag != "delete" and i2 - i1 != j2 - j1:
            return None
        new += [
            theirs.get(i, "") + after[j] for i, j in zip(range(i1, i2), range(j1, j2), strict=False)
        ]
    return search, new


Found = Changed | Refusal | None


def find(text: str, search: str, new: str, python: bool) -> Found:
    """Return the changed text, why it is refused, or None if the search text does not occur."""
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
    """Return the edit's lines, without blank ones at both ends, and its markers."""
    ours, theirs = _trimmed(search.split("\n")), _trimmed(new.split("\n"))
    known = {line.strip() for line in text.split("\n")}
    marked = matching.markers(ours, known)
    ours, first, end = _within(ours, marked)
    marked = matching.markers(ours, known)
    new_marked = matching.markers(theirs, known)
    if first or end:
        lead = first and bool(new_marked) and new_marked[0] == 0
        tail = end and bool(new_marked) and new_marked[-1] == len(theirs) - 1
        theirs = _trimmed(theirs[lead : len(theirs) - tail])
        new_marked = matching.markers(theirs, known)
    if new_marked and not marked:
        full = matching.restored(theirs, ours, new_marked)
        if isinstance(full, Refusal):
            return full
        theirs, new_marked = full, []
    if len(marked) != len(new_marked):
        return Refusal(
            "search leaves lines out where replace does not, so what becomes of them is not "
            "known; quote all lines in search, or leave out the same ones in both"
        )
    ours, marked = matching.tight(ours, marked)
    theirs, new_marked = matching.tight(theirs, new_marked)
    return Quote(tuple(ours), tuple(theirs), tuple(marked), tuple(new_marked), python)


def _trimmed(lines: Sequence[str]) -> list[str]:
    filled = [number for number, line in enumerate(lines) if line.strip()]
    return [line.rstrip() for line in lines[filled[0] : filled[-1] + 1]] if filled else []


def _within(lines: list[str], marked: Sequence[int]) -> tuple[list[str], bool, bool]:
    """Return the lines without markers at the ends, which stand for nothing, and which were cut."""
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
    """Return the refusal of an edit that fits more than one place."""
    told = ", ".join(str(start + 1) for start in starts[:6])
    near = tuple(f"line {start + 1}: {lines[start][:120]}" for start in starts[:3])
    reason = f"the search text occurs more than once (lines {told}); add lines around it"
    return Refusal(reason, near)


def _at(text: str, quote: Quote, place: LineMatch, level: Matched) -> Changed | Refusal:
    """Return the text with the edit applied at a place, or why it is refused."""
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
