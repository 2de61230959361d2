"""Other ways in which models write an edit: blocks between conflict markers, calls of a tool.

They stand where a new text should, so they would become the file. What is read here are pairs of
a search text and a new one, as in any edit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hpcscientist.authoring.edits.markup import FENCES, is_fence, is_path, without
from hpcscientist.records.asked.replies import Edit

# Those of aider, Cline and Git, in capitals or not; models vary how many characters there are.
_BEGIN = re.compile(r"[ \t]*(?:<{5,9}(?:[ \t].*)?|-{5,9}[ \t]*SEARCH[ \t>]*)", re.IGNORECASE)
_MIDDLE = re.compile(r"[ \t]*={5,9}[ \t]*")
_END = re.compile(r"[ \t]*(?:>{5,9}(?:[ \t].*)?|\+{5,9}[ \t]*REPLACE[ \t>]*)", re.IGNORECASE)
_BASE = re.compile(r"[ \t]*\|{5,9}(?:[ \t].*)?")  # what both sides come from, by Git
_PLACE = re.compile(r"[ \t]*(?::(?:start|end)_line:.*|-{5,9})[ \t]*")  # by Roo, above the search

_SEARCH = ("search", "old_str", "old_string", "old_text", "old", "find")
_REPLACE = ("replace", "new_str", "new_string", "new_text", "new", "replacement")
_WHOLE = ("file_text", "content", "contents", "code")
_INNER = ("edits", "arguments", "input", "parameters")


@dataclass(frozen=True)
class Block:
    """Lines of the file and those that replace them; `sure`: the markers say which is which."""

    search: tuple[str, ...]
    new: tuple[str, ...]
    sure: bool


@dataclass(frozen=True)
class Blocks:
    """The blocks of a text in order, and the text's other lines before, between and after them."""

    blocks: tuple[Block, ...]
    around: tuple[tuple[str, ...], ...]

    def other(self, file: str) -> list[str]:
        """Return the other lines but for what goes with blocks: fences, the name of the file."""
        lines = (line.strip() for part in self.around for line in part)
        return [line for line in lines if line and not is_fence(line) and not is_path(line, file)]

    def resolved(self, old: str) -> str | None:
        """Return the text with what is new in place of each block; None if that is not known.

        Of sides that a version control names, the one that the old file lacks is new.
        """
        lines = list(self.around[0])
        for block, after in zip(self.blocks, self.around[1:], strict=True):
            ours, theirs = ("\n".join(side).strip() in old for side in (block.search, block.new))
            if not block.sure and ours == theirs:
                return None
            lines += [*(block.new if block.sure or ours else block.search), *after]
        return "\n".join(lines)


def find(edit: Edit, old: str) -> Blocks | None:
    """Return the blocks that an edit holds; None where it holds none, or the old file does too."""
    if is_marked(old):
        return None
    text = edit.replace
    if edit.search is not None and _has(_BEGIN, edit.search):
        text = edit.search
        if not _has(_END, text):  # half of it is in the new text
            middle = "" if _has(_MIDDLE, f"{text}\n{edit.replace}") else "=======\n"
            end = "" if _has(_END, edit.replace) else "\n>>>>>>> REPLACE"
            text = f"{text.rstrip()}\n{middle}{edit.replace}{end}"
    return _read(text.split("\n"), old) if _has(_BEGIN, text) else None


def is_marked(text: str) -> bool:
    """Whether conflict markers stand in a text, each on a line of its own, or the first alone."""
    return _has(_BEGIN, text) or (_has(_MIDDLE, text) and _has(_END, text))


def calls(text: str) -> list[tuple[str | None, str]] | None:
    """Return the edits of a call of a tool, as JSON; a search text of None: the whole file."""
    plain = without(text, FENCES, True).strip()
    if not plain.startswith(("{", "[")):
        return None
    try:
        found = list(_edits(json.loads(plain, strict=False)))
    except (ValueError, RecursionError):
        return None
    return found or None


def _edits(value: Any) -> Iterator[tuple[str | None, str]]:
    if isinstance(value, list):
        for one in value:
            yield from _edits(one)
    elif isinstance(value, dict):
        search, new, whole, inner = (
            next((value[key] for key in keys if key in value), None)
            for keys in (_SEARCH, _REPLACE, _WHOLE, _INNER)
        )
        if isinstance(search, str) and isinstance(new, str):
            yield search, new
        elif search is None and isinstance(text := new if whole is None else whole, str):
            yield None, text
        else:
            yield from _edits(inner)


def _has(marker: re.Pattern[str], text: str) -> bool:
    return any(marker.fullmatch(line) for line in text.split("\n"))


def _read(lines: Sequence[str], old: str) -> Blocks | None:
    blocks: list[Block] = []
    around: list[list[str]] = [[]]
    begin: int | None = None
    for number, line in enumerate(lines):
        if begin is None and _BEGIN.fullmatch(line):
            begin = number
        elif begin is not None and _END.fullmatch(line):
            block = _block(lines[begin], lines[begin + 1 : number], old)
            if block is None:
                return None
            blocks.append(block)
            around.append([])
            begin = None
        elif begin is None:
            around[-1].append(line)
    if begin is not None or not blocks:
        return None
    return Blocks(tuple(blocks), tuple(map(tuple, around)))


def _block(head: str, lines: Sequence[str], old: str) -> Block | None:
    """Read what is between the first and the last marker; None where none parts it.

    A heading may be underlined like the marker in the middle: as much as stands in the file is
    searched.
    """
    parts = [n for n, line in enumerate(lines) if _MIDDLE.fullmatch(line)]
    if not parts:
        return None
    bases = [n for n, line in enumerate(lines) if _BASE.fullmatch(line)]
    known = [n for n in parts if "\n".join(lines[:n]).strip() in old and any(lines[:n])]
    middle = known[-1] if known else parts[0]
    search = lines[: bases[0] if bases and bases[0] < middle else middle]
    while search and _PLACE.fullmatch(search[0]):
        search = search[1:]
    named = re.search(r"search|original|old|before", head, re.IGNORECASE)
    new = lines[middle + 1 :] if any(map(str.strip, lines[middle + 1 :])) else ()
    return Block(tuple(search), tuple(new), sure=named is not None)
