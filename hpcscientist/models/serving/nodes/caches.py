"""Where an engine keeps what it compiles: in a folder of its own on its node.

A replica has its own (`replica`), and vLLM gives its workers the same variables. Those on another
node than the replica's would write outside of that node's folder, where nobody clears away; so
each of them makes one of its own. vLLM's way to have something done in each of its processes is a
plugin (entry points `vllm.general_plugins`); it loads every one that is installed beside it, also
in engines that are not ours.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

FOLDER = "HPCSCI_PLANE_FOLDER"  # of the node that a process is on
_CACHES = {
    "VLLM_CACHE_ROOT": "vllm",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "XDG_CACHE_HOME": "cache",
}


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
