"""Where labels and campaigns' keys lie: apart from everything that a candidate is told of.

Files that a candidate could reach name labels by a key, never by a path.

The root is HPCSCI_PATHS_PRIVATE or the user's state folder. `use_root` sets the variable where
that was configured by file, so that workers find the same place. This is no protection from
code that runs as the same user and searches; it only tells nobody the way.
"""

from __future__ import annotations

import os
import secrets
from functools import lru_cache
from pathlib import Path

ROOT_VARIABLE = "HPCSCI_PATHS_PRIVATE"


def default_root() -> Path:
    """The root unless something else is configured."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(state) / "hpcscientist" / "sealed"


def use_root(root: Path) -> None:
    """Make this process and its workers look below `root`."""
    if root != default_root():
        os.environ[ROOT_VARIABLE] = str(root)


def key_of(folder: Path) -> str:
    """The key of a folder of labels, `DATA/SPLIT`."""
    return f"{folder.parent.name}/{folder.name}"


def path_of(key: str) -> Path:
    """The folder of a key; an absolute path stands for itself."""
    return Path(os.environ.get(ROOT_VARIABLE) or default_root()).absolute() / key


def make_campaign_key(campaign_id: str) -> None:
    """Make the secret with which a campaign's workers seal their results. Raises OSError."""
    path = path_of(f"keys/{campaign_id}")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(32))
    _read_key.cache_clear()


def forget_campaign_key(campaign_id: str) -> None:
    """Remove the secret of a campaign that came to nothing."""
    path_of(f"keys/{campaign_id}").unlink(missing_ok=True)
    _read_key.cache_clear()


def campaign_key(campaign_id: str) -> bytes | None:
    """Return a campaign's secret; None if it has none."""
    return _read_key(path_of(f"keys/{campaign_id}"))


@lru_cache
def _read_key(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
