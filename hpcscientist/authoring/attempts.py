"""Attempts on disk: one folder per version of an idea's code, written once."""

from __future__ import annotations

import contextlib
import difflib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from hpcscientist.files.atomic import sync_folder, write_text
from hpcscientist.files.handed import LARGEST_TEXT, read_regular
from hpcscientist.files.hashing import hash_texts, holds, tree_files
from hpcscientist.files.rundir import IdeaPaths
from hpcscientist.records.authoring import Draft
from hpcscientist.records.idea import Attempt

_NOTE = "note.md"


def save(paths: IdeaPaths, number: int, draft: Draft, previous_files: Mapping[str, str]) -> Attempt:
    """Write attempt `number`: its code, a patch against `previous_files`, and its note.

    The code folder appears last and whole. Saving the same draft again changes nothing. A folder
    with other content is replaced: it is half-written, or a driver was killed before it recorded
    the attempt in the journal. Raises OSError.
    """
    folder, code = paths.attempt(number), paths.code(number)
    code_hash = hash_texts(draft.files)
    folder.mkdir(parents=True, exist_ok=True)
    for left_over in folder.glob(".code.*"):
        _remove(left_over)
    # Only people read these files. If a power cut loses them, the code of both versions and the
    # journal still hold the same facts.
    for name, text in beside(draft, previous_files).items():
        write_text(folder / name, text, durable=False)
    is_folder = code.is_dir() and not code.is_symlink()
    if not (is_folder and holds(code, code_hash, LARGEST_TEXT)):
        _replace(code, draft.files)
    sync_folder(folder)
    idea_id = paths.root.name
    return Attempt(idea_id=idea_id, number=number, code_hash=code_hash, note=draft.note)


def beside(draft: Draft, previous_files: Mapping[str, str]) -> dict[str, str]:
    """Return the files stored beside an attempt's code, by name: its patch and its note."""
    return {"diff.patch": patch(previous_files, draft.files), _NOTE: f"{draft.note}\n"}


def write_note(paths: IdeaPaths, number: int, note: str) -> None:
    """Write an attempt's note. Raises OSError."""
    write_text(paths.attempt(number) / _NOTE, note + "\n", durable=False)


def load(
    paths: IdeaPaths,
    number: int,
    note: str | None = None,
    copied: Mapping[str, str] | None = None,
) -> Draft | None:
    """Return an attempt as it was saved; None if it was not saved or can no longer be read.

    If `note` is given, the note file may be missing; it is rewritten if it differs. `copied` is the
    code as a trusted copy has it.

    Candidate code that ran without a sandbox may have replaced any file. So links, devices and
    pipes are not read, and neither is a folder of more than LARGEST_TEXT bytes.
    """
    code = paths.code(number)
    if copied is None and not code.is_dir():
        return None
    try:
        if copied is not None:
            return Draft(files=dict(copied), note=_note(paths, number, note))
        found = tree_files(code)
        if sum(path.stat().st_size for path in found) > LARGEST_TEXT:
            return None
        # Read as bytes, so that line endings and the hash stay the same.
        files = {path.relative_to(code).as_posix(): _read(path) for path in found}
        return Draft(files=files, note=_note(paths, number, note))
    except (OSError, UnicodeDecodeError):
        return None


def _note(paths: IdeaPaths, number: int, known: str | None) -> str:
    path = paths.attempt(number) / _NOTE
    if known is None:
        return _read(path).removesuffix("\n")
    # Only people read the file, so a failure to read or write it does not matter.
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if _read(path) == known + "\n":
            return known
    with contextlib.suppress(OSError):
        write_note(paths, number, known)
    return known


def _read(path: Path) -> str:
    return read_regular(path, follow=False).decode()


def patch(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Return a unified diff between two sets of files, in the format of `patch -p1`."""
    parts: list[str] = []
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if before != after:
            diff = difflib.unified_diff(
                _lines(before or ""),
                _lines(after or ""),
                "/dev/null" if before is None else f"a/{name}",
                "/dev/null" if after is None else f"b/{name}",
            )
            parts += [
                line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
                for line in diff
            ]
    return "".join(parts)


def _lines(text: str) -> list[str]:
    """Return the lines, split only at line feeds (unlike str.splitlines), which are kept."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _remove(path: Path) -> None:
    """Remove a file, link or folder: candidate code may have put anything there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _replace(code: Path, files: Mapping[str, str]) -> None:
    temporary = code.with_name(f".code.{os.getpid()}")
    temporary.mkdir()
    try:
        for name, text in files.items():
            path = temporary / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, text, listed=False)
        for inner in {folder for name in files for folder in (temporary / name).parents}:
            if inner.is_relative_to(temporary):
                sync_folder(inner)
        _remove(code)
        temporary.rename(code)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
