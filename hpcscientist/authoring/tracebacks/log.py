"""Reads Python tracebacks in a trial's log: which lines of our own code failed, and how.

The log may be cut off at its start and holds whatever a candidate prints, so every text is
read without fault; what makes no sense gives nothing. Other languages' traces are not read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from hpcscientist.authoring.tracebacks.blocks import Block, Place, blocks
from hpcscientist.authoring.tracebacks.layouts import cleaned, split
from hpcscientist.files.python_source import syntax_tree
from hpcscientist.files.text import one_line
from hpcscientist.records.base import Record

# Whether a frame of a log lies in one of our files: by its path, its source, its function.

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


MAX_FRAMES = 40
MAX_ERROR = 300

# These say that another process failed, and not how.
_OF_ANOTHER = re.compile(r"^[\w.]*\b(?:ChildFailedError|CalledProcessError)\b")
_DEVICE_ASSERT = re.compile(r"\bdevice-side assert\b")
_ASSERTION = re.compile(r"Assertion `([^`'\n]{1,120})['`] failed")


class Frame(Record):
    """A frame in the candidate's own code: `code` is that line, from its own file."""

    file: str
    line: int
    function: str
    code: str


def frames(log: str, files: Mapping[str, str]) -> list[Frame]:
    """Return the frames in `files`, of the last traceback first, each outermost call first.

    What a destructor raised, and threads beside the one that crashed, come last; of several
    ranks the one that failed first comes first. The log's paths lie in some scratch folder, so
    they are matched by the end of the path, and by the source line where the log shows one, else
    by the function's name: a library's file may have the same name. Repeats (recursion) are left
    out. At most MAX_FRAMES; the innermost of a traceback stay.
    """
    found = blocks(cleaned(log))
    sure = _own([block for block in found if block.sure], files)
    return sure or _own(found, files)


def last_error(log: str) -> str:
    """Return the last exception's line, else the last line that is not blank, else "".

    Errors that only tell that another process failed count where there is nothing else. To a
    GPU's assert, which is reported late and elsewhere, what was asserted is added.
    """
    lines = cleaned(log)
    raised = [block.exception for block in blocks(lines) if block.exception]
    said = [line for line in raised if not _OF_ANOTHER.match(line)] or raised
    said = said or [line for line in lines if line.strip()]
    if not said:
        return ""
    last = said[-1]
    asserted = _ASSERTION.search(log) if _DEVICE_ASSERT.search(last) else None
    return one_line(f"{last} ({asserted.group(1)})" if asserted else last, MAX_ERROR)


def _own(found: Sequence[Block], files: Mapping[str, str]) -> list[Frame]:
    kept: dict[tuple[str, int, str, str], None] = {}
    for block in reversed(found):
        order = reversed(block.places) if block.first_inner else block.places
        new = dict.fromkeys(where for place in order if (where := own(place, files)) is not None)
        fresh = [where for where in new if where not in kept]
        room = MAX_FRAMES - len(kept)
        kept.update(dict.fromkeys(fresh[max(0, len(fresh) - room) :]))
    return [
        Frame(file=file, line=line, function=function, code=code)
        for file, line, function, code in kept
    ]
