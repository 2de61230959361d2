"""Lines that stand for others left out: `...`, `# ... existing code ...`, `# rest unchanged`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from hpcscientist.authoring.edits.outcome import Refusal

_DOTS = re.compile(r"\.{3,}|…")
_WHAT = (
    r"(?:code|lines?|methods?|functions?|imports?|body|logic|implementation|contents?|layers?"
    r"|class|file|loop|block|steps?|parts?|stuff|definitions?|args|arguments|config|settings)"
)
_PHRASE = re.compile(
    rf"(?:the )?(?:rest|remainder)(?: (?:of|is|are|remains?|stays?|as|unchanged|here)\b.*)?"
    rf"|(?:the |all )?(?:existing|previous|original|remaining|other|unchanged|same|above) "
    rf"(?:\w+ )?{_WHAT}\b.*"
    rf"|(?:unchanged|no changes?|same as (?:before|above|original)|as before|snip(?:ped)?"
    rf"|omitted|elided|truncated)\b.*"
    rf"|(?:\w+ )*{_WHAT} (?:\w+ )*(?:unchanged|(?:the )?same|omitted|elided|as before)\b.*",
    re.IGNORECASE,
)
_HINT = re.compile(
    rf"\b(?:rest|remaind\w+|remaining|existing|unchanged|same|previous|other|omitted|before|elided"
    rf"|original|snip|etc|continue[sd]?|keep|and so on|more|skip\w*|{_WHAT})\b",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"\s*(?:#+|//+)\s?(.*)")


def is_marker(line: str) -> bool:
    """Whether a line says that lines are left out."""
    comment = _COMMENT.fullmatch(line)
    text = (comment[1] if comment else line).strip()
    body = _DOTS.sub(" ", text).strip(" -=*<>[]()#:;,.")
    body = " ".join(body.split())
    edge = _DOTS.match(text.lstrip("[(<")) or text.rstrip("])>").endswith(("...", "…"))
    if edge:
        return not body or bool(_HINT.search(body) if comment else _PHRASE.fullmatch(body))
    return comment is not None and bool(_PHRASE.fullmatch(body))


def markers(lines: Sequence[str], known: Collection[str]) -> list[int]:
    """Return which lines are markers; a line that the file itself holds (`known`) is none."""
    return [
        number for number, line in enumerate(lines) if is_marker(line) and line.strip() not in known
    ]


def restored(new: Sequence[str], old: Sequence[str], marked: Sequence[int]) -> list[str] | Refusal:
    """Return the new lines with each marker replaced by the old lines that it stands for.

    These stand between the lines before and after the marker, each of which must occur once
    in the old text; where there is none, from its beginning or to its end.
    """
    new, marked = tight(new, marked)
    found: list[str] = []
    position = start = 0
    for at in marked:
        before, after = _beside(new, at, -1), _beside(new, at, 1)
        first = start if before is None else _place(old, before, start)
        last = len(old) if after is None else _place(old, after, first or 0)
        if first is None or last is None or is_either(before, after, marked, new):
            return Refusal(
                f"the new text leaves lines out ({new[at].strip()[:60]!r}), and which ones cannot "
                "be told; write them out, or change less of the file at once"
            )
        first += before is not None
        if first > last:
            return Refusal("the new text leaves lines out, and has the others in another order")
        found += [*new[position:at], *old[first:last]]
        position, start = at + 1, last
    return [*found, *new[position:]]


def is_either(
    before: str | None, after: str | None, marked: Sequence[int], new: Sequence[str]
) -> bool:
    """Whether a line beside a marker is a marker itself."""
    told = {new[at] for at in marked}
    return before in told or after in told


def _beside(lines: Sequence[str], at: int, step: int) -> str | None:
    number = at + step
    while 0 <= number < len(lines):
        if lines[number].strip():
            return lines[number]
        number += step
    return None


def _place(lines: Sequence[str], line: str, start: int) -> int | None:
    """Return where a line stands, if once only (from `start` on)."""
    places = [n for n, other in enumerate(lines) if other.rstrip() == line.rstrip()]
    return places[0] if len(places) == 1 and places[0] >= start else None


def tight(lines: Sequence[str], marked: Sequence[int]) -> tuple[list[str], list[int]]:
    """Return the lines without blank ones beside markers, and where the markers are then."""
    told = set(marked)
    kept: list[str] = []
    places: list[int] = []
    for number, line in enumerate(lines):
        blank = not line.strip()
        filled = [n for n in range(number + 1, len(lines)) if lines[n].strip()]
        if blank and ((filled and filled[0] in told) or (places and places[-1] == len(kept) - 1)):
            continue
        if number in told:
            places.append(len(kept))
        kept.append(line)
    return kept, places
