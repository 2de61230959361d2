"""Paths as people write them: with `~` for a home folder, and links that may lead in a circle."""

from __future__ import annotations

import os
from pathlib import Path

from hpcscientist.errors import UsageError


def expanded(given: str | Path) -> Path:
    """Return a path with its `~` or `~user` replaced by that home folder.

    Raises UsageError where there is none: no user of that name, or no HOME and no entry for
    this user, as in some containers.
    """
    try:
        return Path(given).expanduser()
    except RuntimeError as error:
        raise UsageError(
            f"{given}: there is no such home folder; give the whole path, or set HOME"
        ) from error


def resolved(path: Path) -> Path:
    """Return an absolute path without links. A link that leads to itself stays as it is.

    (What pathlib says of such a link differs from one Python to the next.)
    """
    return Path(os.path.realpath(path))
