"""A log's lines as one program would have printed them: ranks apart, no colours, no boxes."""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_LINE = 4000  # characters; a candidate may print what takes long to match

_NEWLINE = re.compile(r"\r\n|\r|\n")
_TERMINAL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")  # colours and moves of the cursor
_RANK = re.compile(r"^(?:\[(?:rank|default)[0-9]+\]: ?)+")  # torchrun's, before each line
_QUOTED = re.compile(r"Traceback \(most recent call last\):\\n")  # printed by repr or as JSON
_BOX_HEADER = re.compile(r"^[╭┌]─+ Traceback \(most recent call last\) ─+[╮┐]$")
_BOX_FRAME = re.compile(r"^(/[^\s:]+|[\w./-]+):([0-9]{1,9}) in (\S+)$")
_BOX_CODE = re.compile(r"^❱ *[0-9]+ ")
_BOX_LOCALS = re.compile(r" {2,}[╭│╰]")  # they stand beside the code


def cleaned(log: str) -> list[str]:
    """Return the lines of a log; those of ranks follow all others, each rank's together.

    The rank that failed first comes last: what the others say is mostly that it was gone.
    """
    common: list[str] = []
    ranks: dict[str, list[str]] = {}
    failed: list[str] = []
    for line in _short(log):
        mark = _RANK.match(line)
        if mark is None:
            common.append(line)
            continue
        rank, text = mark.group().replace(" ", ""), line[mark.end() :]
        ranks.setdefault(rank, []).append(text)
        if text.startswith("Traceback ") and rank not in failed:
            failed.append(rank)
    order = [rank for rank in ranks if rank not in failed] + failed[::-1]
    return _unboxed(common + [line for rank in order for line in ranks[rank]])


def split(text: str) -> list[str]:
    """Return the lines of a text, whichever way they end."""
    return _NEWLINE.split(text)


def _short(log: str) -> Iterator[str]:
    """Return the lines without what steers a terminal, the longest of them cut."""
    for raw in _NEWLINE.split(log):
        for line in _unquoted(raw):
            yield _TERMINAL.sub("", line[:MAX_LINE])


def _unquoted(line: str) -> list[str]:
    """Return a line as it was before a traceback in it was quoted."""
    if not _QUOTED.search(line):
        return [line]
    return line.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'").split("\n")


def _unboxed(lines: list[str]) -> list[str]:
    """Return the lines with tracebacks in boxes, as rich draws them, in Python's own form."""
    found: list[str] = []
    inside = False
    for line in lines:
        if _BOX_HEADER.match(line):
            inside = True
            found.append("Traceback (most recent call last):")
        elif inside and line.startswith(("╰", "└")):
            inside = False
        elif inside and line.startswith("│"):
            found += _content(line.strip("│ "))
        else:
            inside = False
            found.append(line)
    return found


def _content(text: str) -> list[str]:
    """Return what a line in a box says of a frame, in Python's own form."""
    if frame := _BOX_FRAME.match(text):
        path, number, function = frame.groups()
        return [f'  File "{path}", line {number}, in {function}']
    if mark := _BOX_CODE.match(text):
        code = text[mark.end() :].lstrip("│ ")
        return [f"    {_BOX_LOCALS.split(code, maxsplit=1)[0]}"]
    return []
