"""Python tracebacks in a trial's log: which lines of the candidate's code failed, and how.

The log may be cut off at its start and holds whatever the candidate's code prints. So no text
raises an error, and text that makes no sense is ignored. Other languages' traces are not read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from hpcscientist.authoring.tracebacks.layouts import HEADER, cleaned, split
from hpcscientist.files.python_source import syntax_tree
from hpcscientist.files.text import one_line
from hpcscientist.records.base import Record

# The tracebacks in a log: Python's, faulthandler's, those of exception groups and in messages.


_MARGIN = re.compile(r"^ *(?:\| ?|\+ (?=Exception Group ))")  # an exception group's
_RULE = re.compile(r"^ *\+[-+]")
# `in …` is missing in syntax errors; faulthandler writes no comma before it. A compiler such as
# Numba ends the line in a colon.
_FRAME = re.compile(r'^ *File "([^"\n]+)", line ([0-9]{1,9})(?:(:)|,? in (.+))?$')
_STACK = re.compile(r"^(?:Stack \(most recent call last\)|Call stack):\s*$")  # nothing failed
_CRASH = re.compile(r"^(?:Fatal Python error: |Timeout \([0-9:.]+\)!$)")
_THREAD = re.compile(
    r"^(?:(Current )?[Tt]hread 0x[0-9a-fA-F]+.*|Stack) \(most recent call first\):"
)
_ABORT = re.compile(r"^terminate called ")  # C++
_GAP = re.compile(r"^\[\.\.\. [0-9]+ bytes of output were dropped here \.\.\.\]$")
_EXCEPTION = re.compile(r"^[^\W\d][\w.]*(?:\.<locals>\.[\w.]+)*(?:: |:?$)")
# Without a header only these count as exceptions; `Epoch: 3` does not.
_KNOWN = re.compile(r"^[\w.]*(?:Error|Exception|Warning|Exit|Interrupt|Iteration)(?:: |:?$)")
# Only the message names the place: IPython and stackprinter show no frame for a syntax error.
_OF_SYNTAX = re.compile(
    r"^(?:[\w.]*\.)?(?:Syntax|Indentation|Tab)Error: .* \((.+\.pyx?), line ([0-9]{1,9})\)$"
)
_NO_SOURCE = re.compile(r"^[\s^~]*$|^ *\[Previous line repeated ")
_MAX_SHOWN = 20


@dataclass(slots=True)
class LoggedFrame:
    """A frame as the log has it, with the source lines shown for it.

    `function` is None if a compiler (Python's too) names a line but no function.
    """

    path: str
    line: int
    function: str | None
    shown: list[str] = field(default_factory=list)


@dataclass(slots=True)
class TracebackBlock:
    """One traceback. `aside`: it is not why the program ended, such as a destructor's.

    `sure`: it reports an exception or a crash; otherwise it may be a stack printed on the way.
    `headed`: it begins with a header. `first_inner`: the innermost frame comes first.
    """

    aside: bool = False
    sure: bool = True
    headed: bool = True
    margin: bool = False  # part of an exception group
    first_inner: bool = False
    places: list[LoggedFrame] = field(default_factory=list)
    exception: str | None = None


def blocks(lines: Sequence[str]) -> list[TracebackBlock]:
    """Return the tracebacks of a log in order, but the `aside` ones first."""
    reader = _Reader()
    for line in lines:
        reader.take(line)
    return sorted(reader.blocks, key=lambda block: not block.aside)


class _Reader:
    def __init__(self) -> None:
        self.blocks: list[TracebackBlock] = []
        self._block: TracebackBlock | None = None  # the one being read
        self._unfinished: TracebackBlock | None = (
            None  # its exception's text continues on the next line
        )
        self._fatal = False  # in the dump of a crash, where one thread is the current one
        self._previous = self._said = ""  # the last line, and the last that is not blank

    def take(self, line: str) -> None:
        """Read the next line."""
        self._read(line)
        self._previous = line
        self._said = line if line.strip() else self._said

    def _read(self, line: str) -> None:
        bare = _MARGIN.sub("", line, count=1)
        text = bare if self._block is not None and self._block.margin else line
        if _GAP.match(line):
            self._block = self._unfinished = None
        elif HEADER.search(bare):
            ignored = self._previous.startswith("Exception ignored ")
            self._open(TracebackBlock(aside=ignored, margin=bare != line))
        elif _STACK.match(line):
            self._open(TracebackBlock(sure=False, headed=False))
        elif self._crash(line):
            pass
        elif match := _FRAME.match(bare):
            self._frame(bare != line, *match.groups())
        elif not text.strip() or _RULE.match(line):
            pass
        elif self._block is not None and text[0].isspace():
            self._source(self._block, text)
        elif self._block is not None:
            self._end(self._block, text)
        elif self._unfinished is not None and any(map(str.isalnum, bare)):
            self._unfinished.exception = f"{self._unfinished.exception} {bare.strip()}"
            self._unfinished = None

    def _open(self, block: TracebackBlock) -> TracebackBlock:
        self._block, self._unfinished = block, None
        self.blocks.append(block)
        return block

    def _crash(self, line: str) -> bool:
        """Return whether faulthandler or C++ wrote the line before frames; open its block."""
        if _CRASH.match(line):
            self._fatal = line.startswith("Fatal")
            self._open(TracebackBlock(first_inner=True, exception=line))
        elif thread := _THREAD.match(line):
            current = thread.group(1) is not None
            if self._block is None or self._block.places or not self._block.first_inner:
                self._open(TracebackBlock(first_inner=True))
            if self._block is not None:
                self._block.aside = self._fatal and not current
        elif _ABORT.match(line):
            block = self._open(TracebackBlock(aside=True, exception=line))
            self._block, self._unfinished = None, block
        else:
            return False
        return True

    def _frame(
        self, margin: bool, path: str, line: str, colon: str | None, function: str | None
    ) -> None:
        block = self._block
        if block is None:  # a syntax error, part of a message, or the log's start is cut off
            sure = colon is not None or self._said.rstrip().endswith(":")
            block = self._open(TracebackBlock(margin=margin, sure=sure, headed=False))
        name = one_line(function, 80) if function else None
        block.places.append(LoggedFrame(path, int(line), name))

    @staticmethod
    def _source(block: TracebackBlock, line: str) -> None:
        """Keep a source line that follows a frame, unless it holds only marks."""
        if block.places and not _NO_SOURCE.match(line):
            shown = block.places[-1].shown
            if len(shown) < _MAX_SHOWN:
                shown.append(line.strip())

    def _end(self, block: TracebackBlock, text: str) -> None:
        """Take the first line that is not indented: the exception, or other output."""
        if block.first_inner:
            return
        if _KNOWN.match(text) or (block.headed and _EXCEPTION.match(text)):
            block.exception, block.sure = text, True
            if place := _OF_SYNTAX.match(text):
                block.places.append(LoggedFrame(place.group(1), int(place.group(2)), None))
            self._unfinished = block if text.rstrip().endswith(":") else None
            self._block = None
        elif not block.headed:
            self._block = None


# Whether a frame of a log lies in a file of the candidate: by its path, its source, its function.

_INSTALLED = re.compile(r"/(?:site-packages|dist-packages|lib/python3[0-9.]*)/")
_PICKLED = "<dynamic-code>"  # the file of a function that cloudpickle sent to another process
_CUT = 8  # fewest letters of a source line that a narrow box cut off
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_LAST = 0x10FFFF


def own(place: LoggedFrame, files: Mapping[str, str]) -> tuple[str, int, str, str] | None:
    """Return a frame's file in `files`, line, function and code; None if it lies in no such file.

    The longest file name that fits the end of the path is taken.
    """
    path = unescaped(place.path)
    name = _named(path, place, files)
    if name is None or _INSTALLED.search(path):
        return None
    lines = _lines(files[name])
    if not 1 <= place.line <= len(lines):
        return None
    code = lines[place.line - 1].strip()
    if place.function is None:  # the source shown is then not always that line
        return name, place.line, _holder(place.line, files[name]), code
    function = unescaped(place.function)
    known = _shows(place.shown, code) if place.shown else _may_be_in(function, place, files[name])
    return (name, place.line, function, code) if known else None


def _named(path: str, place: LoggedFrame, files: Mapping[str, str]) -> str | None:
    """Return the name of the file in `files` that a path leads to; None if that is not clear."""
    names = [name for name in files if path == name or path.endswith(f"/{name}")]
    if names:
        return max(names, key=len)
    if path == _PICKLED and place.function:
        fits = [name for name, text in files.items() if _is_in(place.function, place, text)]
    else:  # pretty_errors and messages of syntax errors give no folder
        fits = [name for name in files if name.endswith(f"/{path}")] if "/" not in path else []
    return fits[0] if len(fits) == 1 else None


@lru_cache(maxsize=64)
def _lines(text: str) -> tuple[str, ...]:
    return tuple(split(text))


def unescaped(text: str) -> str:
    """Return a name with letters that an ASCII stream wrote as `\\xe4` decoded."""
    return _ESCAPE.sub(_letter, text)


def _letter(match: re.Match[str]) -> str:
    code = int(next(group for group in match.groups() if group), 16)
    return chr(code) if code <= _LAST else match.group()


def _shows(shown: Sequence[str], code: str) -> bool:
    """Return whether the source lines that a traceback shows include this line.

    White space is not always kept, letters beyond ASCII are not always printed, and some Python
    versions end a line at every Unicode line break.
    """
    codes = {code, *code.splitlines()[:1]}
    wanted = [["".join(part.split()) for part in _BEYOND_ASCII.split(one)] for one in codes]
    bare = ["".join(line.split()) for line in shown]
    return any(_holds(line, parts) for line in bare for parts in wanted)


def _holds(line: str, parts: Sequence[str]) -> bool:
    """Return whether a line consists of these parts, in order, with any text in between."""
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


def _may_be_in(function: str, place: LoggedFrame, text: str) -> bool:
    """Return whether a line may lie in a function or class of this name.

    Asked if the log shows no source. True for `<module>` and the like, and for text that cannot
    be parsed.
    """
    unknown = not function.isidentifier() or _spans(text) is None
    return unknown or _is_in(function, place, text)


def _is_in(function: str, place: LoggedFrame, text: str) -> bool:
    spans = _spans(text) or ()
    return any(name == function and start <= place.line <= end for name, start, end in spans)


def _holder(line: int, text: str) -> str:
    """Return the innermost function or class that holds a line; `<module>` if none is known."""
    around = [(start, name) for name, start, end in _spans(text) or () if start <= line <= end]
    return max(around)[1] if around else "<module>"


@lru_cache(maxsize=16)
def _spans(text: str) -> list[tuple[str, int, int]] | None:
    """Return name, first and last line of all functions and classes; None if it fails to parse."""
    try:
        tree = syntax_tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return [(node.name, node.lineno, node.end_lineno or node.lineno) for node in found]


MAX_FRAMES = 40
MAX_ERROR = 300

# Errors that say that another process failed, but not how.
_OF_ANOTHER = re.compile(r"^[\w.]*\b(?:ChildFailedError|CalledProcessError)\b")
_DEVICE_ASSERT = re.compile(r"\bdevice-side assert\b")
_ASSERTION = re.compile(r"Assertion `([^`'\n]{1,120})['`] failed")


class Frame(Record):
    """A frame in the candidate's own code; `code` is the line as its file has it."""

    file: str
    line: int
    function: str
    code: str


def frames(log: str, files: Mapping[str, str]) -> list[Frame]:
    """Return the frames in `files`: the last traceback first, each with its outermost call first.

    Tracebacks of destructors, and of threads beside the one that crashed, come last. Of several
    ranks, the one that failed first comes first. The log's paths lie in some scratch folder, so
    only the end of a path is matched. A library's file may have the same name, so the source line
    must match too if the log shows one, else the function's name. Repeats (recursion) are left
    out. At most MAX_FRAMES are returned; of a traceback the innermost stay.
    """
    found = blocks(cleaned(log))
    sure = _own([block for block in found if block.sure], files)
    return sure or _own(found, files)


def last_error(log: str) -> str:
    """Return the last exception's line, else the last line that is not blank, else "".

    An error that only says that another process failed counts if there is no other. A GPU's
    assert is reported late and elsewhere, so the failed assertion is added to it.
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


def _own(found: Sequence[TracebackBlock], files: Mapping[str, str]) -> list[Frame]:
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
