"""Whether a frame of a log lies in one of our files: by its path, its source, its function."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from hpcscientist.authoring.tracebacks.blocks import Place
from hpcscientist.authoring.tracebacks.lines import split
from hpcscientist.files.handed.python import syntax_tree

_INSTALLED = re.compile(r"/(?:site-packages|dist-packages|lib/python3[0-9.]*)/")
_PICKLED = "<dynamic-code>"  # where a function lies that cloudpickle sent to another process
_CUT = 8  # letters that a source line shows at least, where a box was too narrow for all of it
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_LAST = 0x10FFFF


def own(place: Place, files: Mapping[str, str]) -> tuple[str, int, str, str] | None:
    """Return the file of ours, line, function and code of a frame; None if it is not ours.

    The longest name that fits the end of the path is taken.
    """
    path = unescaped(place.path)
    name = _named(path, place, files)
    if name is None or _INSTALLED.search(path):
        return None
    lines = _lines(files[name])
    if not 1 <= place.line <= len(lines):
        return None
    code = lines[place.line - 1].strip()
    if place.function is None:  # what is shown then is not always that line
        return name, place.line, _holder(place.line, files[name]), code
    function = unescaped(place.function)
    known = _shows(place.shown, code) if place.shown else _may_be_in(function, place, files[name])
    return (name, place.line, function, code) if known else None


def _named(path: str, place: Place, files: Mapping[str, str]) -> str | None:
    """Return the name of our file that a path leads to, if there is one and no other."""
    names = [name for name in files if path == name or path.endswith(f"/{name}")]
    if names:
        return max(names, key=len)
    if path == _PICKLED and place.function:
        fits = [name for name, text in files.items() if _is_in(place.function, place, text)]
    else:  # pretty_errors and messages of syntax errors name no folder
        fits = [name for name in files if name.endswith(f"/{path}")] if "/" not in path else []
    return fits[0] if len(fits) == 1 else None


@lru_cache(maxsize=64)
def _lines(text: str) -> tuple[str, ...]:
    return tuple(split(text))


def unescaped(text: str) -> str:
    """Return a name with the letters that an ASCII stream wrote as `\\xe4`."""
    return _ESCAPE.sub(_letter, text)


def _letter(match: re.Match[str]) -> str:
    code = int(next(group for group in match.groups() if group), 16)
    return chr(code) if code <= _LAST else match.group()


def _shows(shown: Sequence[str], code: str) -> bool:
    """Whether the source lines that a traceback shows hold this line.

    Blanks are not always kept, letters beyond ASCII not always printed, and some Pythons end a
    line at every character that Unicode calls its end.
    """
    codes = {code, *code.splitlines()[:1]}
    wanted = [["".join(part.split()) for part in _BEYOND_ASCII.split(one)] for one in codes]
    bare = ["".join(line.split()) for line in shown]
    return any(_holds(line, parts) for line in bare for parts in wanted)


def _holds(line: str, parts: Sequence[str]) -> bool:
    """Whether a line is made of these parts, in order, with anything in between."""
    if len(parts) == 1:
        return line == parts[0] or (len(line) >= _CUT and parts[0].startswith(line))
    if not (line.startswith(parts[0]) and line.endswith(parts[-1])):
        return False
    at, end = len(parts[0]), len(line) - len(parts[-1])
    for part in parts[1:-1]:
        found = line.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return at <= end


def _may_be_in(function: str, place: Place, text: str) -> bool:
    """Whether a line lies in a function or class of this name; asked where no source is shown.

    True for `<module>` and the like, and for text that cannot be parsed.
    """
    unknown = not function.isidentifier() or _spans(text) is None
    return unknown or _is_in(function, place, text)


def _is_in(function: str, place: Place, text: str) -> bool:
    spans = _spans(text) or ()
    return any(name == function and start <= place.line <= end for name, start, end in spans)


def _holder(line: int, text: str) -> str:
    """Return the innermost function or class that holds a line; `<module>` if none is known."""
    around = [(start, name) for name, start, end in _spans(text) or () if start <= line <= end]
    return max(around)[1] if around else "<module>"


@lru_cache(maxsize=16)
def _spans(text: str) -> list[tuple[str, int, int]] | None:
    """Return name, first and last line of all functions and classes of a source."""
    try:
        tree = syntax_tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return [(node.name, node.lineno, node.end_lineno or node.lineno) for node in found]
