"""What models paste around code, or escape in it: it is undone if the rest is code then.

Fences, tags, line numbers, diff markers; one level of JSON or HTML escapes too many, or of JSON
escapes too few; typographic characters.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from hpcscientist.authoring.edits.lexing import tokens
from hpcscientist.records.authoring import Edit

_FENCE = re.compile(r"\s*(?:```+|~~~+)[^`]*")
_TAG = re.compile(r"<(?P<name>[A-Za-z_][\w.:-]*)(?:\s[^<>]*)?>")
# A file as a shell's heredoc or a notebook's cell writes it.
_WRITTEN = re.compile(
    r"(?:\$ )?(?:cat|tee)\b[^\n]*?<<-?[ \t]*(?P<q>['\"]?)(?P<end>\w+)(?P=q)[^\n]*"
    r"|%%(?:writefile|file)\b[^\n]*"
)
_APPENDS = re.compile(r">>|\s-a\b")
_ABOUT = re.compile(r"\s*<(path|file|filename|file_path|name|language)>[^<>\n]*</\1>[ \t]*\n?")
_CDATA = re.compile(r"\s*<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#\d{2,4}|#x[0-9a-f]{2,4});", re.IGNORECASE)
_ESCAPE = re.compile(r"\\([ntr\"'\\/])")
_MEANT = {"n": "\n", "t": "\t", "r": ""}
_GLYPHS = str.maketrans(
    {"“": '"', "”": '"', "‘": "'", "’": "'", "\u00a0": " ", "\u200b": None, "\ufeff": None}
)
_HALF_CLOSED = re.compile(r'^([ \t]*"""[^"\n]+)""$', re.MULTILINE)
_NUMBER = re.compile(r"\s*(?:line |L)?(\d+)(?:\s*[:|│→]|\t)(.*)")
_DIFF_HEAD = re.compile(r"(?:@@ .*|--- \S.*|\+\+\+ \S.*|diff --git .*|index [0-9a-f]+\.\..*)")

FENCES, NUMBERS, MARKERS, TAGS = "fences", "line numbers", "diff markers", "tags"
ESCAPES, QUOTES, ENTITIES = "JSON escapes", "escaped quotes", "HTML escapes"
COMMAND = "a shell's command"
BREAKS, GLYPHS, DOCSTRINGS = "line breaks in strings", "typography", "docstrings left open"
_KINDS = (
    *((FENCES,), (NUMBERS,), (MARKERS,), (FENCES, NUMBERS), (FENCES, MARKERS)),
    *((TAGS,), (TAGS, FENCES), (FENCES, TAGS)),
    (ENTITIES,),
    *(
        (ESCAPES,),
        (ESCAPES, FENCES),
        (ESCAPES, TAGS),
        (QUOTES,),
        (BREAKS,),
        (GLYPHS,),
        (DOCSTRINGS,),
    ),
)


def cleaned(search: str, new: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield an edit's texts without what was pasted around them, and the kinds of that."""
    seen = [(search, new)]
    for kinds in _KINDS:
        ours, theirs = search, new
        for kind in kinds:
            ours, theirs = without(ours, kind, False), without(theirs, kind, True)
        # The search text may be clean although the new one is not, and the other way round.
        for pair in ((ours, theirs), (search, theirs), (ours, new)):
            if pair not in seen:
                seen.append(pair)
                yield (*pair, kinds)


def without(text: str, kind: str, new: bool) -> str:
    """Return a text without one kind of markup, or unchanged; `new` takes a diff's new side."""
    if kind in _OF_TEXTS:
        return _OF_TEXTS[kind](text)
    lines = text.split("\n")
    if kind == FENCES:
        plain = _unfenced(lines)
    elif kind == NUMBERS:
        plain = _unnumbered(lines)
    else:
        plain = _undiffed(lines, new)
    return text if plain is None else "\n".join(plain)


def is_fence(line: str) -> bool:
    """Return whether a line opens or closes a fence."""
    return _FENCE.fullmatch(line) is not None


def is_fenced(text: str) -> bool:
    """Return whether a text begins and ends with a fence."""
    lines = text.strip().split("\n")
    return len(lines) > 1 and is_fence(lines[0]) and is_fence(lines[-1])


def is_path(line: str, file: str) -> bool:
    """Return whether a line holds only the name of a file, as a heading of its code."""
    said = line.strip(" \t#*`:>_=-").removeprefix("File").removeprefix("file").strip(" :`*")
    return bool(said) and (said == file or PurePosixPath(said).name == PurePosixPath(file).name)


def fenced_block(text: str) -> str | None:
    """Return the text between the first fence and the last; None without two.

    Code may hold fences itself, in its strings.
    """
    lines = text.split("\n")
    fences = [number for number, line in enumerate(lines) if is_fence(line)]
    if len(fences) < 2:
        return None
    return "\n".join([*lines[fences[0] + 1 : fences[-1]], ""])


def fenced_parts(text: str) -> list[str]:
    """Return the texts between the first fence and the second, the third and the fourth, …"""
    lines = text.split("\n")
    fences = [number for number, line in enumerate(lines) if is_fence(line)]
    pairs = zip(fences[::2], fences[1::2], strict=False)
    return ["\n".join([*lines[begin + 1 : end], ""]) for begin, end in pairs]


def without_command(text: str, file: str) -> str:
    """Return a file's text without the command that writes it, such as `cat > a.py <<'EOF'`.

    `cat > a.py` compiles as Python, so it would stay in the file. A command that appends to the
    file stays, and so does one with another after it: these do not write all of the file.
    """
    for plain in (text, without(text, FENCES, True)):
        command, _, inside = plain.lstrip().partition("\n")
        found = _WRITTEN.fullmatch(command)
        if found is None or _APPENDS.search(command):
            continue
        if PurePosixPath(file).name not in re.findall(r"[\w.-]+", command):
            continue
        if found["end"] is None:
            return inside
        *lines, last = inside.rstrip().split("\n")
        if last == found["end"] and last not in lines:
            return "\n".join([*lines, ""])
    return text


def has_entities(text: str) -> bool:
    """Return whether Python code holds HTML escapes outside its strings and comments.

    `x = a &lt; b` is valid Python, but never what is meant.
    """
    return "&" in text and any(
        token.kind == "operator" and token.text == "&" and _ENTITY.match(text, token.start)
        for token in tokens(text)
    )


def _untagged(text: str) -> str:
    """Return what is within a tag around the whole text, such as `<file path="a.py">`."""
    plain = text.strip()
    for _ in range(4):
        tag, cdata = _TAG.match(plain), _CDATA.fullmatch(plain)
        if cdata is not None:
            plain = cdata[1]
        elif tag is not None and plain.rstrip().endswith(f"</{tag['name']}>"):
            plain = plain.rstrip()[tag.end() : -len(tag["name"]) - 3]
        else:
            break
        while about := _ABOUT.match(plain):
            plain = plain[about.end() :]
        plain = plain.strip("\r\n") if plain.strip().startswith("<") else plain
    else:
        return text
    return text if plain == text.strip() else plain.strip("\r\n") + "\n" * text.endswith("\n")


def _unescaped(text: str) -> str:
    """Return a text without one level of JSON escapes."""
    if re.fullmatch(r'\s*"(?:[^"\\\n]|\\.)*"\s*', text):
        try:
            return str(json.loads(text))
        except ValueError:
            return text
    return _ESCAPE.sub(lambda match: _MEANT.get(match[1], match[1]), text)


def _unquoted(text: str) -> str:
    """Return a text with its escaped quotes unescaped."""
    return text.replace('\\"', '"').replace("\\'", "'")


def _rejoined(text: str) -> str:
    """Return a text with `\\n` in place of line breaks in strings, which cannot hold them."""
    for _ in range(_BROKEN):
        quote = next(
            (t for t in tokens(text) if t.kind == "operator" and t.text in ('"', "'")), None
        )
        end = text.find(quote.text, quote.end) if quote is not None else -1
        if quote is None or "\n" not in text[quote.end : end]:
            return text
        inside = text[quote.end : end].replace("\n", "\\n")
        text = text[: quote.end] + inside + text[end:]
    return text


def _closed(text: str) -> str:
    """Return a text in which docstrings of one line end with as many quotes as they begin with.

    Small models drop one of three quotes that are escaped in JSON.
    """
    return _HALF_CLOSED.sub(r'\1"""', text)


_BROKEN = 20  # strings of a text that are fixed; each costs another pass over all of it
_OF_TEXTS: dict[str, Callable[[str], str]] = {
    TAGS: _untagged,
    ESCAPES: _unescaped,
    QUOTES: _unquoted,
    ENTITIES: html.unescape,
    BREAKS: _rejoined,
    DOCSTRINGS: _closed,
    GLYPHS: lambda text: text.translate(_GLYPHS),
}


def is_patch(text: str) -> bool:
    """Return whether a text begins like a patch, whatever the files hold."""
    head = r"\*\*\* Begin Patch|diff --git |--- \S.*\n\+\+\+ \S.*\n@@ "
    return re.match(head, text.lstrip()) is not None


def is_diff(text: str) -> bool:
    """Return whether a text is a diff rather than a file."""
    if is_patch(text):
        return True
    lines = text.strip().split("\n")
    return any(line.startswith("@@ ") for line in lines) or (
        any(line.startswith("+") for line in lines) and all(_marked(line) for line in lines)
    )


def _unfenced(lines: list[str]) -> list[str] | None:
    """Return the lines within fences; one may be missing, or the last at the end of a line."""
    filled = [number for number, line in enumerate(lines) if line.strip()]
    if not filled:
        return None
    first, last = filled[0], filled[-1]
    opened, closed = (bool(_FENCE.fullmatch(lines[n])) for n in (first, last))
    if opened and first < last and lines[last].rstrip().endswith("```"):
        ending = lines[last].rstrip().removesuffix("```")
        lines, closed = [*lines[:last], ending, *lines[last + 1 :]], not ending.strip(" `")
    if not (opened or closed) or first == last:
        return None
    return [*lines[first + opened : last + 1 - closed], *lines[last + 1 :]]


def _unnumbered(lines: list[str]) -> list[str] | None:
    """Return the lines without their numbers, which must go up by one from line to line."""
    found: list[str] = []
    before: int | None = None
    for line in lines:
        match = _NUMBER.fullmatch(line)
        if match is None:
            if line.strip():
                return None
            found.append("")
            before = before + 1 if before is not None else None
            continue
        number = int(match[1])
        if before is not None and number not in (before + 1, before):
            return None
        before = number
        found.append(match[2])
    if before is None:
        return None
    spaced = all(line.startswith(" ") for line in found if line.strip())
    return [line[1:] if spaced else line for line in found]


def _marked(line: str) -> bool:
    return not line or line[0] in "+- " or bool(_DIFF_HEAD.fullmatch(line))


def _undiffed(lines: list[str], new: bool) -> list[str] | None:
    """Return one side of a diff."""
    body = [line for line in lines if not _DIFF_HEAD.fullmatch(line)]
    if not any(line[:1] in ("+", "-") for line in body):
        return None
    rest = [line for line in body if line.strip() and line[0] not in "+-"]
    spaced = bool(rest) and all(line.startswith(" ") for line in rest)
    # A diff indents context by a column; models often do not.
    odd = spaced and (len(rest[0]) - len(rest[0].lstrip())) % 2 == 1
    found = []
    for line in body:
        if line[:1] == ("-" if new else "+"):
            continue
        marked = line[:1] in ("+", "-")
        found.append(line[1:] if marked or (odd and line.startswith(" ")) else line)
    return found


# Other notations of an edit: blocks between conflict markers, and tool calls.
#
# Models write them where a new text should be, so they would become the file. They are read as
# pairs of a search text and a new one, as in any edit.

# Those of aider, Cline and Git, in capitals or not; models vary how many characters there are.
_BEGIN = re.compile(r"[ \t]*(?:<{5,9}(?:[ \t].*)?|-{5,9}[ \t]*SEARCH[ \t>]*)", re.IGNORECASE)
_MIDDLE = re.compile(r"[ \t]*={5,9}[ \t]*")
_END = re.compile(r"[ \t]*(?:>{5,9}(?:[ \t].*)?|\+{5,9}[ \t]*REPLACE[ \t>]*)", re.IGNORECASE)
_BASE = re.compile(r"[ \t]*\|{5,9}(?:[ \t].*)?")  # Git's common ancestor of both sides
_PLACE = re.compile(r"[ \t]*(?::(?:start|end)_line:.*|-{5,9})[ \t]*")  # by Roo, above the search

_SEARCH = ("search", "old_str", "old_string", "old_text", "old", "find")
_REPLACE = ("replace", "new_str", "new_string", "new_text", "new", "replacement")
_WHOLE = ("file_text", "content", "contents", "code")
_INNER = ("edits", "arguments", "input", "parameters")


@dataclass(frozen=True)
class EditBlock:
    """Lines of the file and those that replace them; `sure`: the markers say which is which."""

    search: tuple[str, ...]
    new: tuple[str, ...]
    sure: bool


@dataclass(frozen=True)
class Blocks:
    """The blocks of a text in order, and the text's other lines before, between and after them."""

    blocks: tuple[EditBlock, ...]
    around: tuple[tuple[str, ...], ...]

    def other(self, file: str) -> list[str]:
        """Return the other lines except what goes with blocks: fences, the name of the file."""
        lines = (line.strip() for part in self.around for line in part)
        return [line for line in lines if line and not is_fence(line) and not is_path(line, file)]

    def resolved(self, old: str) -> str | None:
        """Return the text with each block replaced by its new side; None if that is not known.

        Of the two sides of a version-control conflict, the one that the old file lacks is new.
        """
        lines = list(self.around[0])
        for block, after in zip(self.blocks, self.around[1:], strict=True):
            ours, theirs = ("\n".join(side).strip() in old for side in (block.search, block.new))
            if not block.sure and ours == theirs:
                return None
            lines += [*(block.new if block.sure or ours else block.search), *after]
        return "\n".join(lines)


def find(edit: Edit, old: str) -> Blocks | None:
    """Return the blocks that an edit holds; None if it holds none, or the old file has some too."""
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
    """Return whether a text has conflict markers on lines of their own: a first, or two others."""
    return _has(_BEGIN, text) or (_has(_MIDDLE, text) and _has(_END, text))


def calls(text: str) -> list[tuple[str | None, str]] | None:
    """Return the edits of a tool call in JSON; a search text of None means the whole file."""
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
    blocks: list[EditBlock] = []
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


def _block(head: str, lines: Sequence[str], old: str) -> EditBlock | None:
    """Return the block between a first and a last marker; None without a middle marker.

    A heading may be underlined like the middle marker, so the search text is the longest one that
    the file holds.
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
    return EditBlock(tuple(search), tuple(new), sure=named is not None)
