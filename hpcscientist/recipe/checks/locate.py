"""Finds the line of a key in a TOML file with Tree-sitter, because tomllib keeps no positions.

It only handles documents that tomllib accepts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import tree_sitter_toml
from tree_sitter import Language, Node, Parser

Key = tuple[str | int, ...]

_KEYS = ("bare_key", "quoted_key", "dotted_key")
_TABLES = ("table", "table_array_element")


def key_lines(text: str) -> dict[Key, int]:
    """Return the line, from 1, of every table, key and element of a valid TOML document."""
    document = Parser(Language(tree_sitter_toml.language())).parse(text.encode()).root_node
    lines: dict[Key, int] = {}
    counts: dict[Key, int] = {}  # number of elements of arrays of tables so far
    for node in document.named_children:
        table: Key = ()
        if node.type in _TABLES:
            table = _resolve(_path(node), counts)
            if node.type == "table_array_element":
                lines.setdefault(table, _line(node))
                counts[table] = counts.get(table, 0) + 1
                table = (*table, counts[table] - 1)
            lines.setdefault(table, _line(node))
        for pair in [node] if node.type == "pair" else node.named_children:
            for key, line in _located(table, pair):
                lines.setdefault(key, line)
    return lines


def line_of(lines: dict[Key, int], key: Key) -> int:
    """Return the line of a key, or else of the nearest enclosing table; 1 for the document."""
    for size in range(len(key), 0, -1):
        if key[:size] in lines:
            return lines[key[:size]]
    return 1


def error_line(error: tomllib.TOMLDecodeError, text: str) -> int:
    """Return the line that a parser error names; the last one for "end of document"."""
    found = re.search(r"at line (\d+)", str(error))
    return int(found[1]) if found else max(1, len(text.splitlines()))


def _located(around: Key, node: Node) -> Iterator[tuple[Key, int]]:
    """Yield the keys and array elements within a pair or a value, with their lines."""
    children = [child for child in node.named_children if child.type != "comment"]
    if node.type == "pair":
        key = (*around, *_path(node))
        yield key, _line(node)
        yield from _located(key, children[-1])
    elif node.type == "inline_table":
        for child in children:
            yield from _located(around, child)
    elif node.type == "array":
        for index, child in enumerate(children):
            yield (*around, index), _line(child)
            yield from _located((*around, index), child)


def _line(node: Node) -> int:
    return node.start_point.row + 1


def _path(node: Node) -> Key:
    """Return the key of a table or a pair, as tomllib reads it."""
    text = next(child for child in node.named_children if child.type in _KEYS).text or b""
    found: Any = tomllib.loads(f"{text.decode()} = 0")
    path: list[str] = []
    while isinstance(found, dict):
        ((name, found),) = found.items()
        path.append(name)
    return tuple(path)


def _resolve(path: Key, counts: dict[Key, int]) -> Key:
    """Insert the index of the current element after each array of tables in a path."""
    resolved: Key = ()
    for i, part in enumerate(path):
        resolved = (*resolved, part)
        if resolved in counts and i < len(path) - 1:
            resolved = (*resolved, counts[resolved] - 1)
    return resolved
