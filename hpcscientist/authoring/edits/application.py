"""Applies edits in order, all or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from hpcscientist.authoring.edits.finding import exact, fuzzy
from hpcscientist.authoring.edits.finding.explaining import not_found
from hpcscientist.authoring.edits.outcome import Applied, Changed, EditError, Note, Refusal
from hpcscientist.authoring.edits.syntax import fault, is_python
from hpcscientist.records.asked.replies import Edit


def apply(
    files: Mapping[str, str], edits: Iterable[Edit], editable: Iterable[str]
) -> dict[str, str] | EditError:
    """Return the files after all edits in order, or the first error; `files` is not changed.

    `editable` holds names, or patterns as of fnmatch. A new file may be made by replacing
    it as a whole, if it is editable.
    """
    applied = apply_noted(files, edits, editable)
    return applied if isinstance(applied, EditError) else dict(applied.files)


def apply_noted(
    files: Mapping[str, str], edits: Iterable[Edit], editable: Iterable[str]
) -> Applied | EditError:
    """Do as `apply`, and tell how each edit was matched."""
    patterns, todo = tuple(editable), tuple(edits)
    changed = dict(files)
    notes: list[Note] = []
    before: dict[str, Edit] = {}
    for number, edit in enumerate(todo, 1):
        result = _apply_one(changed, edit, patterns, before.get(edit.file))
        if isinstance(result, Refusal):
            return EditError(
                file=edit.file, reason=result.reason, near=result.near, edit=number, of=len(todo)
            )
        changed[edit.file] = result.text
        before[edit.file] = edit
        notes.append(
            Note(
                file=edit.file,
                matched=result.matched,
                first=result.first,
                last=result.last,
                beside=result.beside,
            )
        )
    return Applied(files=changed, notes=tuple(notes))


def _apply_one(
    files: Mapping[str, str], edit: Edit, editable: tuple[str, ...], before: Edit | None
) -> Changed | Refusal:
    reason = _refusal(files, edit, editable)
    if reason is not None:
        return Refusal(reason)
    python = is_python(edit.file)
    if edit.search is None:
        return exact.whole_file(files.get(edit.file), edit.replace, edit.file, python)
    text = files[edit.file]
    if edit == before:  # models repeat themselves; an insertion is not wanted twice
        return Changed(text, "repeated", 1, 0)
    found = exact.find(text, edit.search, edit.replace, python)
    if found is None and edit.search.strip():
        found = fuzzy.find(text, edit.search, edit.replace, python)
    elif isinstance(found, Changed) and python and _breaks(text, found.text):
        other = fuzzy.find(text, edit.search, edit.replace, python)
        if isinstance(other, Changed) and other.first == found.first:
            found = other
    return found or Refusal(*not_found(text, edit.search, edit.replace))


def _breaks(before: str, after: str) -> bool:
    return fault(before) is None and fault(after) is not None


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
