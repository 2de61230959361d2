"""Edits: how a model says what to change, and their application, all or nothing.

A rejected edit is data: its explanation goes back to the model. Only whole texts are
handled here; nothing touches the disk.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from hpcscientist.records.base import Record
from hpcscientist.records.replies import Edit

_CLOSE = 0.5  # below this likeness (0 to 1) a line is no hint
_LINE = 120


class EditError(Record):
    """Why an edit was rejected, in one line; `near` lists lines like the one not found."""

    file: str
    reason: str
    near: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the explanation, with the near lines below it."""
        return "\n".join([f"{self.file}: {self.reason}", *(f"    {line}" for line in self.near)])


def apply(
    files: Mapping[str, str], edits: Iterable[Edit], editable: Iterable[str]
) -> dict[str, str] | EditError:
    """Return the files after all edits in order, or the first error; `files` is not changed.

    `editable` holds names, or patterns as of fnmatch. A new file may be made by replacing
    it as a whole, if it is editable.
    """
    patterns = tuple(editable)
    changed = dict(files)
    for edit in edits:
        result = _apply_one(changed, edit, patterns)
        if isinstance(result, EditError):
            return result
        changed[edit.file] = result
    return changed


def _apply_one(files: Mapping[str, str], edit: Edit, editable: tuple[str, ...]) -> str | EditError:
    refusal = _refusal(files, edit, editable)
    if refusal is not None:
        return EditError(file=edit.file, reason=refusal)
    if edit.search is None:
        return edit.replace
    text, search = files[edit.file], edit.search
    first = text.find(search)
    if first < 0:
        return _not_found(edit.file, text, search)
    second = text.find(search, first + 1)  # from the next character: overlaps count
    if second >= 0:
        lines = ", ".join(str(text.count("\n", 0, at) + 1) for at in (first, second))
        reason = f"the search text occurs more than once (lines {lines}); add lines around it"
        return EditError(file=edit.file, reason=reason)
    return text[:first] + edit.replace + text[first + len(search) :]


def _refusal(files: Mapping[str, str], edit: Edit, editable: tuple[str, ...]) -> str | None:
    """Say why an edit is out of the question whatever the file holds; None if it is not."""
    known = edit.file in files
    reason: str | None = None
    if not _is_plain(edit.file) or not any(fnmatchcase(edit.file, p) for p in editable):
        problem = "this file may not be edited" if known else "there is no such file"
        reason = f"{problem}; editable: {', '.join(editable)}"
    elif not _is_text(edit.replace):
        reason = "the new text holds characters that cannot be written as UTF-8"
    elif edit.search == "":
        reason = "search is empty; set it to null to replace the whole file"
    elif edit.search is not None and not known:
        reason = "there is no such file to search in; set search to null to make it"
    return reason


def _is_plain(name: str) -> bool:
    """Whether a name stays inside the code folder and means the same everywhere."""
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


def _not_found(file: str, text: str, search: str) -> EditError:
    """Explain a search text that does not occur: its first line at fault, and lines like it."""
    lines = text.split("\n")
    present = {line.strip() for line in lines}
    wanted = [line for line in search.split("\n") if line.strip()] or [""]
    missing = next((line for line in wanted if line.strip() not in present), None)
    reason = "the search text does not occur: "
    if missing is None:
        reason += "its lines do, but not in a row or not with this white space"
    else:
        reason += f"no line reads {missing.strip()[:_LINE]!r}"
    return EditError(file=file, reason=reason, near=_near(lines, missing or wanted[0]))


def _near(lines: list[str], wanted: str) -> tuple[str, ...]:
    """Return up to three lines like the wanted one, with their numbers."""
    numbered = {f"line {n}: {line[:_LINE]}": line[:_LINE] for n, line in enumerate(lines, 1)}
    close = set(difflib.get_close_matches(wanted[:_LINE], numbered.values(), n=3, cutoff=_CLOSE))
    return tuple(shown for shown, line in numbered.items() if line in close)[:3]
