"""Application of a reply's edits to files: in order, all or none."""

from __future__ import annotations

import difflib
import html
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from hpcscientist.authoring.edits import by_lines, markup, matching
from hpcscientist.authoring.edits.lexing import fault, is_python
from hpcscientist.authoring.edits.markup import has_entities
from hpcscientist.authoring.edits.matching import is_marker
from hpcscientist.authoring.edits.outcome import Applied, Changed, EditError, Note, Refusal
from hpcscientist.authoring.edits.units import apply_unit, without_idle_imports
from hpcscientist.records.authoring import Edit, UnitEdit

# Why a search text was not found: the most similar lines, and the first that differs.

_CLOSE = 0.5  # below this similarity (0 to 1) a line is no hint
_LINE = 120
_SHOWN = 8


def not_found(text: str, search: str, new: str) -> tuple[str, tuple[str, ...]]:
    """Return in one line why a search text was not found, and the most similar lines."""
    lines = text.split("\n")
    filled = [line for line in search.split("\n") if line.strip()]
    wanted = [line for line in filled if not is_marker(line)] or filled or [""]
    present = {line.strip() for line in lines}
    missing = next((line for line in wanted if line.strip() not in present), None)
    reason = "the search text does not occur: "
    if missing is None:
        reason += "its lines do, but not in a row or not with this white space"
        near = _window(lines, wanted)
    else:
        reason += f"no line reads {missing.strip()[:_LINE]!r}"
        near = _window(lines, wanted) if len(wanted) > 1 else ()
        best = _nearest(lines, missing, near)
        if best is not None:
            reason += f"; the nearest, line {best + 1}, reads {lines[best].strip()[:_LINE]!r}"
            near = near or (best,)
    if new.strip() and new.strip() in text:
        at = text.count("\n", 0, text.index(new.strip())) + 1
        reason += f" (the new text stands at line {at} already)"
    return reason, tuple(f"line {n + 1}: {lines[n].rstrip()[:_LINE]}" for n in near)


def _nearest(lines: Sequence[str], wanted: str, among: Sequence[int]) -> int | None:
    numbers = among or range(len(lines))
    best, at = _CLOSE, None
    for number in numbers:
        likeness = _likeness(wanted, lines[number])
        if likeness > best:
            best, at = likeness, number
    return at if at is not None or not among else _nearest(lines, wanted, ())


def _window(lines: Sequence[str], wanted: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers (from 0) of the consecutive lines most similar to those wanted."""
    asked = [_words(line) for line in wanted]
    scores = [_shared(_words(line), asked) for line in lines]
    size = min(len(wanted), _SHOWN)
    sums = [
        sum(s for s in scores[n : n + size] if s > _CLOSE) for n in range(len(lines) - size + 1)
    ]
    if not sums or max(sums) == 0:
        return ()
    first = sums.index(max(sums))
    return tuple(n for n in range(first, first + size) if lines[n].strip())


def _words(line: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+|[^\w\s]", line))


def _shared(words: frozenset[str], asked: Sequence[frozenset[str]]) -> float:
    """Return the largest share of words (0 to 1) that a line has in common with any asked for."""
    if not words:
        return 0.0
    return max(2 * len(words & other) / (len(words) + len(other)) for other in asked)


def _likeness(a: str, b: str) -> float:
    a, b = a.strip()[:_LINE], b.strip()[:_LINE]
    if not a or not b:
        return 0.0
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    if matcher.real_quick_ratio() <= _CLOSE or matcher.quick_ratio() <= _CLOSE:
        return 0.0
    return matcher.ratio()


NO_TEXT = "the new text holds characters that cannot be written as UTF-8"
BESIDE = "code stands beside its blocks; write the whole file, or the blocks alone"
CONFLICT, CALL = "conflict markers", "a call of a tool"
_HALF = 0.5
_TALK = re.compile(r"[#<]|\w+$")  # a comment, a tag, a word


def apply(
    files: Mapping[str, str], edits: Iterable[Edit | UnitEdit], editable: Iterable[str]
) -> dict[str, str] | EditError:
    """Return the files after all edits in order, or the first error; `files` is not changed.

    `editable` holds names or fnmatch patterns. An edit that replaces a whole file may create it,
    if it is editable.
    """
    applied = apply_noted(files, edits, editable)
    return applied if isinstance(applied, EditError) else dict(applied.files)


def apply_noted(
    files: Mapping[str, str], edits: Iterable[Edit | UnitEdit], editable: Iterable[str]
) -> Applied | EditError:
    """Return the same as `apply`, with a note on how each edit was matched."""
    patterns, todo = tuple(editable), tuple(edits)
    changed = dict(files)
    notes: list[Note] = []
    before: dict[str, Edit] = {}
    for number, edit in enumerate(todo, 1):
        file, result = _file_and_change(changed, edit, patterns, before)
        if isinstance(result, Refusal):
            return EditError(
                file=file, reason=result.reason, near=result.near, edit=number, of=len(todo)
            )
        changed[file] = result.text
        if isinstance(edit, Edit):
            before[file] = edit
        notes.append(
            Note(
                file=file,
                matched=result.matched,
                first=result.first,
                last=result.last,
                beside=result.beside,
            )
        )
    for file in {note.file for note in notes if note.matched == "unit"}:
        changed[file] = without_idle_imports(files.get(file, ""), changed[file])
    return Applied(files=changed, notes=tuple(notes))


def _file_and_change(
    files: Mapping[str, str],
    edit: Edit | UnitEdit,
    editable: tuple[str, ...],
    before: Mapping[str, Edit],
) -> tuple[str, Changed | Refusal]:
    if isinstance(edit, Edit):
        return edit.file, _apply_one(files, edit, editable, before.get(edit.file))
    if not _is_text(edit.code):
        return _file_of(edit), Refusal(NO_TEXT)
    there = (name for name in files if any(fnmatchcase(name, p) for p in editable))
    found = apply_unit(files, edit, dict.fromkeys([*there, *filter(_is_plain, editable)]))
    return (_file_of(edit), found) if isinstance(found, Refusal) else found


def _file_of(edit: UnitEdit) -> str:
    return edit.unit.partition(":")[0]


def _apply_one(
    files: Mapping[str, str], edit: Edit, editable: tuple[str, ...], before: Edit | None
) -> Changed | Refusal:
    reason = _refusal(files, edit, editable)
    if reason is not None:
        return Refusal(reason)
    old = files.get(edit.file)
    if old is not None and edit.search is not None and edit == before:
        # Models repeat edits; an insertion is not wanted twice.
        return Changed(old, "repeated", 1, 0)
    result = _read(old, _unescaped(edit))
    if isinstance(result, Refusal) or not _gains_markers(old or "", result.text, edit.file):
        return result
    return Refusal(
        "the new text holds conflict markers, and what they mean cannot be told; write the lines "
        "as they shall be"
    )


def _gains_markers(old: str, new: str, file: str) -> bool:
    """Return whether an edit adds conflict markers to a file, other than in its code's strings."""
    if markup.is_marked(old) or not markup.is_marked(new):
        return False
    return not is_python(file) or fault(new) is not None


def _unescaped(edit: Edit) -> Edit:
    """Return an edit of Python without HTML escapes, if some are where only code can be."""
    texts = (edit.search or "", edit.replace)
    if not is_python(edit.file) or not any(map(has_entities, texts)):
        return edit
    search = None if edit.search is None else html.unescape(edit.search)
    return edit.model_copy(update={"search": search, "replace": html.unescape(edit.replace)})


def _read(old: str | None, edit: Edit) -> Changed | Refusal:
    """Return the change that an edit means, in any of the known notations."""
    python = is_python(edit.file)
    marked = markup.find(edit, old or "")
    whole = edit.search is None
    if marked is not None and not (whole and python and fault(edit.replace) is None):
        resolved = _resolved(marked, old, edit.file) if whole else None
        if resolved is not None:
            return resolved
        pairs = [(_text(block.search), _text(block.new)) for block in marked.blocks]
        return _in_turn(old, pairs, CONFLICT, python)
    called = markup.calls(edit.replace) if python and whole else None
    if called is not None:
        if [search for search, _ in called] == [None]:
            return matching.whole_file(old, called[0][1], edit.file, python)
        return _in_turn(old, [(search or "", new) for search, new in called], CALL, python)
    if edit.search is None:
        return matching.whole_file(old, edit.replace, edit.file, python)
    return _placed(old or "", edit.search, edit.replace, python)


def _resolved(marked: markup.Blocks, old: str | None, file: str) -> Changed | Refusal | None:
    """Return a whole file that holds blocks; None if nothing but the blocks belongs to the file.

    Tags, comments or code may stand beside a block. They are the file only if they hold most of the
    old one: else its other lines would be lost silently. Nor is new code lost beside a block.
    """
    other, python = marked.other(file), is_python(file)
    known = {line.strip() for line in (old or "").split("\n")} - {""}
    left = known.difference(line.strip() for block in marked.blocks for line in block.search)
    if not other or not (python or known.issuperset(other)):
        return None
    text = marked.resolved(old or "")
    new = matching.whole_file(old, text, file, python) if text is not None else None
    if not isinstance(new, Changed) or (python and fault(new.text) is not None):
        return None  # talk around the blocks
    if _kept(left, other) <= _HALF:
        added = (line for line in other if line not in known and not _TALK.match(line))
        return Refusal(BESIDE) if any(added) else None
    return replace(new, beside=(*new.beside, CONFLICT))


def _kept(lines: Collection[str], new: Collection[str]) -> float:
    """Return the share of some lines (0 to 1) that are among the new ones."""
    return len(set(lines).intersection(new)) / len(lines) if lines else 1.0


def _in_turn(
    old: str | None, pairs: Sequence[tuple[str, str]], how: str, python: bool
) -> Changed | Refusal:
    """Return a text after several edits, applied in order."""
    text, beside = old or "", [how]
    first: int | None = None
    for number, (search, new) in enumerate(pairs, 1):
        if not search.strip():
            if text.strip():
                return Refusal(f"part {number} of {len(pairs)} searches for nothing")
            text, first = new if new.endswith("\n") else f"{new}\n", 1
            continue
        found = _placed(text, search, new, python)
        if isinstance(found, Refusal):
            return Refusal(f"part {number} of {len(pairs)}: {found.reason}", found.near)
        text, beside = found.text, [*beside, *found.beside]
        first = min(found.first, first or found.first)
    last = old.count("\n") + (not old.endswith("\n")) if old else 0
    return Changed(text, "whole file", first or 1, last, tuple(dict.fromkeys(beside)))


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines)


def _placed(text: str, search: str, new: str, python: bool) -> Changed | Refusal:
    """Return a text with `new` in place of the search text, or why that is refused."""
    found = matching.find(text, search, new, python)
    if found is None and search.strip():
        found = by_lines.find(text, search, new, python)
    elif isinstance(found, Changed) and python and _breaks(text, found.text):
        other = by_lines.find(text, search, new, python)
        if isinstance(other, Changed) and other.first == found.first:
            found = other
    return found or Refusal(*not_found(text, search, new))


def _breaks(before: str, after: str) -> bool:
    return fault(before) is None and fault(after) is not None


def _refusal(files: Mapping[str, str], edit: Edit, editable: tuple[str, ...]) -> str | None:
    """Return why an edit is refused whatever the file holds; None if it is not."""
    known = edit.file in files
    reason: str | None = None
    if not _is_plain(edit.file) or not any(fnmatchcase(edit.file, p) for p in editable):
        problem = "this file may not be edited" if known else "there is no such file"
        reason = f"{problem}; editable: {', '.join(editable)}"
    elif not _is_text(edit.replace):
        reason = NO_TEXT
    elif edit.search == "":
        reason = "search is empty; set it to null to replace the whole file"
    elif edit.search is not None and not known:
        reason = "there is no such file to search in; set search to null to make it"
    return reason


def _is_plain(name: str) -> bool:
    """Return whether a name stays inside the code folder and means the same everywhere."""
    path = PurePosixPath(name)
    parts = path.parts
    return (
        bool(parts)
        and path.as_posix() == name
        and not path.is_absolute()
        and not {"..", "__pycache__"}.intersection(parts)
        and "\\" not in name
        and name.isprintable()
    )


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
