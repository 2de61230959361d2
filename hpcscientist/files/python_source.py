"""Python source as a syntax tree, and what is wrong with it.

Code may be meant for a newer Python than this one. A tolerant grammar tells that apart from
code that no Python reads; there is no tree of it then.
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


# CPython counts the depth of all trees that are being made in one place (to 3.13 at least): where
# threads take turns in between, as in a callback of the collector, `ast.parse` raises SystemError.
# The filters of warnings are one for all threads too. Reentrant, for a callback may parse.
_READING = threading.RLock()
# Python itself makes trees when it writes tracebacks, which the lock does not hold up: again, then.
_ATTEMPTS = 20
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)

_GENERIC = frozenset({"type_parameter", "type_alias_statement"})  # of Python 3.12


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a source, and on which line, from 1, if it is one line."""

    line: int | None
    message: str


def syntax_tree(source: str | bytes, name: str = "<unknown>") -> ast.Module:
    """Return `ast.parse` of a source, one thread at a time and without warnings.

    Raises SyntaxError, ValueError, RecursionError, MemoryError; SystemError where Python makes
    trees all the time.
    """
    with _READING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # dubious escapes are nobody's business here
        for _ in range(_ATTEMPTS - 1):
            with contextlib.suppress(SystemError):
                return ast.parse(source, name)
        return ast.parse(source, name)


def fault(source: str) -> Fault | None:
    """Return why this Python cannot compile a source; None if it can. Nothing is run."""
    try:
        with _READING, warnings.catch_warnings():
            # A dubious escape or comparison is no reason to refuse code that runs.
            warnings.simplefilter("ignore")
            # As bytes, as the interpreter will read it: a wrong coding line counts.
            compile(source.encode(), "source", "exec", dont_inherit=True)
    except SyntaxError as error:
        return Fault(error.lineno, f"syntax error: {error.msg}")
    except ValueError as error:  # null bytes, characters that cannot be encoded
        return Fault(None, f"not Python source: {error}")
    except (RecursionError, MemoryError, OverflowError):
        return Fault(None, "nested too deeply to be compiled")
    return None


def is_newer(source: str) -> bool:
    """Whether a source that this Python cannot compile is meant for a newer one.

    It is if a grammar that knows newer syntax reads all of it, and finds such syntax in it.
    """
    try:
        root = _parsed(source.encode())
    except ValueError:  # characters that cannot be encoded
        return False
    return not root.has_error and any(map(_is_newer, _nodes(root)))


def readable_part(source: str) -> str:
    """Return a source with blanks for the outermost statements that this Python cannot read."""
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
    # Imported here: most processes read no source at all.
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
    """Whether a node is syntax that came with Python 3.12."""
    if node.type == "string":
        quote = (node.children[0].text or b"").decode().lstrip("bfruBFRU")
        return any(
            child.type == "interpolation" and _is_free(child, quote) for child in node.children
        )
    return node.type in _GENERIC


def _is_free(field: Node, quote: str) -> bool:
    """Whether a field of an f-string holds what it could not before Python 3.12."""
    text = (field.text or b"").decode()
    return (
        quote in text
        or "\\" in text
        or ("\n" in text and len(quote) == 1)
        or any(child.type == "comment" for child in field.children)
    )
