"""Parses Python that may not be Python: lines that stand in the way are put aside, one by one.

A syntax error hides a whole file from `ast`. So the line it names is replaced by one of the same
indentation that says nothing (a header keeps its name), until the rest parses; every other line
keeps its place and its number. Nothing is imported or executed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hpcscientist.files.python_source import syntax_tree

MAX_SOURCE = 400_000  # characters; longer files are generated, or data
_TRIES = 25

_NEWLINE = re.compile(r"\r\n|\r|\n")
HEADER = re.compile(r"^([ \t]*)(async[ \t]+def|def|class)[ \t]+([^\W\d]\w*)")
_BRANCH = re.compile(r"^(elif|else|except|finally|case)\b")


@dataclass(frozen=True, slots=True)
class Source:
    """A file's lines and its tree; `aside` are the lines that the tree does not hold.

    `tree` is None where too much stands in the way. `blockless` are headers whose block is missing,
    each with the line where it was looked for.
    """

    file: str
    lines: tuple[str, ...]
    tree: ast.Module | None
    aside: frozenset[int]
    blockless: Mapping[int, int] = field(default_factory=dict)

    def line(self, number: int) -> str:
        """Return a line without its indentation; "" beyond the file."""
        return self.lines[number - 1].strip() if 1 <= number <= len(self.lines) else ""


def parse(file: str, text: str) -> Source:
    """Parse a file as far as it goes; never raises."""
    lines = tuple(_NEWLINE.split(text))
    if len(text) > MAX_SOURCE:
        return Source(file, lines, None, frozenset())
    readable = text.removeprefix("\ufeff").replace("\0", " ").encode("utf-8", "replace").decode()
    tried = _NEWLINE.split(readable)
    aside: dict[int, int] = {}  # line -> how often it was in the way
    blockless: dict[int, int] = {}
    for _ in range(_TRIES):
        found = _tree(tried)
        if not isinstance(found, SyntaxError):
            return Source(file, lines, found, frozenset(aside), blockless)
        if header := _without_block(found, len(tried)):
            blockless[header] = max(header, min(found.lineno or header, len(lines)))
            _complete(tried, header)
            aside[blockless[header]] = aside.get(blockless[header], 0)
        else:
            _put_aside(tried, found, aside)
    return Source(file, lines, None, frozenset(aside))


def _tree(lines: list[str]) -> ast.Module | SyntaxError | None:
    try:
        return syntax_tree("\n".join(lines))
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError, OverflowError):
        return None


def _without_block(error: SyntaxError, lines: int) -> int:
    """Return the header whose block is missing; 0 for other errors."""
    found = re.search(r"expected an indented block after .* on line ([0-9]+)", str(error))
    return min(int(found[1]), lines) if found else 0


def _complete(lines: list[str], number: int) -> None:
    """Give a header a block of its own; where that is not its end yet, its name is kept alone."""
    line = lines[number - 1]
    whole = line.rstrip().endswith(":") and line.count("(") == line.count(")")
    lines[number - 1] = f"{line.rstrip()} pass" if whole else f"{_header(line, 'if True:')} pass"


def _put_aside(lines: list[str], error: SyntaxError, aside: dict[int, int]) -> None:
    """Replace the line that an error names."""
    number = min(max(error.lineno or 1, 1), len(lines))
    if aside.get(number, 0) == 0:
        lines[number - 1] = _without_content(lines, number)
    else:
        lines[number - 1] = _last_filled(lines, number, aside)
    aside[number] = aside.get(number, 0) + 1


def _without_content(lines: list[str], number: int) -> str:
    """Return a line that opens a block where this one does, and does nothing elsewhere."""
    line = lines[number - 1]
    following = next((text for text in lines[number:] if text.strip()), "")
    if indentation(following) > indentation(line):
        return _header(line, "if True:")
    whole = _header(line, "")
    return f"{whole} pass" if whole.strip() else line[: indentation(line)] + "pass"


def _header(line: str, otherwise: str) -> str:
    """Return a header of the same kind and name that parses; `otherwise` where it is none."""
    indent = line[: indentation(line)]
    if found := HEADER.match(line):
        return f"{indent}class {found[3]}:" if found[2] == "class" else f"{indent}def {found[3]}():"
    if found := _BRANCH.match(line.strip()):
        spare = {"elif": "elif True:", "except": "except BaseException:", "case": "case None:"}
        return indent + spare.get(found[1], f"{found[1]}:")
    return indent + otherwise


def _last_filled(lines: list[str], number: int, aside: dict[int, int]) -> str:
    """Return "" for a line that stays in the way: it is emptied.

    An error may be seen behind its cause, at an empty line: then the line before it goes.
    """
    if not lines[number - 1].strip():
        for before in range(number - 1, 0, -1):
            if lines[before - 1].strip():
                lines[before - 1] = ""
                aside[before] = aside.get(before, 0) + 1
                break
    return ""


def indentation(line: str) -> int:
    """Return how many characters a line is indented by."""
    return len(line) - len(line.lstrip(" \t\f"))
