"""Source text as a reviewer sees it: its lines, which of them do something, and which are new.

Lines are counted as Python counts them. A line does something if it holds code. Blank lines,
comments, docstrings, `pass` and imports do nothing that could carry out an idea.
"""

from __future__ import annotations

import ast
import difflib
import io
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hpcscientist.files.python_source import syntax_tree

RUN = 5  # so many lines of code in a row that occur anywhere in the reference are the reference's
_LONG = 2000  # lines; in longer files, difflib may ignore frequent lines
_SILENT = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError)


def lines(text: str) -> list[str]:
    """Return the lines of a text, split where Python counts a new one."""
    return plain(text).split("\n")


def shown_lines(text: str) -> list[str]:
    """Return the lines of a text as an editor numbers them: none after the last line break."""
    found = lines(text)
    return found if found[-1] else found[:-1]


def plain(text: str) -> str:
    """Return a text whose line breaks are all line feeds."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def code_lines(name: str, text: str) -> dict[int, str]:
    """Return the lines that do something, by number from 1, without comments and indentation.

    Of a file that is not Python, or cannot be parsed, these are the lines that are neither blank
    nor begin like a comment.
    """
    if name.endswith(".py"):
        try:
            return _python(plain(text))
        except UNREADABLE:
            pass
    numbered = ((number, line.strip()) for number, line in enumerate(lines(text), start=1))
    return {n: line for n, line in numbered if line and not line.startswith(("#", "//", ";"))}


@dataclass(frozen=True, slots=True)
class Difference:
    """The numbers of lines of code that the reference lacks (`new`), and of lines next to removed
    lines of the reference (`cut`).
    """

    new: frozenset[int]
    cut: frozenset[int]


def difference(
    name: str, code: Mapping[int, str], reference: Mapping[str, Mapping[int, str]]
) -> Difference:
    """Return how a file's lines of code differ from the reference's.

    `code` and the files of `reference` are as in `code_lines`. A line is the reference's if it
    keeps its place there, whatever its indentation and comments, or if it belongs to RUN lines in
    a row that occur anywhere in the reference: moved or copied code is not new.
    """
    numbers, texts = list(code), list(code.values())
    blocks = _kept(list(reference.get(name, {}).values()), texts)
    old = {place for block in blocks for place in range(block.b, block.b + block.size)}
    rows = {row for of in reference.values() for row in _rows(list(of.values()))}
    for start, row in enumerate(_rows(texts)):
        if row in rows:
            old.update(range(start, start + RUN))
    cut = set[int]()
    end = difflib.Match(0, 0, 0)
    for block in blocks:
        if block.a > end.a + end.size and block.b == end.b + end.size:
            cut.update(place for place in (block.b - 1, block.b) if 0 <= place < len(numbers))
        end = block
    return Difference(
        new=frozenset(number for place, number in enumerate(numbers) if place not in old),
        cut=frozenset(numbers[place] for place in cut),
    )


def _kept(before: list[str], after: list[str]) -> list[difflib.Match]:
    """Return the blocks of lines that both hold in the same order; the last one is empty."""
    frequent = max(len(before), len(after)) > _LONG
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=frequent)
    return matcher.get_matching_blocks()


def _rows(texts: list[str]) -> Iterator[tuple[str, ...]]:
    for start in range(len(texts) - RUN + 1):
        yield tuple(texts[start : start + RUN])


def _python(text: str) -> dict[int, str]:
    silent = _silent_lines(syntax_tree(text))
    found: dict[int, list[str]] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _SILENT:
            continue
        for offset, part in enumerate(token.string.split("\n")):
            number = token.start[0] + offset
            if part.strip() and number not in silent:
                found.setdefault(number, []).append(part.strip())
    return {number: " ".join(parts) for number, parts in sorted(found.items())}


def _silent_lines(tree: ast.Module) -> set[int]:
    """Return the lines of statements that do nothing, unless another statement shares the line."""
    silent, others = set[int](), set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            quiet = isinstance(node, ast.Pass | ast.Import | ast.ImportFrom) or (
                isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            )
            whole = quiet or not hasattr(node, "body")
            last = node.end_lineno if whole else node.lineno
            span = range(node.lineno, (last or node.lineno) + 1)
            (silent if quiet else others).update(span)
    return silent - others
