"""The private root, where labels and campaigns' keys are, apart from all paths given to candidates.

Files that a candidate could read name labels by a key, never by a path.

The root is HPCSCI_PATHS_PRIVATE or the user's state folder. If the root is configured by file,
`use_root` sets the variable, so that workers find the same place. This does not protect from code
that runs as the same user and searches the disk; it only discloses no path.
"""

from __future__ import annotations

import errno
import hmac
import os
import secrets
from functools import cache
from pathlib import Path

from hpcscientist.errors import RunDirectoryError
from hpcscientist.files.handed import expanded, resolved

ROOT_VARIABLE = "HPCSCI_PATHS_PRIVATE"
_KEY_BYTES = 32
_STALE_TRIES = 3
_known: dict[Path, bytes] = {}


def default_root() -> Path:
    """Return the root that is used unless another is configured."""
    return _root_in(os.environ.get("XDG_STATE_HOME"), os.environ.get("HOME"))


@cache  # a driver asks several times per trial
def _root_in(state: str | None, home: str | None) -> Path:
    """Return the default root in a state folder, or else in the usual one below `home`."""
    # The vault's first name: users have labels in this folder.
    return Path(state or expanded("~/.local/state")) / "hpcscientist" / "sealed"


def use_root(root: Path) -> None:
    """Use `root` in this process and in its workers."""
    if root != default_root():
        os.environ[ROOT_VARIABLE] = str(root)


def key_of(folder: Path) -> str:
    """Return the key of a folder of labels, `DATA/SPLIT`."""
    return f"{folder.parent.name}/{folder.name}"


def path_of(key: str) -> Path:
    """Return the folder of a key; an absolute path is returned as it is."""
    return Path(os.environ.get(ROOT_VARIABLE) or default_root()).absolute() / key


def told(path: Path) -> str:
    """Return the name of a path for `path_of`: its key if it is below the root, else the path."""
    root, real = resolved(path_of("")), resolved(path.absolute())
    return real.relative_to(root).as_posix() if real.is_relative_to(root) else str(path)


def make_campaign_key(campaign_id: str) -> None:
    """Create the key with which a campaign's workers sign their results. Raises OSError."""
    path = _key_file(campaign_id)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(_KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    _known.pop(path, None)


def forget_campaign_key(campaign_id: str) -> None:
    """Remove a campaign's key."""
    path = _key_file(campaign_id)
    path.unlink(missing_ok=True)
    _known.pop(path, None)


def campaign_key(campaign_id: str) -> bytes | None:
    """Return a campaign's key; None if it has none. Raises OSError if that is unknown."""
    path = _key_file(campaign_id)
    if path not in _known:
        key = _read_key(path)
        if key is None:
            return None  # not cached: the file may come back
        _known[path] = key
    return _known[path]


def seal(campaign_id: str, content: bytes) -> str:
    """Return the signature of `content` with a campaign's key (HMAC-SHA-256); "" without a key.

    Raises OSError if it is unknown whether there is a key.
    """
    key = campaign_key(campaign_id)
    return "" if key is None else hmac.digest(key, content, "sha256").hex()


def has_key(campaign_id: str) -> bool:
    """Return whether this user has a key for a campaign. Raises OSError if that is unknown."""
    plain = campaign_id.isprintable() and campaign_id not in ("", ".", "..")
    return plain and "/" not in campaign_id and campaign_key(campaign_id) is not None


def require_campaign_key(campaign_id: str) -> None:
    """Check that a campaign that was given a key still has it. Raises RunDirectoryError, OSError.

    Without the key, a worker's result cannot be distinguished from a forged one.
    """
    if campaign_key(campaign_id) is None:
        raise RunDirectoryError(
            f"{_key_file(campaign_id)}: the key of this campaign is gone, and without it no "
            "result can be trusted; restore that file, or set paths.private to where it lies"
        )


def _key_file(campaign_id: str) -> Path:
    return path_of(f"keys/{campaign_id}")


def _read_key(path: Path) -> bytes | None:
    """Return the key in a file; None if the file does not exist or is incomplete."""
    for _ in range(_STALE_TRIES):
        try:
            key = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:  # NFS: the file was removed between lookup and read
            if error.errno != errno.ESTALE:
                raise
            continue
        return key if len(key) == 2 * _KEY_BYTES else None
    raise OSError(errno.ESTALE, "is a stale handle again and again; try anew", str(path))
