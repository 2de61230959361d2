"""Python source: its syntax tree, its syntax errors, and whether it needs a newer Python.

Code may be written for a newer Python than this one. A tolerant grammar distinguishes it from code
that is not valid in any version; this Python cannot make a tree of either.
"""

from __future__ import annotations

import ast
import contextlib
import re
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node


# CPython (up to 3.13 at least) counts the depth of all trees under construction in one counter. If
# threads switch in between, as in a callback of the garbage collector, `ast.parse` raises
# SystemError. All threads also share the warning filters. Reentrant, because a callback may parse.
_READING = threading.RLock()
# Python also makes trees when it writes tracebacks, without our lock: then try again.
_ATTEMPTS = 20
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)

_GENERIC = frozenset({"type_parameter", "type_alias_statement"})  # of Python 3.12


@dataclass(frozen=True, slots=True)
class SourceFault:
    """An error in a source. `line` counts from 1; None if the error has no single line."""

    line: int | None
    message: str


def syntax_tree(source: str | bytes, name: str = "<unknown>") -> ast.Module:
    """Return `ast.parse` of a source, one thread at a time and without warnings.

    Raises SyntaxError, ValueError, RecursionError, MemoryError; SystemError if Python makes other
    trees during each attempt.
    """
    with _READING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes do not matter here
        for _ in range(_ATTEMPTS - 1):
            with contextlib.suppress(SystemError):
                return ast.parse(source, name)
        return ast.parse(source, name)


def fault(source: str) -> SourceFault | None:
    """Return why this Python cannot compile a source; None if it can. Runs nothing."""
    try:
        with _READING, warnings.catch_warnings():
            # A warning about an escape or a comparison is no reason to refuse code that runs.
            warnings.simplefilter("ignore")
            # Bytes, as the interpreter will read them: a wrong coding line is an error.
            compile(source.encode(), "source", "exec", dont_inherit=True)
    except SyntaxError as error:
        return SourceFault(error.lineno, f"syntax error: {error.msg}")
    except ValueError as error:  # null bytes, characters that cannot be encoded
        return SourceFault(None, f"not Python source: {error}")
    except (RecursionError, MemoryError, OverflowError):
        return SourceFault(None, "nested too deeply to be compiled")
    return None


def is_newer(source: str) -> bool:
    """Return whether a source that this Python cannot compile is written for a newer one.

    It is if a grammar with newer syntax can parse all of it and finds such syntax in it.
    """
    try:
        root = _parsed(source.encode())
    except ValueError:  # characters that cannot be encoded
        return False
    return not root.has_error and any(map(_is_newer, _nodes(root)))


def readable_part(source: str) -> str:
    """Return a source with blanks for the top-level statements that this Python cannot parse."""
    data = source.encode()
    for node in _parsed(data).named_children:
        part = data[node.start_byte : node.end_byte]
        try:
            syntax_tree(part)
        except UNREADABLE:
            blank = re.sub(rb"[^\r\n]", b" ", part)
            data = data[: node.start_byte] + blank + data[node.end_byte :]
    return data.decode()


def _parsed(data: bytes) -> Node:
    # Imported here: most processes never parse source.
    import tree_sitter_python  # noqa: PLC0415
    from tree_sitter import Language, Parser  # noqa: PLC0415

    return Parser(Language(tree_sitter_python.language())).parse(data).root_node


def _nodes(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.children


def _is_newer(node: Node) -> bool:
    """Return whether a node is syntax that is new in Python 3.12."""
    if node.type == "string":
        quote = (node.children[0].text or b"").decode().lstrip("bfruBFRU")
        return any(
            child.type == "interpolation" and _is_free(child, quote) for child in node.children
        )
    return node.type in _GENERIC


def _is_free(field: Node, quote: str) -> bool:
    """Return whether a field of an f-string has content that is allowed only since Python 3.12."""
    text = (field.text or b"").decode()
    return (
        quote in text
        or "\\" in text
        or ("\n" in text and len(quote) == 1)
        or any(child.type == "comment" for child in field.children)
    )
