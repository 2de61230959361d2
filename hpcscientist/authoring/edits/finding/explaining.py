"""Why a search text was not found: the lines it is most like, and the first that differs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from hpcscientist.authoring.edits.finding.elision import is_marker

_CLOSE = 0.5  # below this likeness (0 to 1) a line is no hint
_LINE = 120
_SHOWN = 8


def not_found(text: str, search: str, new: str) -> tuple[str, tuple[str, ...]]:
    """Return in one line why it was not found, and the file's lines that are nearest."""
    lines = text.split("\n")
    filled = [line for line in search.split("\n") if line.strip()]
    wanted = [line for line in filled if not is_marker(line)] or filled or [""]
    present = {line.strip() for line in lines}
    missing = next((line for line in wanted if line.strip() not in present), None)
    reason = "the search text does not occur: "
    if missing is None:
        reason += "its lines do, but not in a row or not with this white space"
        near = _window(lines, wanted)
    else:
        reason += f"no line reads {missing.strip()[:_LINE]!r}"
        near = _window(lines, wanted) if len(wanted) > 1 else ()
        best = _nearest(lines, missing, near)
        if best is not None:
            reason += f"; the nearest, line {best + 1}, reads {lines[best].strip()[:_LINE]!r}"
            near = near or (best,)
    if new.strip() and new.strip() in text:
        at = text.count("\n", 0, text.index(new.strip())) + 1
        reason += f" (the new text stands at line {at} already)"
    return reason, tuple(f"line {n + 1}: {lines[n].rstrip()[:_LINE]}" for n in near)


def _nearest(lines: Sequence[str], wanted: str, among: Sequence[int]) -> int | None:
    numbers = among or range(len(lines))
    best, at = _CLOSE, None
    for number in numbers:
        likeness = _likeness(wanted, lines[number])
        if likeness > best:
            best, at = likeness, number
    return at if at is not None or not among else _nearest(lines, wanted, ())


def _window(lines: Sequence[str], wanted: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers (from 0) of the lines in a row that hold most of those wanted."""
    asked = [_words(line) for line in wanted]
    scores = [_shared(_words(line), asked) for line in lines]
    size = min(len(wanted), _SHOWN)
    sums = [
        sum(s for s in scores[n : n + size] if s > _CLOSE) for n in range(len(lines) - size + 1)
    ]
    if not sums or max(sums) == 0:
        return ()
    first = sums.index(max(sums))
    return tuple(n for n in range(first, first + size) if lines[n].strip())


def _words(line: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+|[^\w\s]", line))


def _shared(words: frozenset[str], asked: Sequence[frozenset[str]]) -> float:
    """Return the largest share of words (0 to 1) that a line has in common with another."""
    if not words:
        return 0.0
    return max(2 * len(words & other) / (len(words) + len(other)) for other in asked)


def _likeness(a: str, b: str) -> float:
    a, b = a.strip()[:_LINE], b.strip()[:_LINE]
    if not a or not b:
        return 0.0
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    if matcher.real_quick_ratio() <= _CLOSE or matcher.quick_ratio() <= _CLOSE:
        return 0.0
    return matcher.ratio()
