"""Where labels lie. Files that a candidate could reach name them by a key, never by a path.

The root is HPCSCI_PATHS_PRIVATE or the user's state folder. A driver that was configured by
file sets the variable, so that its workers find the same place. This is no protection from
code that runs as the same user and searches; it only tells nobody the way.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT_VARIABLE = "HPCSCI_PATHS_PRIVATE"


def default_root() -> Path:
    """The root unless something else is configured."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(state) / "hpcscientist" / "sealed"


def key_of(folder: Path) -> str:
    """The key of a folder of labels, `DATA/SPLIT`."""
    return f"{folder.parent.name}/{folder.name}"


def path_of(key: str) -> Path:
    """The folder of a key; an absolute path stands for itself."""
    return Path(os.environ.get(ROOT_VARIABLE) or default_root()).absolute() / key
