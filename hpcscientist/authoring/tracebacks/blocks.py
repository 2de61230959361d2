"""The tracebacks in a log: Python's, faulthandler's, those of exception groups and in messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hpcscientist.authoring.tracebacks.layouts import HEADER
from hpcscientist.files.text import one_line

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
class Place:
    """A frame as the log has it, with the source lines shown for it.

    `function` is None if a compiler (Python's too) names a line but no function.
    """

    path: str
    line: int
    function: str | None
    shown: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Block:
    """One traceback. `aside`: it is not why the program ended, such as a destructor's.

    `sure`: it reports an exception or a crash; otherwise it may be a stack printed on the way.
    `headed`: it begins with a header. `first_inner`: the innermost frame comes first.
    """

    aside: bool = False
    sure: bool = True
    headed: bool = True
    margin: bool = False  # part of an exception group
    first_inner: bool = False
    places: list[Place] = field(default_factory=list)
    exception: str | None = None


def blocks(lines: Sequence[str]) -> list[Block]:
    """Return the tracebacks of a log in order, but the `aside` ones first."""
    reader = _Reader()
    for line in lines:
        reader.take(line)
    return sorted(reader.blocks, key=lambda block: not block.aside)


class _Reader:
    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._block: Block | None = None  # the one being read
        self._unfinished: Block | None = None  # its exception's text continues on the next line
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
            self._open(Block(aside=ignored, margin=bare != line))
        elif _STACK.match(line):
            self._open(Block(sure=False, headed=False))
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

    def _open(self, block: Block) -> Block:
        self._block, self._unfinished = block, None
        self.blocks.append(block)
        return block

    def _crash(self, line: str) -> bool:
        """Return whether faulthandler or C++ wrote the line before frames; open its block."""
        if _CRASH.match(line):
            self._fatal = line.startswith("Fatal")
            self._open(Block(first_inner=True, exception=line))
        elif thread := _THREAD.match(line):
            current = thread.group(1) is not None
            if self._block is None or self._block.places or not self._block.first_inner:
                self._open(Block(first_inner=True))
            if self._block is not None:
                self._block.aside = self._fatal and not current
        elif _ABORT.match(line):
            block = self._open(Block(aside=True, exception=line))
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
            block = self._open(Block(margin=margin, sure=sure, headed=False))
        name = one_line(function, 80) if function else None
        block.places.append(Place(path, int(line), name))

    @staticmethod
    def _source(block: Block, line: str) -> None:
        """Keep a source line that follows a frame, unless it holds only marks."""
        if block.places and not _NO_SOURCE.match(line):
            shown = block.places[-1].shown
            if len(shown) < _MAX_SHOWN:
                shown.append(line.strip())

    def _end(self, block: Block, text: str) -> None:
        """Take the first line that is not indented: the exception, or other output."""
        if block.first_inner:
            return
        if _KNOWN.match(text) or (block.headed and _EXCEPTION.match(text)):
            block.exception, block.sure = text, True
            if place := _OF_SYNTAX.match(text):
                block.places.append(Place(place.group(1), int(place.group(2)), None))
            self._unfinished = block if text.rstrip().endswith(":") else None
            self._block = None
        elif not block.headed:
            self._block = None
