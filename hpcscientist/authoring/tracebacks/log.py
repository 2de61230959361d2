"""Reads Python tracebacks in a trial's log: which lines of our own code failed, and how.

The log may be cut off at its start and holds whatever a candidate prints, so every text is
read without fault; what makes no sense gives nothing. Other languages' traces are not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hpcscientist.authoring.tracebacks.blocks import Block, blocks
from hpcscientist.authoring.tracebacks.lines import cleaned
from hpcscientist.authoring.tracebacks.places import own
from hpcscientist.files.text import one_line
from hpcscientist.records.base import Record

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
