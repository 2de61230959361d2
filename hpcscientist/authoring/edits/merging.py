"""The difference between `search` and `replace`, carried over to the lines of the file.

What the edit leaves alone stays as the file has it, lines that `search` does not quote
(comments, blank lines, elided lines) included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from hpcscientist.authoring.edits.finding.levels import comments

ELIDED = "\n"  # stands for lines of the file; no line is so
LIKE = 0.5  # comments at the edges less alike (0 to 1) are not taken for each other


@dataclass(frozen=True)
class Group:
    """Lines `s0` to before `s1` of the search text, and `f0` to before `f1` of the file's."""

    s0: int
    s1: int
    f0: int
    f1: int


@dataclass(frozen=True)
class Hunk:
    """Lines of the search text, and the new lines for them; `kept` where these are the same."""

    s0: int
    s1: int
    r0: int
    r1: int
    kept: bool


def grouped(
    spans: Sequence[Group], search: Sequence[str], file: Sequence[str], marked: Sequence[int]
) -> list[Group]:
    """Complete the spans that were matched by those of the lines between and beside them."""
    first, last = spans[0], spans[-1]
    groups = _edge(search, file, range(first.s0), first.f0, -1)
    groups.append(first)
    for before, after in pairwise(spans):
        groups += [*_between(before, after, search, file, marked), after]
    return groups + _edge(search, file, range(last.s1, len(search)), last.f1, 1)


def merged(
    search: Sequence[str],
    new: Sequence[str],
    groups: Sequence[Group],
    file: Sequence[str],
    python: bool,
) -> list[str]:
    """Return the file's lines from the first group to the last, with the edit's changes.

    All three are indented as the file is.
    """
    starts = {group.s0: group for group in groups}
    ends = {group.s1: group for group in groups}
    asides = _Asides(file if python else ())
    found: list[str] = []
    cursor = groups[0].f0
    for hunk in hunks(search, new, groups):
        lines = list(new[hunk.r0 : hunk.r1])
        if hunk.s0 == hunk.s1:  # an insertion: after a docstring, before comments
            end = starts[hunk.s0].f0 if 0 < hunk.s0 < len(search) else cursor
            said = asides.docstring(cursor, end)
            if not _is_string(lines):
                found += file[cursor:said]
            found += asides.anew(lines, said, end)
            cursor = said
            continue
        first, last = starts[hunk.s0], ends[hunk.s1]
        if hunk.kept:
            lines = list(file[first.f0 : last.f1])
        else:
            lines = asides.anew(lines, cursor, first.f0)
            if python:
                lines = asides.trailing(lines, search[hunk.s0 : hunk.s1], first.f0, last.f1)
        found += [*file[cursor : first.f0], *lines]
        cursor = last.f1
    return found


def _is_string(lines: Sequence[str]) -> bool:
    return bool(lines) and lines[0].lstrip().startswith(('"', "'"))


def hunks(search: Sequence[str], new: Sequence[str], groups: Sequence[Group]) -> Iterator[Hunk]:
    """Yield the difference, in order; no hunk ends within a group."""
    bounds = {group.s0 for group in groups} | {len(search)}
    part: Hunk | None = None
    for line in _by_line(search, new):
        hunk = line
        if part is not None:
            hunk = Hunk(part.s0, line.s1, part.r0, line.r1, part.kept and line.kept)
        part = None if hunk.s0 in bounds and hunk.s1 in bounds else hunk
        if part is None:
            yield hunk
    if part is not None:
        yield part


def _by_line(search: Sequence[str], new: Sequence[str]) -> Iterator[Hunk]:
    """Yield the difference line by line; what is elided in one is elided in the other."""
    s0 = r0 = 0
    ends = zip(_elided(search), _elided(new), strict=True)
    for s1, r1 in [*ends, (len(search), len(new))]:
        ours = [line.rstrip() for line in search[s0:s1]]
        theirs = [line.rstrip() for line in new[r0:r1]]
        matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            if i2 - i1 == j2 - j1:
                for i, j in zip(range(i1, i2), range(j1, j2), strict=True):
                    yield Hunk(s0 + i, s0 + i + 1, r0 + j, r0 + j + 1, tag == "equal")
            else:
                yield Hunk(s0 + i1, s0 + i2, r0 + j1, r0 + j2, False)
        if s1 < len(search):
            yield Hunk(s1, s1 + 1, r1, r1 + 1, True)
        s0, r0 = s1 + 1, r1 + 1


def _elided(lines: Sequence[str]) -> list[int]:
    return [number for number, line in enumerate(lines) if line == ELIDED]


def _between(
    before: Group, after: Group, search: Sequence[str], file: Sequence[str], marked: Sequence[int]
) -> list[Group]:
    """Pair lines that only the search text or only the file holds (comments and the like)."""
    s0, s1, f0, f1 = before.s1, after.s0, before.f1, after.f0
    mark = next((n for n in marked if s0 <= n < s1), None)
    if mark is not None:
        own = [Group(n, n + 1, f0, f0) for n in range(s0, mark)]
        rest = [Group(n, n + 1, f1, f1) for n in range(mark + 1, s1)]
        return [*own, Group(mark, mark + 1, f0, f1), *rest]
    ours = [line.strip() for line in search[s0:s1]]
    theirs = [line.strip() for line in file[f0:f1]]
    groups = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if tag == "equal":
            groups += [
                Group(s0 + i1 + n, s0 + i1 + n + 1, f0 + j1 + n, f0 + j1 + n + 1)
                for n in range(i2 - i1)
            ]
        elif tag == "replace":
            groups.append(Group(s0 + i1, s0 + i2, f0 + j1, f0 + j2))
        elif tag == "delete":
            groups += [Group(s0 + n, s0 + n + 1, f0 + j1, f0 + j1) for n in range(i1, i2)]
    return groups


def _edge(
    search: Sequence[str], file: Sequence[str], ours: range, at: int, step: int
) -> list[Group]:
    """Pair comments before the first line of code (`step` -1), or after the last (1)."""
    groups: list[Group] = []
    number = at if step > 0 else at - 1
    for n in ours if step > 0 else reversed(ours):
        line = search[n].strip()
        other = file[number].strip() if 0 <= number < len(file) else ""
        alike = SequenceMatcher(None, line, other, autojunk=False).ratio() >= LIKE
        if line.startswith("#") and other.startswith("#") and alike:
            groups.append(Group(n, n + 1, number, number + 1))
            at = number + 1 if step > 0 else number
            number += step
        else:
            groups.append(Group(n, n + 1, at, at))
    return groups if step > 0 else groups[::-1]


class _Asides:
    """Comments and docstrings of the file that the search text does not quote."""

    def __init__(self, file: Sequence[str]) -> None:
        self._file = file
        self._docstrings = {c.first: c for c in comments(file) if c.kind == "docstring"}

    def docstring(self, first: int, end: int) -> int:
        """Return the end of the docstring among lines `first` to before `end`; else `first`."""
        found = [c.last + 1 for n, c in self._docstrings.items() if first <= n and c.last < end]
        return min(found, default=first)

    def anew(self, new: Sequence[str], first: int, end: int) -> list[str]:
        """Return the new lines without comments that the file's lines there already hold."""
        said = {line.strip() for line in self._file[first:end] if line.lstrip().startswith("#")}
        return [line for line in new if line.strip() not in said]

    def trailing(self, new: list[str], search: Sequence[str], first: int, end: int) -> list[str]:
        """Keep the comment at the end of a line where the edit does not speak of one."""
        if not len(new) == len(search) == end - first == 1 or not new[0].strip():
            return new
        line = self._file[first]
        own = comments([line])
        if len(own) != 1 or own[0].kind != "trailing" or comments(search) or comments(new):
            return new
        code = line[: own[0].column]
        space = code[len(code.rstrip()) :]
        return [new[0].rstrip() + space + line[own[0].column :].rstrip()]
