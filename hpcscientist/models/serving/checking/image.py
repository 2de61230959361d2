"""An engine in an image: the Apptainer command, its view of the node, and its variables.

The container starts with a clean environment, because variables that a user's shell sets for other
Pythons and libraries do not fit the image. Variables that select devices and networks are passed by
name. They are read on the node, where Slurm sets them for each step.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.errors import ServingError

APPTAINER = "apptainer"
CARRIED = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"),
    *("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    *("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_IB_DISABLE", "NCCL_NET", "NCCL_P2P_DISABLE"),
    *("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "UCX_NET_DEVICES"),
)
# --env is not used because it splits values at commas, which separate GPUs.
# The home seen from the image may hold the user's own packages, such as another torch.
_SHELL = (
    "export APPTAINERENV_PYTHONNOUSERSITE=1; "
    "for name in {names}; do "
    'eval "value=\\${{$name-}}"; [ -z "$value" ] || export "APPTAINERENV_$name=$value"; done; '
    'where="{scratch}"; [ ! -d "$where" ] || '
    'export APPTAINER_BIND="${{APPTAINER_BIND:+$APPTAINER_BIND,}}$where"; '
    'exec "$@"'
)
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Image:
    """An image in which engines run. `nvidia`: bind the node's driver libraries.

    `scratch` is the site's folder on each node's disk, with `$VARIABLES` unexpanded.
    """

    path: str
    nvidia: bool = False
    scratch: str = ""

    def prefix(self, folders: Iterable[Path] = ()) -> tuple[str, ...]:
        """Return the words before a command to run it in the image, with access to these folders.

        Raises ServingError for a folder that Apptainer cannot bind.
        """
        binds = [str(folder) for folder in dict.fromkeys(folders)]
        for path in binds:
            if set(path) & set(":,"):
                raise ServingError(
                    f"Apptainer cannot bind {path}: use a path without colon and comma, or set "
                    "serving.python in place of serving.image"
                )
        names = dict.fromkeys((*CARRIED, *_VARIABLE.findall(self.scratch)))
        plain = not set(self.scratch) & set('"`\\') and "$(" not in self.scratch
        shell = _SHELL.format(names=" ".join(names), scratch=self.scratch if plain else "")
        return (
            *("/bin/sh", "-c", shell, "sh", APPTAINER, "exec", "--cleanenv", "--pwd", "/"),
            *(["--no-privs"] if os.geteuid() == 0 else []),
            *(["--nv"] if self.nvidia else []),
            *(part for path in binds for part in ("--bind", path)),
            self.path,
        )


def seen(folder: Path) -> list[Path]:
    """Return a model's folder, and the folders that its files link to (a hub's cache)."""
    found = [folder]
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.is_symlink():
            found.append(path.resolve().parent)
    return list(dict.fromkeys(found))
