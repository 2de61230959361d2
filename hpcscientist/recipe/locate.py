"""Finds the line of a key in a TOML file, because tomllib keeps no positions.

A line scanner, not a parser: it is only asked about documents that tomllib accepted. Keys
inside inline tables and arrays are located at the line where their outermost key stands.
"""

from __future__ import annotations

import re
import tomllib

Key = tuple[str | int, ...]

_HEADER = re.compile(r"\s*(\[\[?)([^\]]+)\]")
_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_ASSIGNMENT = re.compile(rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*=")
_PARTS = re.compile(_PART)
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}' + r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"' + r"|'[^'\n]*'|#[^\n]*|[\[{]|[\]}]|\n",
    re.DOTALL,
)


def key_lines(text: str) -> dict[Key, int]:
    """Return the line, from 1, of every table and key of a valid TOML document."""
    lines: dict[Key, int] = {}
    counts: dict[Key, int] = {}
    table: Key = ()
    for number, line in _statements(text):
        if header := _HEADER.match(line):
            table = _resolve(_split(header[2]), counts)
            if header[1] == "[[":
                counts[table] = counts.get(table, 0) + 1
                lines.setdefault(table, number)
                table = (*table, counts[table] - 1)
        elif assignment := _ASSIGNMENT.match(line):
            lines.setdefault((*table, *_split(assignment[1])), number)
            continue
        else:
            continue
        lines.setdefault(table, number)
    return lines


def line_of(lines: dict[Key, int], key: Key) -> int:
    """Return the line of a key or of the nearest table around it; 1 for the document."""
    for size in range(len(key), 0, -1):
        if key[:size] in lines:
            return lines[key[:size]]
    return 1


def error_line(error: tomllib.TOMLDecodeError, text: str) -> int:
    """Return the line that a parser error names; the last one for "end of document"."""
    found = re.search(r"at line (\d+)", str(error))
    return int(found[1]) if found else max(1, len(text.splitlines()))


def _statements(text: str) -> list[tuple[int, str]]:
    """Return the lines on which a header or an assignment begins, with their numbers."""
    starts, depth, number = [0], 0, 1
    numbers = [1]
    for token in _TOKEN.finditer(text):
        piece = token[0]
        if piece in "[{":
            depth += 1
        elif piece in "]}":
            depth -= 1
        number += piece.count("\n")
        if piece == "\n" and depth == 0:
            starts.append(token.end())
            numbers.append(number)
    return [
        (number, text[start:].split("\n", 1)[0])
        for number, start in zip(numbers, starts, strict=True)
    ]


def _split(dotted: str) -> Key:
    return tuple(part.strip("\"'") for part in _PARTS.findall(dotted))


def _resolve(path: Key, counts: dict[Key, int]) -> Key:
    """Insert the index of the current element after each array of tables on the way."""
    resolved: Key = ()
    for i, part in enumerate(path):
        resolved = (*resolved, part)
        if resolved in counts and i < len(path) - 1:
            resolved = (*resolved, counts[resolved] - 1)
    return resolved
