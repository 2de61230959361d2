"""From what a user names to a folder: a path, or a name of the model hub in the local cache."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hpcscientist.errors import NoWeights
from hpcscientist.files.handed import expanded

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def resolve(name: str, environ: Mapping[str, str], folder: Path) -> Path:
    """Return the absolute folder of a model: NAME below `folder`, or a snapshot in the hub's cache.

    Nothing is downloaded. Raises NoWeights, which says how to bring a model here.
    """
    path = (folder / expanded(name)).absolute()
    if path.is_dir():
        return path
    if path.exists():
        raise NoWeights(f"{path} is a file: give the folder that holds config.json and weights")
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise NoWeights(f"{path}: there is no such folder; give the folder of a model's weights")
    cache = hub_cache(environ)
    repository = cache / f"models--{name.replace('/', '--')}"
    found = _snapshot(repository)
    if found is not None:
        return found
    lack = "has no finished download of it" if repository.is_dir() else "does not hold it"
    raise NoWeights(
        f"{name}: no such folder below {folder}, and the hub's cache {cache} {lack}; on a machine "
        f"with internet run `hf download {name} --local-dir {name.rpartition('/')[2]}`, copy that "
        "folder to a file system that nodes see, and give vllm:/PATH/TO/IT"
    )


def hub_cache(environ: Mapping[str, str]) -> Path:
    """Return where the hub's client keeps downloads (huggingface_hub's constants.py)."""
    cache_home = environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = environ.get("HF_HOME") or f"{cache_home}/huggingface"
    place = environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE") or f"{home}/hub"
    return expanded(place).absolute()


def _snapshot(repository: Path) -> Path | None:
    """Return the snapshot of the main branch, or else the one most recently made."""
    snapshots = repository / "snapshots"
    try:
        main = snapshots / (repository / "refs" / "main").read_text(encoding="utf-8").strip()
        if main.is_dir() and main != snapshots:
            return main
    except (OSError, UnicodeDecodeError):
        pass
    try:
        made = [path for path in snapshots.iterdir() if path.is_dir()]
        return max(made, key=lambda path: (path.stat().st_mtime, path.name), default=None)
    except OSError:
        return None
