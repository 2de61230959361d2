"""Edits of real Python code, and the ways in which small models spoil them; for tests.

An edit is a list of pairs of lines, old and new: the same twice where nothing changes, None
for no line.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

Pair = tuple[str | None, str | None]
Pairs = list[Pair]
Mess = Callable[[Pairs, random.Random], Pairs | None]
Wrap = Callable[[str, str, random.Random], tuple[str, str]]


@dataclass(frozen=True)
class Sample:
    """A text, an edit of it and the text that is right."""

    text: str
    pairs: Pairs
    right: str
    first: int
    last: int


def sample(text: str, rng: random.Random) -> Sample | None:
    """Change one to three lines of a random function; None where it has no plain statements."""
    lines = text.split("\n")
    tree = ast.parse(text)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and len(n.body) > 2]
    if not functions:
        return None
    function = rng.choice(functions)
    body = function.body
    start = rng.randrange(len(body))
    end = min(len(body), start + rng.randint(1, 6))
    first, last = body[start].lineno - 1, (body[end - 1].end_lineno or 0) - 1
    if rng.random() < 0.3 and start == 0:
        first = function.lineno - 1
    if last - first > 40:
        return None
    simple = list(_simple(function, lines, range(first, last + 1)))
    if not simple:
        return None
    changed = {n: rng.choice(("change", "insert", "delete")) for n in rng.sample(simple, 1)}
    for n in simple:
        if rng.random() < 0.15:
            changed[n] = rng.choice(("change", "insert"))
    pairs: Pairs = []
    for number in range(first, last + 1):
        pairs += _edited(lines[number], changed.get(number), number)
    new = [theirs for _, theirs in pairs if theirs is not None]
    right = "\n".join([*lines[:first], *new, *lines[last + 1 :]])
    try:
        compile(right, "right", "exec")
    except SyntaxError:
        return None
    return Sample(text, pairs, right, first, last)


def _simple(function: ast.FunctionDef, lines: list[str], span: range) -> Iterator[int]:
    """Yield the lines of plain statements, each alone on its line and without a comment."""
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.Return)
            and node.lineno == node.end_lineno
            and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            and node.lineno - 1 in span
        ):
            line = lines[node.lineno - 1]
            if len(line.encode()) == node.end_col_offset and not line[: node.col_offset].strip():
                yield node.lineno - 1


def _edited(line: str, how: str | None, number: int) -> Pairs:
    indent = line[: len(line) - len(line.lstrip())]
    new = f"{indent}outcome_{number} = measure({number}, scale=0.5)"
    if how == "change":
        return [(line, new)]
    if how == "insert":
        return [(line, line), (None, new)]
    return [(line, None)] if how == "delete" else [(line, line)]


def texts(pairs: Pairs) -> tuple[str, str]:
    """Return search and replace."""
    search = "\n".join(ours for ours, _ in pairs if ours is not None)
    return search, "\n".join(theirs for _, theirs in pairs if theirs is not None)


def _each(pairs: Pairs, change: Callable[[str], str]) -> Pairs:
    return [(None if a is None else change(a), None if b is None else change(b)) for a, b in pairs]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def dedented(pairs: Pairs, rng: random.Random) -> Pairs:
    by = min(_indent(line) for pair in pairs for line in pair if line and line.strip())
    by = rng.choice([by, by, max(0, by - 4)])
    return _each(pairs, lambda line: line[by:] if line[:by].isspace() else line)


def indented(pairs: Pairs, rng: random.Random) -> Pairs:
    more = " " * rng.choice([1, 2, 4, 8])
    return _each(pairs, lambda line: more + line if line.strip() else line)


def halved(pairs: Pairs, rng: random.Random) -> Pairs:
    return _each(pairs, lambda line: " " * (_indent(line) // 2) + line.lstrip(" "))


def tabbed(pairs: Pairs, rng: random.Random) -> Pairs:
    def change(line: str) -> str:
        levels, rest = divmod(_indent(line), 4)
        return "\t" * levels + " " * rest + line.lstrip(" ")

    return _each(pairs, change)


def stripped(pairs: Pairs, rng: random.Random) -> Pairs | None:
    """Trim both texts, as replies in JSON often are."""
    (a, b), rest = pairs[0], pairs[1:]
    return [(a.lstrip(), b.lstrip()), *rest] if a is not None and b is not None else None


def flat(pairs: Pairs, rng: random.Random) -> Pairs:
    return _each(pairs, str.lstrip)


def trailing(pairs: Pairs, rng: random.Random) -> Pairs:
    end = rng.choice([" ", "  ", "\t", "\r"])
    return _each(pairs, lambda line: line + end)


def airless(pairs: Pairs, rng: random.Random) -> Pairs:
    return [(a, b) for a, b in pairs if a != b or (a and a.strip())]


def airy(pairs: Pairs, rng: random.Random) -> Pairs:
    found: Pairs = []
    for (a, b), (c, d) in pairwise([*pairs, (None, "")]):
        found.append((a, b))
        if a == b and c == d and rng.random() < 0.3:
            found.append(("", ""))
    return found


def elided(pairs: Pairs, rng: random.Random) -> Pairs | None:
    """Leave out lines between two that stay, in both texts."""
    same = [n for n, (a, b) in enumerate(pairs) if a == b and a and a.strip()]
    runs = [(i, j) for i in same for j in same if j > i and all(n in same for n in range(i, j + 1))]
    inner = [(i, j) for i, j in runs if i > 0 and j < len(pairs) - 1]
    if not inner:
        return None
    i, j = rng.choice(inner)
    indent = " " * _indent(pairs[i][0] or "")
    marker = indent + rng.choice(
        [
            "...",
            "# ...",
            "# ... existing code ...",
            "# rest unchanged",
            "# existing code",
            "# … unchanged",
        ]
    )
    return [*pairs[:i], (marker, marker), *pairs[j + 1 :]]


def stale(pairs: Pairs, rng: random.Random) -> Pairs | None:
    """Quote a line that stays as it never was."""
    same = [n for n, (a, b) in enumerate(pairs) if a == b and a and re.search(r"\w", a)]
    if not same:
        return None
    n = rng.choice(same)
    line = re.sub(r"\b\w+\b(?!.*\b\w+\b)", "obsolete_one", pairs[n][0] or "")
    return [*pairs[:n], (line, line), *pairs[n + 1 :]]


def reordered(pairs: Pairs, rng: random.Random) -> Pairs | None:
    """Swap two lines that stay."""
    same = [
        n
        for n in range(len(pairs) - 1)
        if pairs[n][0] == pairs[n][1]
        and pairs[n + 1][0] == pairs[n + 1][1]
        and pairs[n] != pairs[n + 1]
    ]
    if not same:
        return None
    n = rng.choice(same)
    return [*pairs[:n], pairs[n + 1], pairs[n], *pairs[n + 2 :]]


MESSES: dict[str, Mess] = {
    mess.__name__: mess
    for mess in (
        dedented, indented, halved, tabbed, stripped, flat, trailing, airless, airy, elided,
        stale, reordered,
    )
}  # fmt: skip


def fenced(search: str, new: str, rng: random.Random) -> tuple[str, str]:
    head = rng.choice(["```python\n", "```\n", "```py\n"])
    return f"{head}{search}\n```", f"{head}{new}\n```"


def numbered(search: str, new: str, rng: random.Random) -> tuple[str, str]:
    form = rng.choice(["{}: {}", "{} | {}", "{:4d}: {}", "line {}: {}", "{}\t{}"])
    first = rng.randrange(1, 300)
    lines = enumerate(search.split("\n"), first)
    return "\n".join(form.format(number, line) for number, line in lines), new


def diffed(search: str, new: str, rng: random.Random) -> tuple[str, str]:
    ours, theirs = search.split("\n"), new.split("\n")
    head = tail = 0
    while head < min(len(ours), len(theirs)) and ours[head] == theirs[head]:
        head += 1
    while tail < min(len(ours), len(theirs)) - head and ours[-1 - tail] == theirs[-1 - tail]:
        tail += 1
    lines = [" " + line for line in ours[:head]]
    lines += ["-" + line for line in ours[head : len(ours) - tail]]
    lines += ["+" + line for line in theirs[head : len(theirs) - tail]]
    lines += [" " + line for line in ours[len(ours) - tail :]]
    text = "\n".join(lines)
    return (text, text) if rng.random() < 0.5 else (search, text)


WRAPPINGS: tuple[Wrap, ...] = (fenced, numbered, diffed)
