"""A search text that occurs as it stands, and a new text of a whole file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcscientist.authoring.edits.finding import elision
from hpcscientist.authoring.edits.markup import (
    ESCAPES,
    FENCES,
    TAGS,
    cleaned,
    fenced_block,
    is_diff,
    is_fence,
    is_fenced,
    is_patch,
    is_path,
    without,
)
from hpcscientist.authoring.edits.outcome import Changed, Refusal
from hpcscientist.authoring.edits.syntax import fault

_PROSE = (".md", ".rst", ".txt", ".html", ".xml", ".svg")  # files that may hold fences and tags
_FILE_TAG = re.compile(r"\s*<(?:file|code|content|file_content|new_content|document)[\s>]")
_WORD = re.compile(r"[A-Za-z0-9_]")


def find(text: str, search: str, new: str, python: bool) -> Changed | Refusal | None:
    """Return the changed text, why it is refused, or None if the search text does not occur.

    An occurrence that cuts a word, a number or the indentation in two is none: `lr = 0.1` is
    not found in `lr = 0.15`, nor in `min_lr = 0.1`.
    """
    starts = [at for at in _occurrences(text, search) if is_whole(text, at, at + len(search))]
    if not starts:
        return None
    lines = [text.count("\n", 0, at) + 1 for at in starts]
    if len(starts) > 1:
        told = ", ".join(map(str, lines[:6]))
        reason = f"the search text occurs more than once (lines {told}); add lines around it"
        near = [f"line {n}: {text.split(chr(10))[n - 1].rstrip()[:120]}" for n in lines[:3]]
        return Refusal(reason, tuple(dict.fromkeys(near)))
    full = _full(text, search, new)
    if isinstance(full, Refusal):
        return full
    at, end = starts[0], starts[0] + len(search)
    if python:
        result = _chosen(text, at, end, full)
    else:
        plain = is_fenced(full) and not is_fenced(search)
        result = text[:at] + (without(full, FENCES, True) if plain else full) + text[end:]
    if isinstance(result, Refusal):
        return result
    last = lines[0] + search.rstrip("\n").count("\n")
    return Changed(result, "exact", lines[0], last, () if full == new else ("elided lines",))


def whole_file(old: str | None, new: str, file: str, python: bool) -> Changed | Refusal:
    """Return a new text for a whole file, `old` being the present one."""
    text = new
    beside: tuple[str, ...] = ()
    if not file.endswith(_PROSE):
        text, beside = _bare(new, file, python)
    diff = is_diff(text) and fault(text) is not None if python else is_patch(text)
    if diff and not file.endswith((".diff", ".patch")):
        return Refusal("the new text is a diff; write the whole file, or search and replace")
    if old is not None and not file.endswith(_PROSE):
        lines, known = text.split("\n"), {line.strip() for line in old.split("\n")}
        marked = elision.markers(lines, known)
        if marked:
            full = _filled(lines, old.split("\n"), marked)
            if isinstance(full, Refusal):
                return full
            ending = "\n" * (len(old) - len(old.rstrip("\n")))
            text, beside = "\n".join(full).rstrip("\n") + ending, (*beside, "elided lines")
    last = 0 if old is None else old.count("\n") + (not old.endswith("\n"))
    return Changed(text, "whole file", 1, last, beside)


def _filled(new: list[str], old: list[str], marked: list[int]) -> list[str] | Refusal:
    """Return a whole file with the lines that it leaves out.

    It must begin and end as the old one does: what is before or after would be lost unsaid.
    """
    for step in (1, -1):
        first, other = (next((n for n in part[::step] if n.strip()), "") for part in (new, old))
        if first.rstrip() != other.rstrip() and not elision.is_marker(first):
            return Refusal(
                "the new text of the whole file leaves lines out, and it does not begin and end "
                "as the file does; write the whole file, or set search to the lines to change"
            )
    return elision.restored(new, old, marked)


def is_whole(text: str, at: int, end: int) -> bool:
    """Whether the text from `at` to `end` cuts no word, number or indentation in two."""
    if _cuts(text, at) or _cuts(text, end):
        return False
    line = text.rfind("\n", 0, at) + 1
    return not (line < at and text[at] in " \t" and not text[line:at].strip())


def _cuts(text: str, at: int) -> bool:
    before, after = text[max(0, at - 2) : at], text[at : at + 2]
    if not before or not after:
        return False
    if _WORD.fullmatch(before[-1]) and _WORD.fullmatch(after[0]):
        return True
    return bool(re.fullmatch(r".*\d\.\d", before[-1] + after)) or bool(
        re.fullmatch(r"\d\.\d", before + after[0])
    )


def _occurrences(text: str, search: str) -> Iterator[int]:
    at = text.find(search)
    while at >= 0:
        yield at
        at = text.find(search, at + 1)  # from the next character: overlaps count


def _full(text: str, search: str, new: str) -> str | Refusal:
    """Return the new text with the lines that it leaves out, as the search text has them."""
    lines, old = new.split("\n"), search.split("\n")
    marked = elision.markers(lines, {line.strip() for line in text.split("\n")})
    full = elision.restored(lines, old, marked) if marked else lines
    return full if isinstance(full, Refusal) else "\n".join(full)


def _chosen(text: str, at: int, end: int, new: str) -> str | Refusal:
    """Return the Python text with `new` put in as it stands, unless that breaks it alone."""
    literal = text[:at] + new + text[end:]
    if fault(text) is not None:
        return literal
    if not new:
        return _deleted(text, at, end)
    indented = _indented(text, at, end, new)
    if fault(literal) is None:
        if indented is None or fault(text[:at] + indented + text[end:]) is not None:
            return literal
        line = text.count("\n", 0, at) + 1
        return Refusal(
            f"the search text is line {line} without its indentation, so how the new lines are "
            "indented is not known; copy the indentation into both"
        )
    others = [indented] if indented is not None else []
    others += _mended(text, at, end, new)
    mended = (text[:at] + other + text[end:] for other in others)
    return next((result for result in mended if fault(result) is None), literal)


def _deleted(text: str, at: int, end: int) -> str:
    """Return the text without a part; where that is whole lines, without their line end."""
    line = text.rfind("\n", 0, at) + 1
    if not text[line:at].strip() and text[end : end + 1] == "\n" and text[end - 1] != "\n":
        return text[:line] + text[end + 1 :]
    return text[:at] + text[end:]


def _indented(text: str, at: int, end: int, new: str) -> str | None:
    """Return new lines with the indentation that the one line searched for was quoted without."""
    line = text.rfind("\n", 0, at) + 1
    indent = text[line:at]
    first, *rest = new.split("\n")
    if not indent or indent.strip() or "\n" in text[at:end].rstrip() or not "".join(rest).strip():
        return None
    return "\n".join([first, *(indent + line if line.strip() else line for line in rest)])


def _mended(text: str, at: int, end: int, new: str) -> Iterator[str]:
    """Yield the new text without what models add to it by oversight."""
    line = text.rfind("\n", 0, at) + 1
    indent = text[line:at]
    if indent and not indent.strip() and new.startswith(indent):
        yield new[len(indent) :]
    if text[at:end].endswith("\n") and new and not new.endswith("\n"):
        yield new + "\n"
    if "\t" in new and "\t" not in text:
        yield new.expandtabs(4)
    for _, plain, _ in cleaned("", new):
        yield plain
        yield plain.rstrip("\n")


def _bare(new: str, file: str, python: bool) -> tuple[str, tuple[str, ...]]:
    """Return a whole file without fences, line numbers and talk around them.

    Python is what compiles; what the text is that does not, other files do not tell.
    """
    if not python:
        return _bare_data(new, file)
    if fault(new) is None:
        return _told(new)
    plain = without(new, FENCES, True)
    plain = plain if plain == new else plain.rstrip("\n") + "\n"
    if fault(plain) is None:
        return plain, (FENCES,)
    block = fenced_block(new)
    if block is not None and fault(block) is None:
        return block, (FENCES,)
    for _, other, kinds in cleaned("", new):
        if fault(other) is None and not is_diff(new):
            return other.rstrip("\n") + "\n", kinds
    return plain, (FENCES,) if plain != new else ()


def _told(new: str) -> tuple[str, tuple[str, ...]]:
    """Return a text that compiles, without JSON's escapes if all of its code is behind these.

    A file on one line that begins with a comment is a comment to its end, and one in quotation
    marks a string.
    """
    line = new.strip()
    if "\n" not in line and "\\n" in line and line.startswith(("#", '"')):
        other = without(line, ESCAPES, True)
        if "\n" in other.strip() and fault(other) is None:
            return other.rstrip("\n") + "\n", (ESCAPES,)
    return new, ()


def _bare_data(new: str, file: str) -> tuple[str, tuple[str, ...]]:
    """Return a file of data without the fences or the tag around it."""
    if _FILE_TAG.match(new) and (plain := without(new, TAGS, True)) != new:
        return plain.rstrip("\n") + "\n", (TAGS,)
    lines = new.strip("\n").split("\n")
    if is_path(lines[0], file) and len(lines) > 1 and is_fence(lines[1]):
        lines = lines[1:]
    fences = [n for n, line in enumerate(lines) if is_fence(line) and line == line.lstrip()]
    if len(fences) == 2:
        return "\n".join([*lines[fences[0] + 1 : fences[1]], ""]), (FENCES,)
    plain = without(new, FENCES, True)
    return (new, ()) if plain == new else (plain.rstrip("\n") + "\n", (FENCES,))
