"""Reads Python tracebacks in a trial's log: which lines of our own code failed, and how.

The log may be cut off at its start and holds whatever a candidate prints, so every text is
read without fault; what makes no sense gives nothing. Other languages' traces are not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hpcscientist.files.text import one_line
from hpcscientist.records.base import Record

MAX_FRAMES = 40
MAX_HEADLINE = 300

_NEWLINE = re.compile(r"\r\n|\r|\n")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_RANK = re.compile(r"^\[rank[0-9]+\]: ?")  # torchrun's, before each line
_MARGIN = re.compile(r"^ *(?:\| ?|\+ (?=Exception Group ))")  # an exception group's
_RULE = re.compile(r"^ *\+[-+]")
# `in …` is missing in syntax errors; faulthandler writes no comma before it.
_FRAME = re.compile(r'^ *File "([^"\n]+)", line ([0-9]{1,9})(?:,? in (.+))?$')
_HEADER = re.compile(r"^ *(?:Exception Group )?Traceback \(most recent call last\):")
_INSTALLED = re.compile(r"/(?:site-packages|dist-packages|lib/python3[0-9.]*)/")
_NO_SOURCE = re.compile(r"^[\s^~]*$|^ *\[Previous line repeated ")


class Frame(Record):
    """A frame in the candidate's own code: `code` is that line, from its own file."""

    file: str
    line: int
    function: str
    code: str


@dataclass(slots=True)
class _Block:
    """One traceback as it stands in the log."""

    ignored: bool = False  # raised in a destructor: not why the program ended
    margin: bool = False  # part of an exception group
    crash: bool = False  # by faulthandler: frames stand innermost first
    frames: list[tuple[str, int, str, str | None]] = field(default_factory=list)
    exception: str | None = None


def frames(log: str, files: Mapping[str, str]) -> list[Frame]:
    """Return the frames in `files`, of the last traceback first, each outermost call first.

    The log's paths lie in some scratch folder, so they are matched by the end of the path,
    and by the source line where the log shows one: a library's file may have the same name.
    Repeats (recursion) are left out. At most MAX_FRAMES; the innermost of a traceback stay.
    """
    found: dict[Frame, None] = {}
    for block in reversed(_blocks(log)):
        order = reversed(block.frames) if block.crash else block.frames
        own = (_own(*place, files) for place in order)
        new = [frame for frame in dict.fromkeys(own) if frame is not None and frame not in found]
        room = MAX_FRAMES - len(found)
        found.update(dict.fromkeys(new[max(0, len(new) - room) :]))
    return list(found)


def headline(log: str) -> str:
    """Return the last exception's line, else the last line that is not blank, else ""."""
    exceptions = [block.exception for block in _blocks(log) if block.exception]
    lines = exceptions or [line for line in _lines(log) if line.strip()]
    return one_line(lines[-1], MAX_HEADLINE) if lines else ""


def _lines(log: str) -> list[str]:
    return [_RANK.sub("", _ANSI.sub("", line), count=1) for line in _NEWLINE.split(log)]


def _blocks(log: str) -> list[_Block]:
    """Return the tracebacks of a log in order; those of ignored exceptions first."""
    blocks: list[_Block] = []
    block: _Block | None = None  # the one being read
    unfinished: _Block | None = None  # its exception's text goes on in the next line
    previous = ""
    for line in _lines(log):
        bare = _MARGIN.sub("", line, count=1)
        text = bare if block is not None and block.margin else line
        if _HEADER.match(bare):
            ignored = previous.startswith("Exception ignored ")
            block, unfinished = _Block(ignored=ignored, margin=bare != line), None
            blocks.append(block)
        elif line.startswith("Fatal Python error: "):
            block, unfinished = _Block(crash=True, exception=line), None
            blocks.append(block)
        elif match := _FRAME.match(bare):
            if block is None:  # a syntax error, or the start of the log is cut off
                block, unfinished = _Block(margin=bare != line), None
                blocks.append(block)
            path, number, function = match.groups()
            block.frames.append((path, int(number), one_line(function or "<module>", 80), None))
        elif not text.strip() or _RULE.match(line):
            pass
        elif block is not None and text[0].isspace():
            _take_source(block, text)
        elif block is not None and not block.crash:
            block.exception = text  # the first line that is not indented
            unfinished = block if text.rstrip().endswith(":") else None
            block = None
        elif unfinished is not None and unfinished.exception:
            unfinished.exception += " " + bare.strip()
            unfinished = None
        previous = line
    return sorted(blocks, key=lambda b: not b.ignored)


def _take_source(block: _Block, line: str) -> None:
    """Keep the source line that follows a frame; lines after it are marks or continue it."""
    if block.frames and block.frames[-1][3] is None and not _NO_SOURCE.match(line):
        path, number, function, _ = block.frames[-1]
        block.frames[-1] = (path, number, function, line.strip())


def _own(
    path: str, line: int, function: str, shown: str | None, files: Mapping[str, str]
) -> Frame | None:
    """Return the frame if it lies in one of `files`, in the longest name that fits."""
    if _INSTALLED.search(path):
        return None
    names = [name for name in files if path == name or path.endswith(f"/{name}")]
    if not names:
        return None
    name = max(names, key=len)
    lines = _NEWLINE.split(files[name])
    if not 1 <= line <= len(lines):
        return None
    code = lines[line - 1].strip()
    if shown is not None and not _agree(shown, code):
        return None
    return Frame(file=name, line=line, function=function, code=code)


def _agree(shown: str, code: str) -> bool:
    """Whether a traceback's source line is this line.

    Blanks are not always kept, and letters beyond ASCII not always printed.
    """
    return not code.isascii() or "".join(shown.split()) == "".join(code.split())
