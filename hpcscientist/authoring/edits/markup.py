"""What models paste around code: fences, line numbers, diff markers; undone if all lines agree."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r"\s*(?:```+|~~~+)\s*[\w.+-]*\s*")
_NUMBER = re.compile(r"\s*(?:line |L)?(\d+)(?:\s*[:|│→]|\t)(.*)")
_DIFF_HEAD = re.compile(r"(?:@@ .*|--- \S.*|\+\+\+ \S.*|diff --git .*|index [0-9a-f]+\.\..*)")

FENCES, NUMBERS, MARKERS = "fences", "line numbers", "diff markers"


def cleaned(search: str, new: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield an edit's texts without what was pasted around them, and what that was."""
    seen = [(search, new)]
    for kinds in ((FENCES,), (NUMBERS,), (MARKERS,), (FENCES, NUMBERS), (FENCES, MARKERS)):
        ours, theirs = search, new
        for kind in kinds:
            ours, theirs = without(ours, kind, False), without(theirs, kind, True)
        # The search text may be clean where the new one is not, and the other way round.
        for pair in ((ours, theirs), (search, theirs), (ours, new)):
            if pair not in seen:
                seen.append(pair)
                yield (*pair, kinds)


def without(text: str, kind: str, new: bool) -> str:
    """Return a text without one kind of markup, or as it is; `new` takes a diff's new side."""
    lines = text.split("\n")
    if kind == FENCES:
        plain = _unfenced(lines)
    elif kind == NUMBERS:
        plain = _unnumbered(lines)
    else:
        plain = _undiffed(lines, new)
    return text if plain is None else "\n".join(plain)


def fenced_block(text: str) -> str | None:
    """Return what the only fenced block in a text holds; None where there is not just one."""
    lines = text.split("\n")
    fences = [number for number, line in enumerate(lines) if _FENCE.fullmatch(line)]
    if len(fences) != 2:
        return None
    return "\n".join([*lines[fences[0] + 1 : fences[1]], ""])


def is_diff(text: str) -> bool:
    """Whether a text is a diff rather than a file."""
    lines = text.strip().split("\n")
    return any(line.startswith("@@ ") for line in lines) or (
        any(line.startswith("+") for line in lines) and all(_marked(line) for line in lines)
    )


def _unfenced(lines: list[str]) -> list[str] | None:
    """Return the lines within fences; one of the two may be lacking."""
    filled = [number for number, line in enumerate(lines) if line.strip()]
    if not filled:
        return None
    first, last = filled[0], filled[-1]
    opened, closed = (bool(_FENCE.fullmatch(lines[n])) for n in (first, last))
    if not (opened or closed) or first == last:
        return None
    return [*lines[first + opened : last + 1 - closed], *lines[last + 1 :]]


def _unnumbered(lines: list[str]) -> list[str] | None:
    """Return the lines without their numbers, which must go up by one from line to line."""
    found: list[str] = []
    before: int | None = None
    for line in lines:
        match = _NUMBER.fullmatch(line)
        if match is None:
            if line.strip():
                return None
            found.append("")
            before = before + 1 if before is not None else None
            continue
        number = int(match[1])
        if before is not None and number not in (before + 1, before):
            return None
        before = number
        found.append(match[2])
    if before is None:
        return None
    spaced = all(line.startswith(" ") for line in found if line.strip())
    return [line[1:] if spaced else line for line in found]


def _marked(line: str) -> bool:
    return not line or line[0] in "+- " or bool(_DIFF_HEAD.fullmatch(line))


def _undiffed(lines: list[str], new: bool) -> list[str] | None:
    """Return one side of a diff."""
    body = [line for line in lines if not _DIFF_HEAD.fullmatch(line)]
    if not any(line[:1] in ("+", "-") for line in body):
        return None
    rest = [line for line in body if line.strip() and line[0] not in "+-"]
    spaced = bool(rest) and all(line.startswith(" ") for line in rest)
    # A diff's context is moved by a column; models often leave it where it was.
    odd = spaced and (len(rest[0]) - len(rest[0].lstrip())) % 2 == 1
    found = []
    for line in body:
        if line[:1] == ("-" if new else "+"):
            continue
        marked = line[:1] in ("+", "-")
        found.append(line[1:] if marked or (odd and line.startswith(" ")) else line)
    return found
