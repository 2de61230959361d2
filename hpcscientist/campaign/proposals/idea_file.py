"""Reads and writes idea.json, and makes the journal event for it."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from hpcscientist.errors import IdeaDamaged
from hpcscientist.files.atomic import write_text
from hpcscientist.files.handed import Read, read_regular
from hpcscientist.files.hashing import hash_bytes
from hpcscientist.records.events import IdeaProposed
from hpcscientist.records.idea import Idea


def read_idea(path: Path, idea_hash: str = "", read: Read = read_regular) -> Idea | None:
    """Return a recorded idea, None if the file is missing.

    `idea_hash` is the file's hash if it is known; `read` returns the file's content. Raises
    IdeaDamaged if the file is damaged or has another hash.
    """
    try:
        content = read(path)
    except FileNotFoundError:
        return None
    if idea_hash and hash_bytes(content) != idea_hash:
        raise IdeaDamaged(f"{path}: is not what was proposed; restore it from a backup")
    try:
        return Idea.model_validate_json(content)
    except ValidationError as error:
        raise IdeaDamaged(f"{path}: is damaged; restore it from a backup") from error


def write_idea(path: Path, idea: Idea) -> str:
    """Write an idea's file, replacing an earlier one; return its text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = idea.model_dump_json(indent=2) + "\n"
    write_text(path, text)
    return text


def proposed(idea: Idea, idea_hash: str, changes: tuple[str, ...] = ()) -> IdeaProposed:
    """Return the event for an idea whose file has this hash, "" if no proposal was usable."""
    return IdeaProposed(
        idea_id=idea.idea_id,
        number=idea.number,
        round=idea.round,
        title=idea.proposal.title,
        parent_ids=idea.proposal.parent_ids,
        arm=idea.arm,
        summary=idea.proposal.summary,
        knobs=idea.knobs,
        shown=idea.shown,
        idea_hash=idea_hash,
        changes=changes,
    )


def known_idea(path: Path, idea_hash: str = "", read: Read = read_regular) -> Idea:
    """Return a recorded idea; for the arguments see `read_idea`.

    Raises IdeaDamaged if the file is missing or damaged.
    """
    try:
        idea = read_idea(path, idea_hash, read)
    except OSError as error:
        raise IdeaDamaged(
            f"{path}: cannot be read: {error.strerror}; restore it from a backup"
        ) from error
    if idea is None:
        raise IdeaDamaged(f"{path}: is gone; restore it from a backup")
    return idea
