"""Where labels and campaigns' keys lie: apart from everything that a candidate is told of.

Files that a candidate could reach name labels by a key, never by a path.

The root is HPCSCI_PATHS_PRIVATE or the user's state folder. `use_root` sets the variable where
that was configured by file, so that workers find the same place. This is no protection from
code that runs as the same user and searches; it only tells nobody the way.
"""

from __future__ import annotations

import errno
import hmac
import os
import secrets
from pathlib import Path

from hpcscientist.errors import RunDirectoryError
from hpcscientist.files.handed import expanded, resolved

ROOT_VARIABLE = "HPCSCI_PATHS_PRIVATE"
_KEY_BYTES = 32
_STALE_TRIES = 3
_known: dict[Path, bytes] = {}


def default_root() -> Path:
    """The root unless something else is configured."""
    state = os.environ.get("XDG_STATE_HOME") or str(expanded("~/.local/state"))
    # The word that was used for the vault first; labels lie there on users' disks.
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


def told(path: Path) -> str:
    """Name a path to whoever finds it by `path_of`: what lies below the root by its key alone."""
    root, real = resolved(path_of("")), resolved(path.absolute())
    return real.relative_to(root).as_posix() if real.is_relative_to(root) else str(path)


def make_campaign_key(campaign_id: str) -> None:
    """Make the secret with which a campaign's workers seal their results. Raises OSError."""
    path = _key_file(campaign_id)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(_KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    _known.pop(path, None)


def forget_campaign_key(campaign_id: str) -> None:
    """Remove the secret of a campaign that came to nothing."""
    path = _key_file(campaign_id)
    path.unlink(missing_ok=True)
    _known.pop(path, None)


def campaign_key(campaign_id: str) -> bytes | None:
    """Return a campaign's secret; None if it has none. Raises OSError where that is not known."""
    path = _key_file(campaign_id)
    if path not in _known:
        key = _read_key(path)
        if key is None:
            return None  # not remembered: the file may come back
        _known[path] = key
    return _known[path]


def seal(campaign_id: str, content: bytes) -> str:
    """Return what only who has a campaign's secret can write of a content; "" where it has none.

    Raises OSError where that is not known.
    """
    key = campaign_key(campaign_id)
    return "" if key is None else hmac.digest(key, content, "sha256").hex()


def has_key(campaign_id: str) -> bool:
    """Whether a campaign of this user has that id. Raises OSError where that is not known."""
    plain = campaign_id.isprintable() and campaign_id not in ("", ".", "..")
    return plain and "/" not in campaign_id and campaign_key(campaign_id) is not None


def require_campaign_key(campaign_id: str) -> None:
    """See that a campaign that was given a secret has it. Raises RunDirectoryError, and OSError.

    Without it a result that anybody wrote could not be told from one of a worker.
    """
    if campaign_key(campaign_id) is None:
        raise RunDirectoryError(
            f"{_key_file(campaign_id)}: the key of this campaign is gone, and without it no "
            "result can be trusted; restore that file, or set paths.private to where it lies"
        )


def _key_file(campaign_id: str) -> Path:
    return path_of(f"keys/{campaign_id}")


def _read_key(path: Path) -> bytes | None:
    """Read a key; None for no file, and for one that was not written to its end."""
    for _ in range(_STALE_TRIES):
        try:
            key = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:  # NFS: the file was there when its name was looked up
            if error.errno != errno.ESTALE:
                raise
            continue
        return key if len(key) == 2 * _KEY_BYTES else None
    raise OSError(errno.ESTALE, "is a stale handle again and again; try anew", str(path))
