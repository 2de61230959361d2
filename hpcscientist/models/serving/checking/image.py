"""The engine in an image: the Apptainer command, what it sees of the node, and which variables.

The container starts with an environment of its own, because what a user's shell has set for other
Pythons and libraries does not fit the image's. What says which devices and networks are ours goes
along by name; it is read on the node, where Slurm sets it for each step.
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
# Not by --env, which splits values at commas, and GPUs are listed with them.
# The home that the image sees may hold the user's own packages, another torch among them.
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
    """An image in which engines run. `nvidia`: with the driver's libraries of the node.

    `scratch` is the site's folder on each node's disk, `$VARIABLES` and all.
    """

    path: str
    nvidia: bool = False
    scratch: str = ""

    def prefix(self, folders: Iterable[Path] = ()) -> tuple[str, ...]:
        """Return what stands before a command in the image, which sees these folders too.

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
    """Return a model's folder, and those that its files are linked from (a hub's cache)."""
    found = [folder]
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.is_symlink():
            found.append(path.resolve().parent)
    return list(dict.fromkeys(found))
