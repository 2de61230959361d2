"""Where the lines of a search text occur in a file, at one level of tolerance.

Each level accepts what the one before accepts, and more: other white space at the ends of lines;
other indentation; blank lines that only one of the two holds. Exact search, markers of omitted
lines, and new texts of whole files are here too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import PurePosixPath

from hpcscientist.authoring.edits.lexing import fault, indent_of, width
from hpcscientist.authoring.edits.markup import (
    COMMAND,
    ESCAPES,
    FENCES,
    TAGS,
    cleaned,
    fenced_block,
    fenced_parts,
    is_diff,
    is_fence,
    is_fenced,
    is_patch,
    is_path,
    without,
    without_command,
)
from hpcscientist.authoring.edits.outcome import Changed, Matched, Refusal

LEVELS: tuple[Matched, ...] = ("white space", "indentation", "blank lines")
_MANY = 50  # places beyond which no more are looked for
_TRIED = 20_000  # combinations of places for the lines before and after elided ones

_Counted = Sequence[tuple[int, str]]  # the number of a line, from 0, and what is compared of it


@dataclass(frozen=True)
class LineMatch:
    """A match: each line of the search text that counts, with its line of the file (from 0)."""

    pairs: tuple[tuple[int, int], ...]

    @property
    def first(self) -> int:
        """The first line of the file, from 0."""
        return self.pairs[0][1]

    @property
    def last(self) -> int:
        """The last line of the file, from 0."""
        return self.pairs[-1][1]


def places(
    search: Sequence[str], marked: Sequence[int], file: Sequence[str], level: Matched
) -> list[LineMatch]:
    """Return the places, at most 50; `marked` lines of the search text stand for others.

    Elided lines must lie in the block of their neighbours: none of them is indented less.
    """
    parts = _parts(_counted(search, level), marked)
    theirs = _counted(file, level)
    if not all(parts):
        return []
    spots = [_spots(part, theirs) for part in parts]
    tried = prod(map(len, spots))
    if not tried or (len(parts) > 1 and tried > _TRIED):
        return []  # lines that repeat so often identify no place
    found: list[LineMatch] = []
    for starts in _starts(parts, spots, theirs, file):
        pairs = [
            (ours[0], other[0])
            for part, start in zip(parts, starts, strict=True)
            for ours, other in zip(part, theirs[start : start + len(part)], strict=True)
        ]
        found.append(LineMatch(tuple(pairs)))
        if len(found) == _MANY:
            break
    return found


def _counted(lines: Sequence[str], level: Matched) -> _Counted:
    if level == "white space":
        return [(number, line.rstrip()) for number, line in enumerate(lines)]
    found = [(number, line.strip()) for number, line in enumerate(lines)]
    return [line for line in found if line[1]] if level == "blank lines" else found


def _parts(search: _Counted, marked: Sequence[int]) -> list[list[tuple[int, str]]]:
    """Return the lines between markers."""
    parts: list[list[tuple[int, str]]] = [[]]
    for line in search:
        if line[0] in marked:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _spots(part: _Counted, file: _Counted) -> list[int]:
    """Return where in the file a part occurs."""
    wanted, there = [text for _, text in part], [text for _, text in file]
    return [
        start
        for start in range(len(there) - len(wanted) + 1)
        if there[start : start + len(wanted)] == wanted
    ]


def _starts(
    parts: Sequence[_Counted],
    spots: Sequence[Sequence[int]],
    counted: _Counted,
    file: Sequence[str],
    begin: int = 0,
) -> Iterator[tuple[int, ...]]:
    for start in spots[0]:
        end = start + len(parts[0])
        if start < begin:
            continue
        if len(parts) == 1:
            yield (start,)
            continue
        for rest in _starts(parts[1:], spots[1:], counted, file, end):
            if _within(file, counted[end - 1][0], counted[rest[0]][0]):
                yield (start, *rest)


def _within(file: Sequence[str], before: int, after: int) -> bool:
    """Return whether the lines between two lines of the file are in the same block as these."""
    between = [width(indent_of(line)) for line in file[before + 1 : after] if line.strip()]
    if not between:
        return True
    head, tail = (width(indent_of(file[number])) for number in (before, after))
    opens = file[before].split("#")[0].rstrip().endswith((":", "(", "[", "{"))
    return min(between) > head if opens else min(between) >= min(head, tail)


# Markers: lines that stand for elided ones: `...`, `# ... existing code ...`, `# rest unchanged`.

_DOTS = re.compile(r"\.{3,}|…")
_WHAT = (
    r"(?:code|lines?|methods?|functions?|imports?|body|logic|implementation|contents?|layers?"
    r"|class|file|loop|block|steps?|parts?|stuff|definitions?|args|arguments|config|settings)"
)
_PHRASE = re.compile(
    rf"(?:the )?(?:rest|remainder)(?: (?:of|is|are|remains?|stays?|as|unchanged|here)\b.*)?"
    rf"|(?:the |all )?(?:existing|previous|original|remaining|other|unchanged|same|above) "
    rf"(?:\w+ )?{_WHAT}\b.*"
    rf"|(?:unchanged|no changes?|same as (?:before|above|original)|as before|snip(?:ped)?"
    rf"|omitted|elided|truncated)\b.*"
    rf"|(?:\w+ )*{_WHAT} (?:\w+ )*(?:unchanged|(?:the )?same|omitted|elided|as before)\b.*",
    re.IGNORECASE,
)
_HINT = re.compile(
    rf"\b(?:rest|remaind\w+|remaining|existing|unchanged|same|previous|other|omitted|before|elided"
    rf"|original|snip|etc|continue[sd]?|keep|and so on|more|skip\w*|{_WHAT})\b",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"\s*(?:#+|//+)\s?(.*)")


def is_marker(line: str) -> bool:
    """Return whether a line says that lines are left out."""
    comment = _COMMENT.fullmatch(line)
    text = (comment[1] if comment else line).strip()
    body = _DOTS.sub(" ", text).strip(" -=*<>[]()#:;,.")
    body = " ".join(body.split())
    edge = _DOTS.match(text.lstrip("[(<")) or text.rstrip("])>").endswith(("...", "…"))
    if edge:
        return not body or bool(_HINT.search(body) if comment else _PHRASE.fullmatch(body))
    return comment is not None and bool(_PHRASE.fullmatch(body))


def markers(lines: Sequence[str], known: Collection[str]) -> list[int]:
    """Return the numbers of marker lines; a line that the file itself holds (`known`) is none."""
    return [
        number for number, line in enumerate(lines) if is_marker(line) and line.strip() not in known
    ]


def restored(new: Sequence[str], old: Sequence[str], marked: Sequence[int]) -> list[str] | Refusal:
    """Return the new lines with each marker replaced by the old lines that it stands for.

    They lie between the lines before and after the marker, each of which must occur once in the
    old text. If there is no line before, they begin with the old text; if none after, they go to
    its end.
    """
    new, marked = tight(new, marked)
    found: list[str] = []
    position = start = 0
    for at in marked:
        before, after = _beside(new, at, -1), _beside(new, at, 1)
        first = start if before is None else _place(old, before, start)
        last = len(old) if after is None else _place(old, after, first or 0)
        if first is None or last is None or is_either(before, after, marked, new):
            return Refusal(
                f"the new text leaves lines out ({new[at].strip()[:60]!r}), and which ones cannot "
                "be told; write them out, or change less of the file at once"
            )
        first += before is not None
        if first > last:
            return Refusal("the new text leaves lines out, and has the others in another order")
        found += [*new[position:at], *old[first:last]]
        position, start = at + 1, last
    return [*found, *new[position:]]


def is_either(
    before: str | None, after: str | None, marked: Sequence[int], new: Sequence[str]
) -> bool:
    """Return whether a line beside a marker is a marker itself."""
    told = {new[at] for at in marked}
    return before in told or after in told


def _beside(lines: Sequence[str], at: int, step: int) -> str | None:
    number = at + step
    while 0 <= number < len(lines):
        if lines[number].strip():
            return lines[number]
        number += step
    return None


def _place(lines: Sequence[str], line: str, start: int) -> int | None:
    """Return the number of a line that occurs only once, and not before `start`; else None."""
    places = [n for n, other in enumerate(lines) if other.rstrip() == line.rstrip()]
    return places[0] if len(places) == 1 and places[0] >= start else None


def tight(lines: Sequence[str], marked: Sequence[int]) -> tuple[list[str], list[int]]:
    """Return the lines without blank ones beside markers, and the markers' new numbers."""
    told = set(marked)
    kept: list[str] = []
    places: list[int] = []
    for number, line in enumerate(lines):
        blank = not line.strip()
        filled = [n for n in range(number + 1, len(lines)) if lines[n].strip()]
        if blank and ((filled and filled[0] in told) or (places and places[-1] == len(kept) - 1)):
            continue
        if number in told:
            places.append(len(kept))
        kept.append(line)
    return kept, places


# Search texts that occur exactly, and new texts of whole files.

_PROSE = (".md", ".rst", ".txt", ".html", ".xml", ".svg")  # files that may hold fences and tags
# Fences that say that a file of this ending is within them.
_AS_PROSE = {
    ending: re.compile(rf"\s*(?:```+|~~~+)\s*(?:{names})\b", re.IGNORECASE)
    for ending, names in ((".md", "markdown|md"), (".rst", "rst|rest"), (".txt", "text|txt"))
}
_FILE_TAG = re.compile(r"\s*<(?:file|code|content|file_content|new_content|document)[\s>]")
_WORD = re.compile(r"[A-Za-z0-9_]")


def find(text: str, search: str, new: str, python: bool) -> Changed | Refusal | None:
    """Return the changed text, why it is refused, or None if the search text does not occur.

    An occurrence that cuts a word, a number or the indentation in two does not count: `lr = 0.1`
    is not found in `lr = 0.15`, nor in `min_lr = 0.1`.
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
    """Return a new text for a whole file; `old` is the current one."""
    text = new
    beside: tuple[str, ...] = ()
    if not file.endswith(_PROSE):
        bare = without_command(new, file)
        text, beside = _bare(bare, file, python)
        beside = beside if bare == new else (*beside, COMMAND)
    elif (said := _AS_PROSE.get(PurePosixPath(file).suffix)) and said.match(new):
        text = _unwrapped(new)
        beside = (FENCES,) if text != new else ()
    diff = is_diff(text) and fault(text) is not None if python else is_patch(text)
    if diff and not file.endswith((".diff", ".patch")):
        return Refusal("the new text is a diff; write the whole file, or search and replace")
    if old is not None and not file.endswith(_PROSE):
        lines, known = text.split("\n"), {line.strip() for line in old.split("\n")}
        marked = markers(lines, known)
        if marked:
            full = _filled(lines, old.split("\n"), marked)
            if isinstance(full, Refusal):
                return full
            ending = "\n" * (len(old) - len(old.rstrip("\n")))
            text, beside = "\n".join(full).rstrip("\n") + ending, (*beside, "elided lines")
    last = 0 if old is None else old.count("\n") + (not old.endswith("\n"))
    return Changed(text, "whole file", 1, last, beside)


def _unwrapped(new: str) -> str:
    """Return a text without the fences around all of it, or unchanged if the first ends earlier."""
    inside = new.strip().split("\n")[1:-1]
    first = next((line.strip() for line in inside if is_fence(line)), "opens")
    if not is_fenced(new) or not first.strip("`~"):
        return new
    return without(new, FENCES, True).rstrip("\n") + "\n"


def _filled(new: list[str], old: list[str], marked: list[int]) -> list[str] | Refusal:
    """Return a new whole file with its elided lines restored.

    It must begin and end as the old one does; else lines before or after would be lost silently.
    """
    for step in (1, -1):
        first, other = (next((n for n in part[::step] if n.strip()), "") for part in (new, old))
        if first.rstrip() != other.rstrip() and not is_marker(first):
            return Refusal(
                "the new text of the whole file leaves lines out, and it does not begin and end "
                "as the file does; write the whole file, or set search to the lines to change"
            )
    return restored(new, old, marked)


def is_whole(text: str, at: int, end: int) -> bool:
    """Return whether the text from `at` to `end` cuts no word, number or indentation in two."""
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
    """Return the new text with its elided lines, taken from the search text."""
    lines, old = new.split("\n"), search.split("\n")
    marked = markers(lines, {line.strip() for line in text.split("\n")})
    full = restored(lines, old, marked) if marked else lines
    return full if isinstance(full, Refusal) else "\n".join(full)


def _chosen(text: str, at: int, end: int, new: str) -> str | Refusal:
    """Return the Python text with `new` put in, changed only if `new` as it stands breaks it."""
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
    others += _fixed(text, at, end, new)
    fixed = (text[:at] + other + text[end:] for other in others)
    return next((result for result in fixed if fault(result) is None), literal)


def _deleted(text: str, at: int, end: int) -> str:
    """Return the text without a part; whole lines go with their line end."""
    line = text.rfind("\n", 0, at) + 1
    if not text[line:at].strip() and text[end : end + 1] == "\n" and text[end - 1] != "\n":
        return text[:line] + text[end + 1 :]
    return text[:at] + text[end:]


def _indented(text: str, at: int, end: int, new: str) -> str | None:
    """Return the new lines with the indentation that the single searched line was quoted without.

    None if that is not the case.
    """
    line = text.rfind("\n", 0, at) + 1
    indent = text[line:at]
    first, *rest = new.split("\n")
    if not indent or indent.strip() or "\n" in text[at:end].rstrip() or not "".join(rest).strip():
        return None
    return "\n".join([first, *(indent + line if line.strip() else line for line in rest)])


def _fixed(text: str, at: int, end: int, new: str) -> Iterator[str]:
    """Yield the new text without what models add to it by mistake."""
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

    Of Python, the version that compiles is taken; other files offer no such test.
    """
    if not python:
        return _bare_data(new, file)
    if fault(new) is None:
        return _told(new)
    plain = without(new, FENCES, True)
    plain = plain if plain == new else plain.rstrip("\n") + "\n"
    if fault(plain) is None:
        return plain, (FENCES,)
    block = _fenced(new)
    if block is not None:
        return block, (FENCES,)
    for _, other, kinds in cleaned("", new):
        if fault(other) is None and not is_diff(new):
            return other.rstrip("\n") + "\n", kinds
    return plain, (FENCES,) if plain != new else ()


def _fenced(new: str) -> str | None:
    """Return the text within fences that compiles; None if there is none, or several.

    Other fences show how to run it, or what it prints. It must be most of the text: a file that
    does not compile may show how to call it in fences of its own.
    """
    block = fenced_block(new)
    if block is not None and fault(block) is None:
        return block
    parts = [part for part in fenced_parts(new) if fault(part) is None]
    return parts[0] if len(parts) == 1 and 2 * len(parts[0]) > len(new) else None


def _told(new: str) -> tuple[str, tuple[str, ...]]:
    """Return a text that compiles, without JSON escapes if these hide all of its code.

    Such a file is one line: all of it is a comment if it begins with one, or a string if it is in
    quotation marks.
    """
    line = new.strip()
    if "\n" not in line and "\\n" in line and line.startswith(("#", '"')):
        other = without(line, ESCAPES, True)
        if "\n" in other.strip() and fault(other) is None:
            return other.rstrip("\n") + "\n", (ESCAPES,)
    return new, ()


def _bare_data(new: str, file: str) -> tuple[str, tuple[str, ...]]:
    """Return a data file without the fences or the tag around it."""
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
