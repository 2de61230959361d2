"""The new lines of a file, where the place of a search text in it is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from hpcscientist.authoring.edits.finding.levels import Unit, indent_of, units
from hpcscientist.authoring.edits.finding.matching import Place
from hpcscientist.authoring.edits.indents import Shift, shift_of, width
from hpcscientist.authoring.edits.merging import ELIDED, Group, grouped, merged


@dataclass(frozen=True)
class Quote:
    """An edit's lines; `marked` and `new_marked` are those that stand for others."""

    search: tuple[str, ...]
    new: tuple[str, ...]
    marked: tuple[int, ...]
    new_marked: tuple[int, ...]
    python: bool


def rewritten(quote: Quote, place: Place, file: Sequence[str]) -> list[list[str]]:
    """Return the file's lines after the edit, the likeliest first, then another indentation.

    None at all where it cannot be told how the edit's lines are indented in the file.
    """
    groups = _groups(quote, place, file)
    found: list[list[str]] = []
    for search, new in _indented(quote, place, file):
        lines = merged(
            _elided(search, quote.marked),
            _elided(new, quote.new_marked),
            groups,
            file,
            quote.python,
        )
        whole = [*file[: groups[0].f0], *lines, *file[groups[-1].f1 :]]
        if whole not in found:
            found.append(whole)
    return found


def _groups(quote: Quote, place: Place, file: Sequence[str]) -> list[Group]:
    spans = [Group(s.first, s.last + 1, f.first, f.last + 1) for s, f in place.pairs]
    return grouped(spans, quote.search, file, quote.marked)


def _elided(lines: Sequence[str], marked: Sequence[int]) -> list[str]:
    told = set(marked)
    return [ELIDED if number in told else line for number, line in enumerate(lines)]


def _indented(quote: Quote, place: Place, file: Sequence[str]) -> list[tuple[list[str], list[str]]]:
    """Return search and new lines as the file would indent them."""
    pairs = [(s, f) for s, f in place.pairs if s.indent is not None and f.indent is not None]
    pairs = pairs or [_bare(s, f, quote, file) for s, f in place.pairs]
    both = [*quote.search, *quote.new]
    shift = _shift(pairs, both, file)
    first: Unit | None = None
    if shift is None and _is_stripped(pairs):
        first = pairs[0][1]
        if all(s.indent == f.indent for s, f in pairs[1:]):
            shift = _shift(pairs[1:], both, file)
    if shift is None:
        flat = _flat(quote, pairs, place, file)
        return [flat] if flat else []
    search = _moved(quote.search, shift, quote, first)
    new = _moved(quote.new, shift, quote, first)
    asis = list(quote.new)
    if search is None or new is None:
        return []
    if shift.still:
        return [(search, new)]
    return (
        [(search, asis), (search, new)]
        if _is_absolute(quote, pairs)
        else [
            (search, new),
            (search, asis),
        ]
    )


def _bare(ours: Unit, theirs: Unit, quote: Quote, file: Sequence[str]) -> tuple[Unit, Unit]:
    """Return two units with the indentation they have, though within brackets it means nothing."""
    return (
        replace(ours, indent=indent_of(quote.search[ours.first])),
        replace(theirs, indent=indent_of(file[theirs.first])),
    )


def _shift(
    pairs: Sequence[tuple[Unit, Unit]], edit: Sequence[str], file: Sequence[str]
) -> Shift | None:
    return shift_of([(s.indent or "", f.indent or "") for s, f in pairs], edit, file)


def _is_stripped(pairs: Sequence[tuple[Unit, Unit]]) -> bool:
    """Whether the first line alone has lost its indentation, as of a text that was trimmed."""
    return len(pairs) > 1 and not pairs[0][0].indent and bool(pairs[0][1].indent)


def _is_absolute(quote: Quote, pairs: Sequence[tuple[Unit, Unit]]) -> bool:
    """Whether the new lines are indented as the file is, though the search text is not."""
    ours = min(width(s.indent or "") for s, _ in pairs)
    theirs = min(width(f.indent or "") for _, f in pairs)
    new = [width(indent_of(line)) for line in quote.new if line.strip()]
    return ours != theirs and min(new, default=ours) == theirs


def _moved(
    lines: Sequence[str], shift: Shift, quote: Quote, first: Unit | None
) -> list[str] | None:
    """Return the lines with the file's indentation; None where one cannot be told."""
    strict = {
        unit.first for unit in units(lines, "spacing", quote.python) if unit.indent is not None
    }
    moved: list[str] = []
    for number, line in enumerate(lines):
        indent: str | None = indent_of(line)
        if first is not None and number == 0 and not indent:
            indent = first.indent
        elif line.strip():
            indent = shift.of(indent_of(line), loose=number not in strict)
        if indent is None:
            return None
        moved.append(indent + line.lstrip() if line.strip() else "")
    return moved


def _flat(
    quote: Quote, pairs: Sequence[tuple[Unit, Unit]], place: Place, file: Sequence[str]
) -> tuple[list[str], list[str]] | None:
    """Return the lines of an edit that has lost all indentation, if each has its counterpart."""
    if len({width(s.indent or "") for s, _ in pairs}) > 1 or quote.marked:
        return None
    theirs = {s.first: indent_of(file[f.first]) for s, f in place.pairs}
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
