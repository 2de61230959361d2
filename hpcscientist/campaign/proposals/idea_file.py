"""An idea's file, as it was recorded."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from hpcscientist.errors import RunDirectoryError
from hpcscientist.records.idea import Idea


def read_idea(path: Path) -> Idea | None:
    """Return a recorded idea; None where there is none. Raises RunDirectoryError if damaged."""
    try:
        return Idea.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise RunDirectoryError(f"{path}: is damaged; restore it from a backup") from error


def known_idea(path: Path) -> Idea:
    """Return an idea that was recorded. Raises RunDirectoryError if it is gone or damaged."""
    try:
        idea = read_idea(path)
    except OSError as error:
        raise RunDirectoryError(
            f"{path}: cannot be read: {error.strerror}; restore it from a backup"
        ) from error
    if idea is None:
        raise RunDirectoryError(f"{path}: is gone; restore it from a backup")
    return idea
